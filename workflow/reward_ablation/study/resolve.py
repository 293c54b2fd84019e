"""From a config to a study: validate the config, expand its arms, and give its runs keys.

Each check raises a ValueError, `key: what is wrong; what is allowed`. `resolve` puts the file's name before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_ablation.config.checks import (
    check_launchable,
    check_measurable,
    check_placeable,
    check_second_pass,
    check_single_rollouts,
)
from reward_ablation.config.config_errors import describe
from reward_ablation.config.designs import Arm, arms_here, key_of_arm
from reward_ablation.config.secrets import missing_variables, not_set, refuse_secrets
from reward_ablation.config.sections.data import SPLITS, Data, HubData, ProblemSource, further_columns
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.rewards.arguments import OF_TRAINER
from reward_ablation.spec.canonical import dump, key_of
from reward_ablation.spec.parts import CombineSpec
from reward_ablation.spec.run import ArmSpec, StudySpec
from reward_ablation.study.across_arms import check_control, check_scored, control_warnings, same_arms
from reward_ablation.study.claims import claims_of, recorded_claims, with_recovered
from reward_ablation.study.combine_spec import combine_spec, estimate_warnings, with_trl_methods
from reward_ablation.study.declarations import OnRecord
from reward_ablation.study.endpoint_requests import metric_warnings, request_warnings
from reward_ablation.study.looks import declared_looks, looks_plan, recorded_looks, recovered_looks, seeds_of_arms
from reward_ablation.study.primary import question_of, recorded_primary, recovered_primary, without_added_arms
from reward_ablation.study.reward_files import codes_on_record, imports_of_file
from reward_ablation.study.reward_import import defaults_of, planned_arguments
from reward_ablation.study.run import Run, folders_of, run_code
from reward_ablation.study.run_folder import DESCRIPTION, FOLDERS
from reward_ablation.study.shown_paths import path_warnings
from reward_ablation.study.specs_of_config import arm_spec, check_answers, contents_of, evaluation_spec, study_spec
from reward_ablation.study.standing import standings
from reward_ablation.study.study import Study
from reward_ablation.study.trained_keys import trained_keys
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.plain_values import check_length, check_values
from reward_ablation.system.strict_text import load_json
from reward_ablation.system.user_functions import in_a_file, names_a_module, user_file

#: Names that the workflow uses itself: folders of the default study, the base model's rows, and quantities in tables.
TAKEN = {
    "name": FOLDERS,
    "arms": ("base",),
    "components": ("total", "tokens", "truncated", "kl"),
}
#: Components in rldynamics' files.
RLDYNAMICS = ("correctness", "format", "length")
#: Arguments of a tokenizer's `apply_chat_template` that are not variables of the template.
OF_THE_CALL = {"conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt"}
OF_THE_CALL |= {"continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_tensors"}
OF_THE_CALL |= {"return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"}


def resolve(config: dict[str, Any], file: str, root: Path) -> Study:
    """Validate a config, as read from YAML, and resolve its arms into runs.

    `file` is the name of the config's file for messages. Relative paths in the config start from `root`. Raises
    StudyError (`file: key: what is wrong; what is allowed`) if the config is not valid.
    """
    try:
        check_values(config)
        refuse_secrets(config)
        return _resolved(StudyConfig.model_validate(config), config, root)
    except ValidationError as error:
        raise StudyError(f"{file}: {describe(error, config)}") from None
    except ValueError as error:  # StudyError included
        raise StudyError(f"{file}: {error}") from None


def _resolved(config: StudyConfig, written: dict[str, Any], root: Path) -> Study:
    """The study of a config that pydantic accepts."""
    arms = checked_arms(config, root)
    launches = launches_of(config, arms)
    check_launches(config, arms, launches)
    check_exports(config, arms)
    check_scored(config, arms)
    question = question_of(config, list(arms))
    described = described_before(config, root)
    shared = study_spec(config, root)
    specs = {
        name: arm_spec(
            shared, arm, launches[name], config.scored_in(arm), combined_arm(config, name, arm, root, launches[name])
        )
        for name, arm in arms.items()
    }
    runs_folder = root / config.root / "runs"
    specs, contents = codes_on_record(specs, contents_of(shared, specs), _names_in(runs_folder), root)
    keys = {name: key_of(content) for name, content in contents.items()}
    declared_keys = trained_keys(root / config.root, keys)
    began = cache(lambda: standings(runs_folder))
    question = question.with_keys(declared_keys)
    primary = recorded_primary(described) or recovered_primary(question, began)
    if config.primary.contrasts is None:
        question = without_added_arms(question, primary, runs_folder)
    plan = looks_plan(config, question, declared_keys, evaluation_spec(config).key)
    looks = recorded_looks(described) or recovered_looks(plan, began)
    if plan and (sequential := declared_looks(plan, looks, runs_folder)):
        config = config.with_seeds(seeds_of_arms(arms, question.contrasts, sequential))
    claims = claims_of(config, list(arms), question)
    folders = folders_of(keys, _names_in(runs_folder))
    runs = _runs(config, specs, contents, keys, folders, launches)
    resolved = Study(
        config=config,
        root=root,
        arms=arms,
        keys=keys,
        folders=folders,
        runs={run.name: run for run in runs},
        question=question,
        looks=plan,
        claims=claims,
        described=described,
        on_record=OnRecord(primary, with_recovered(recorded_claims(described), claims, began), looks),
        warnings=[
            *trained_on_test(config.data),
            *same_arms(contents, keys),
            *control_warnings(config, arms),
            *estimate_warnings(specs),
            *request_warnings(config, runs, root),
            *metric_warnings(config, runs, root),
            *_path_warnings(config, shared, contents),
        ],
    )
    check_lengths(resolved, written)
    return resolved


def _runs(
    config: StudyConfig,
    specs: dict[str, ArmSpec],
    contents: dict[str, dict[str, Any]],
    keys: dict[str, str],
    folders: dict[str, str],
    launches: dict[str, Launch],
) -> list[Run]:
    """The runs of all arms, each once: arms with the same spec share their runs. All but `folders` is by arm."""
    codes = {arm: run_code(tuple(spec.functions)) for arm, spec in specs.items()}
    sharing: dict[str, list[str]] = {}
    for arm, key in keys.items():
        sharing.setdefault(key, []).append(arm)
    return [
        Run(arm, key, seed, dump({**contents[arm], "seed": seed}), specs[arm], folders[key], launches[arm], codes[arm])
        for key, (arm, *others) in sharing.items()
        for seed in config.seeds_in_order([arm, *others])
    ]


def _path_warnings(config: StudyConfig, shared: StudySpec, contents: dict[str, dict[str, Any]]) -> list[str]:
    of_arms = ({"training": each["training"], "combine": each.get("combine")} for each in contents.values())
    return path_warnings([shared.content(), *of_arms, {"evaluation": config.evaluation.model_dump()}])


def check_lengths(study: Study, written: dict[str, Any]) -> None:
    """Refuse specs that are too long for the commands of the jobs. `written` is the config as the user wrote it."""
    longest = {run.arm: run for run in sorted(study.runs.values(), key=lambda run: run.seed)}
    for run in longest.values():
        check_length(run.spec + study.options(run), f"the spec of arm {run.arm}", written)
    check_length(study.evaluation_spec, "the spec of an evaluation", written)
    check_length(study.scoring.spec.text + study.scoring.options, "the spec of the metrics", written)
    for dataset, spec in study.datasets.items():
        check_length(spec, f"the spec of the evaluation set {dataset}", written)


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it does not exist yet; other errors are reported when it is written to
        return []


def described_before(study: StudyConfig, root: Path) -> dict[str, Any]:
    """Content of the present `study.json` without the runs, or an empty dict; refuse the folder of another study."""
    path = root / study.root / DESCRIPTION
    if not path.is_file():
        return {}
    try:
        written = load_json(path.read_bytes())
        damage = _damage(written)
    except (ValueError, OSError) as error:
        damage = first_line(error)
    if damage:
        raise ValueError(
            f"{study.root}/{DESCRIPTION}, the study's record of itself, is damaged ({damage}); delete it: the next "
            "start writes it again, with the times of the primary question and claims that the runs' records have"
        )
    if written["name"] != study.name:
        raise ValueError(
            f"results: {study.root} holds the study {written['name']}; give {study.name} a folder of its own"
        )
    return {name: value for name, value in written.items() if name != "runs"}


def _damage(written: Any) -> str | None:
    """What is wrong with the content of a `study.json`; None if nothing is. An earlier version's may lack parts.

    What is of the right type and cannot be read is taken from the runs' own records.
    """
    if not isinstance(written, dict) or not isinstance(written.get("name"), str):
        return "not a mapping with the study's name"
    parts = {"primary": dict, "sequential": dict, "claims": list, "runs": list}
    wrong = [part for part, kind in parts.items() if not isinstance(written.get(part, kind()), kind)]
    return f"{wrong[0]} is no {'list' if parts[wrong[0]] is list else 'mapping'}" if wrong else None


def checked_arms(study: StudyConfig, root: Path) -> dict[str, Arm]:
    """The study's arms, after checks that pydantic cannot make.

    The checks refuse names that the workflow uses itself, unknown baselines and components, reward functions that
    do not fit the config, and settings under which gradients cannot be measured or advantages cannot be placed.
    """
    study.refuse_left_out()
    arms = trl_methods(study)
    for key, names in (("name", [study.name]), ("arms", arms), ("components", study.components)):
        for name in names:
            if name in TAKEN[key]:
                raise ValueError(f"{key}: '{name}' is taken by the workflow; not allowed: {', '.join(TAKEN[key])}")
    if study.baseline is not None and study.baseline not in arms:
        raise ValueError(f"baseline: unknown arm '{study.baseline}'; {arms_here(study.baseline, arms)}")
    check_control(study, arms)
    check_metrics(study, root)
    for name, arm in arms.items():
        settings, scored = {**study.training, **arm.training}, study.scored_in(arm)
        measured = study.gradients.every or study.gradients.whole
        check_single_rollouts(settings, name)
        if measured:
            check_measurable(settings, name)
        for component_name, component in scored.items():
            if component.placement != "all_tokens" and (arm.weights[component_name] or measured):
                check_placeable(settings, name, component_name)
    check_kept(study, arms)
    check_prompts_alike(study, arms)
    further = further_columns(study.data.train)
    for name, component in study.components.items():
        try:
            planned_arguments(component.function, component.parameters, root, further)
        except StudyError as error:
            raise ValueError(f"components.{name}: {str(error).removeprefix('components: ')}") from None
    check_helpers(study, root)
    check_answers(study, root)
    return arms


def trl_methods(study: StudyConfig) -> dict[str, Arm]:
    """The study's arms, with TRL's own methods of combination turned into TRL's settings."""
    arms = {}
    for name, arm in study.expanded_arms().items():
        try:
            arms[name] = with_trl_methods(study, arm)
        except ValueError as error:
            raise ValueError(f"{key_of_arm(study.arms, name)}.{error}") from None
    return arms


def combined_arm(study: StudyConfig, name: str, arm: Arm, root: Path, launch: Launch) -> CombineSpec | None:
    """The spec of an arm's method of combination. A wrong one is a ValueError, `arms....combine: ...`."""
    try:
        return combine_spec(study, arm, root, launch.process_count)
    except ValueError as error:
        raise ValueError(f"{key_of_arm(study.arms, name)}.{error}") from None


def check_metrics(study: StudyConfig, root: Path) -> None:
    """Refuse a study without metrics, and metrics whose component or function cannot judge stored answers."""
    if study.evaluation.answer_format is None and not study.evaluation.metrics:
        raise ValueError(
            "evaluation: nothing judges the answers; set answer_format, for the metrics of mathematics, or metrics"
        )
    for name, metric in study.evaluation.metrics.items():
        where = f"evaluation.metrics.{name}"
        if metric.component is not None and metric.component not in study.components:
            raise ValueError(
                f"{where}.component: unknown component '{metric.component}'; components: {', '.join(study.components)}"
            )
        function, parameters = study.metric_functions()[name]
        for source in study.data.evaluation.values():
            check_judging(function, parameters, root, source, where)


def check_judging(function: str, parameters: dict[str, Any], root: Path, source: ProblemSource, where: str) -> None:
    """Refuse a function that asks for columns that the stored answers to an evaluation set do not have."""
    try:
        arguments = planned_arguments(function, parameters, root, further_columns(source))
    except StudyError as error:
        raise ValueError(f"{where}: {str(error).removeprefix('components: ')}") from None
    needless = {"completions"} | defaults_of(function, root)
    if missing := [column for column in arguments.columns if column in OF_TRAINER and column not in needless]:
        raise ValueError(
            f"{where}: {function} asks for {missing[0]}, which is known only in training; answers have their text, "
            "and the metric tokens is their length"
        )


def check_helpers(study: StudyConfig, root: Path) -> None:
    """Refuse reward files that import different files by the same name: Python would load one of them for both."""
    first_with: dict[str, tuple[str, Path]] = {}
    for name, component in study.components.items():
        if not in_a_file(component.function) or names_a_module(component.function):
            continue
        for module, file in imports_of_file(user_file(component.function, root), root).items():
            other, other_file = first_with.setdefault(module, (name, file))
            if file.resolve() != other_file.resolve():
                raise ValueError(
                    f"components.{name}: imports {module} from {file}, and {other} imports {module} from "
                    f"{other_file}; give the two files different names"
                )


def check_variables(study: StudyConfig, environment: Mapping[str, str], trains: bool, scores: bool) -> None:
    """Refuse a start if an environment variable that a component or a metric reads is not set.

    `trains` says whether components score completions, and `scores` whether the study's own metrics score answers.
    """
    read = {f"components.{name}.parameters": each.parameters for name, each in study.components.items() if trains}
    for name, (_, parameters) in study.metric_functions().items() if scores else ():
        component = study.evaluation.metrics[name].component
        read[f"components.{component}.parameters" if component else f"evaluation.metrics.{name}.parameters"] = (
            parameters
        )
    missing = {
        where: names
        for where, parameters in read.items()
        if (names := missing_variables([*parameters.values()], environment))
    }
    if missing:
        names = list(dict.fromkeys(name for names in missing.values() for name in names))
        exports = " ".join(f"{name}=..." for name in names)
        raise StudyError(
            f"{', '.join(missing)}: {not_set(names)}; set {'it' if len(names) == 1 else 'them'} with "
            f"`export {exports}`, then run the same command again"
        )


def check_kept(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse `keep_models` if an arm's runs end before the first model would be kept."""
    for name, arm in arms.items():
        steps = {**study.training, **arm.training}.get("max_steps", -1)
        if study.keep_models and isinstance(steps, int) and 0 < steps <= study.keep_models:
            raise ValueError(
                f"keep_models: {study.keep_models} keeps no model of arm {name}, which ends at step {steps}, and the "
                "final model is kept anyway; lower it, or set it to 0"
            )


def check_exports(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse to export in a layout that needs components or answers which the study does not have."""
    missing = [name for name in RLDYNAMICS if name not in study.components]
    if "rldynamics" in study.exports and missing:
        raise ValueError(
            f"exports: rldynamics has the components correctness, format and length, and this study has no "
            f"{' and no '.join(missing)}; name its components so, or take rldynamics out"
        )
    for name, arm in arms.items() if "rldynamics" in study.exports else ():
        unscored = [component for component in RLDYNAMICS if component not in study.scored_in(arm)]
        if unscored:
            raise ValueError(
                f"exports: rldynamics has the scores of {unscored[0]} of all runs, and arm {name} does not score it; "
                f"set components.{unscored[0]}.scored: everywhere, or take rldynamics out"
            )
    if "simple_grpo" in study.exports and study.evaluation.answer_format is None:
        raise ValueError(
            "exports: simple_grpo has answers graded as mathematics, and evaluation.answer_format is not set; set "
            "it, or take simple_grpo out"
        )
    if "simple_grpo" in study.exports and not study.evaluation.greedy:
        raise ValueError(
            "exports: simple_grpo has greedy answers, and evaluation.greedy is false; set it to true, or take "
            "simple_grpo out"
        )


def check_prompts_alike(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse an arm with prompts of its own, since all are judged on the same, and wrong chat template variables."""
    key = "chat_template_kwargs"
    for name, arm in arms.items():
        if key in arm.training and (arm.training[key] or {}) != (study.training.get(key) or {}):
            raise ValueError(
                f"{key_of_arm(study.arms, name)}.training.{key}: all arms are judged on the same prompts, and with "
                "this key the arm would be trained on others; set the key for the study, in training"
            )
    kwargs = study.training.get(key)
    arguments = sorted(OF_THE_CALL & {*(kwargs or ())})
    if arguments:
        raise ValueError(f"training.{key}.{arguments[0]}: not to be set here; only variables of the chat template are")
    if kwargs and not study.prompt.chat:
        raise ValueError(f"training.{key}: prompt.chat is false, so that there is no template; take one of the two out")


def launches_of(study: StudyConfig, arms: dict[str, Arm]) -> dict[str, Launch]:
    """How each arm's runs are launched. An arm's override that does not fit the study's launch is a ValueError."""
    launches = {}
    for name, arm in arms.items():
        try:
            launches[name] = study.launch.changed(arm.launch, arm.resources)
        except ValueError as error:
            raise ValueError(f"{key_of_arm(study.arms, name)}.launch.{error}") from None
    return launches


def check_launches(study: StudyConfig, arms: dict[str, Arm], launches: dict[str, Launch]) -> None:
    """Refuse settings that conflict with how an arm's runs are launched."""
    for name, arm in arms.items():
        settings = {**study.training, **arm.training}
        placements: set[str] = {component.placement for component in study.scored_in(arm).values()}
        check_launchable(settings, study.lora, launches[name], name)
        if study.gradients.every or study.gradients.whole:
            check_second_pass(settings, placements, study.lora, launches[name], name)


def trained_on_test(data: Data) -> list[str]:
    """A warning if the training set is the test split of a public benchmark, else an empty list."""
    train = data.train
    # IFEval's only split is called train, but models are judged on it.
    if not isinstance(train, HubData) or (train.split != "test" and train.source != "ifeval"):
        return []
    source = "math" if train.source == "math500" else train.source
    others = ", and on the 500 of MATH-500, which are among MATH's test problems," if train.source == "math" else ""
    has_training_split = source != "ifeval" and "train" in SPLITS[source]
    advice = f"; source: {source}, split: train has problems to train on" if has_training_split else ""
    return [
        f"data.train: training on test problems: {train.source} is a public benchmark; numbers on it{others} say "
        f"nothing of what a model can do, nor compare with anybody else's{advice}"
    ]
