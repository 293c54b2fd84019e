"""From a config to a study: validate the config, expand its arms, and give its runs keys.

The Snakefile calls `resolve` whenever Snakemake starts, and so do all commands on a study and the rules `describe` and
`report_pages`. Each check raises a ValueError, `key: what is wrong; what is allowed`. `resolve` puts the file's name
before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_ablation.config import checks
from reward_ablation.config.config_errors import describe
from reward_ablation.config.designs import Arm, key_of_arm
from reward_ablation.config.secrets import missing_variables, not_set, refuse_secrets
from reward_ablation.config.sections.data import ProblemSource, further_columns, test_set_warnings
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.training import AGGREGATION, TRL_AGGREGATIONS
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.rewards.arguments import OF_TRAINER
from reward_ablation.spec.canonical import dump, key_of
from reward_ablation.spec.run import ArmSpec, StudySpec
from reward_ablation.study.claims import as_on_record as claims_as_on_record
from reward_ablation.study.claims import claims_of, recorded_claims, with_recovered
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.declarations import OnRecord
from reward_ablation.study.endpoint_requests import metric_warnings, request_warnings
from reward_ablation.study.job_options import (
    launch_options,
    other_parameters,
    parameter_options,
    reward_model_options,
    tracking_options,
)
from reward_ablation.study.looks import as_on_record as looks_as_on_record
from reward_ablation.study.looks import declared_looks, looks_plan, recorded_looks, recovered_looks, seeds_of_arms
from reward_ablation.study.primary import question_of, recorded_primary, recovered_primary, without_added_arms
from reward_ablation.study.reward_files import codes_on_record, imports_of_file
from reward_ablation.study.reward_import import defaults_of, planned_arguments, replaced_defaults
from reward_ablation.study.reward_models import UsedModel, used_models
from reward_ablation.study.run_folder import (
    ANSWERS_OF_JUDGES,
    DESCRIPTION,
    FOLDERS,
    EarlierPaths,
    base_file,
    demonstrations_file,
    folders_of,
    trained_keys,
    training_file,
)
from reward_ablation.study.scoring import scoring_of
from reward_ablation.study.shown_paths import path_warnings
from reward_ablation.study.specs_of_config import (
    arm_spec,
    check_answers,
    combine_spec,
    data_spec,
    estimate_warnings,
    evaluation_spec,
    keys_of_measured,
    model_spec,
    sft_data_spec,
    sft_spec,
    study_spec,
    train_data_spec,
    with_trl_methods,
)
from reward_ablation.study.standing import standings
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.plain_values import check_length, check_values
from reward_ablation.system.strict_text import load_json
from reward_ablation.system.user_functions import in_a_file, names_a_module, user_file

#: Names that the workflow uses itself: folders of the default study, the base model's rows, and quantities in tables.
TAKEN = {"name": (*FOLDERS, ANSWERS_OF_JUDGES), "arms": ("base",), "components": ("total", "tokens", "truncated", "kl")}


def resolve(config: dict[str, Any], file: str, root: Path) -> Study:
    """The study of a config, as read from YAML; else StudyError `file: key: what is wrong; what is allowed`."""
    if isinstance(arms := config.get("arms"), dict) and arms.get("design") == "imported":
        raise StudyError(f"{file}: arms.design: its runs were trained elsewhere; type reward-ablation import {file}")
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
    launches = checks.checked_launches(config, arms)
    checks.check_scored(config, arms)
    question, described = question_of(config, list(arms)), described_before(config, root)
    shared, runs_folder = study_spec(config, root), root / config.root / "runs"
    specs = codes_on_record(_specs_of(config, shared, arms, launches, root), _names_in(runs_folder), root)
    contents = {name: spec.content() for name, spec in specs.items()}
    keys = {name: key_of(content) for name, content in contents.items()}
    declared_keys = trained_keys(root / config.root, keys)
    began = cache(lambda: standings(runs_folder))
    measured = cache(lambda dataset, metric: keys_of_measured(config, dataset, metric, root))
    question = question.with_keys(declared_keys, measured(question.dataset, question.metric))
    primary = recorded_primary(described) or recovered_primary(question, began)
    if config.primary.contrasts is None:
        question = without_added_arms(question, primary, runs_folder)
    plan, looks = looks_plan(config, question, declared_keys, evaluation_spec(config).key), recorded_looks(described)
    plan = plan and looks_as_on_record(plan, question, looks, began)
    looks = looks or recovered_looks(plan, began)
    if plan and (sequential := declared_looks(plan, looks, runs_folder)):
        config = config.with_seeds(seeds_of_arms(arms, question.contrasts, sequential))
    claims_before = recorded_claims(described)
    claims = claims_as_on_record(claims_of(config, declared_keys, measured, question), claims_before, began)
    jobs = _specs_and_files(config, root)
    others = other_parameters(config.component_functions(), root)
    folders = folders_of(keys, _names_in(runs_folder))
    runs, models = _runs(config, arms, specs, contents, keys, folders, launches, others)
    study = Study(
        config=config,
        root=root,
        arms=arms,
        keys=keys,
        folders=folders,
        runs={run.name: run for run in runs},
        **jobs,
        # If a component and a metric use the same model, the component's source counts, so that a metric changes no
        # other job.
        reward_models={model.key: model.source for model in [*jobs["scoring"].models, *models]},
        other_parameters=others,
        question=question,
        looks=plan,
        claims=claims,
        described=described,
        on_record=OnRecord(primary, with_recovered(claims_before, claims, began), looks),
        warnings=[
            *test_set_warnings(config.data),
            *same_arms(contents, keys),
            *checks.control_warnings(config, arms),
            *checks.unreached_warnings(config, arms),
            *checks.idle_warnings(config, arms, launches),
            *estimate_warnings(specs),
            *column_warnings(config, root),
            *request_warnings(config, runs, root),
            *metric_warnings(config, runs, root),
            *_path_warnings(config, shared, contents),
        ],
    )
    check_lengths(study, written)
    return study


def _specs_of(
    config: StudyConfig, shared: StudySpec, arms: dict[str, Arm], launches: dict[str, Launch], root: Path
) -> dict[str, ArmSpec]:
    """The spec of each arm. A wrong method of combination is a ValueError, `arms....combine: ...`."""
    specs = {}
    for name, arm in arms.items():
        with checks.at_arm(config, name):
            combine = combine_spec(config, arm, root, launches[name].process_count)
        specs[name] = arm_spec(shared, arm, launches[name], config.scored_in(arm), combine)
    check_helpers(config, arms, root)
    return specs


def _specs_and_files(config: StudyConfig, root: Path) -> dict[str, Any]:
    """What is made before the runs and beside them: specs of these jobs, and their files, as the fields of `Study`."""
    earlier = EarlierPaths(root / config.root)
    model, train, judging = model_spec(config.model, root), train_data_spec(config, root), evaluation_spec(config)
    start = base_file(earlier.as_made(model, base_file))
    fields: dict[str, Any] = dict.fromkeys(("sft_spec", "sft_data_spec", "demonstrations_file"))
    fields |= {"model_spec": dump(model), "fetched_file": start, "model_file": start}
    if config.sft:
        demonstrations = sft_data_spec(config, root)
        sft = earlier.as_made({"model": model, "sft": sft_spec(config, root).content()}, base_file)
        file = demonstrations_file(earlier.as_made(demonstrations.content(), demonstrations_file))
        fields |= {"sft_spec": dump(sft["sft"]), "model_file": base_file(sft), "demonstrations_file": file}
        fields |= {"sft_data_spec": demonstrations.text}
    sets = {name: data_spec(config, source, root).content() for name, source in config.data.evaluation.items()}
    scoring = scoring_of(config, root)
    return {
        **fields,
        "train_data_spec": train.text,
        "problems_file": training_file(earlier.as_made(train.content(), training_file)),
        "datasets": dict(zip(earlier.evaluation_sets(sets), map(dump, sets.values()), strict=True)),
        "evaluation_spec": judging.text,
        "answers_folder": f"evaluation/{judging.key}",
        "scoring": scoring,
        "scores_folder": f"scores/{judging.key}-{scoring.spec.key}" if config.evaluation.metrics else None,
    }


def _runs(
    config: StudyConfig,
    arms: dict[str, Arm],
    specs: dict[str, ArmSpec],
    contents: dict[str, dict[str, Any]],
    keys: dict[str, str],
    folders: dict[str, str],
    launches: dict[str, Launch],
    others: dict[str, dict[str, Any]],
) -> tuple[list[Run], list[UsedModel]]:
    """The runs of all arms, each once, and the reward models that score them. `folders` is by key, all else by arm."""
    sharing: dict[str, list[str]] = {}
    for arm, key in keys.items():
        sharing.setdefault(key, []).append(arm)
    runs, every_model = [], []
    for key, (arm, *twins) in sharing.items():
        spec, launch = specs[arm], launches[arm]
        models = used_models(spec.components, config.component_functions())
        every_model += models
        of_arm = {name: each for name, each in others.items() if name in spec.components}
        options = launch_options(launch) + parameter_options(of_arm) + reward_model_options(models, config.root)
        training, code = config.training_of(arms[arm]), training_digest(spec.functions)
        files = [model.file for model in models]
        for seed in config.seeds_in_order([arm, *twins]):
            text = dump({**contents[arm], "seed": seed})
            of_run = options + tracking_options(config, training, arm, seed)
            runs.append(Run(arm, key, seed, text, spec, folders[key], launch, code, of_run, files))
    return runs, every_model


def _path_warnings(config: StudyConfig, shared: StudySpec, contents: dict[str, dict[str, Any]]) -> list[str]:
    of_arms = ({"training": each["training"], "combine": each.get("combine")} for each in contents.values())
    return path_warnings([shared.content(), *of_arms, {"evaluation": config.evaluation.model_dump()}])


def check_lengths(study: Study, written: dict[str, Any]) -> None:
    """Refuse specs that are too long for commands. The run with the largest seed has an arm's longest text."""
    longest = {run.arm: run for run in sorted(study.runs.values(), key=lambda run: run.seed)}
    for run in longest.values():
        check_length(run.spec + run.options, f"the spec of arm {run.arm}", written)
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
    """Content of the present `study.json` without the runs, or an empty dict; refuse a file, or another's folder."""
    path = root / study.root / DESCRIPTION
    if file := next((folder for folder in path.parents if folder.is_file()), None):
        raise ValueError(f"results: {file} is a file; name a folder with the key results")
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
    """What is wrong with the content of a `study.json`, or None. Unreadable parts are taken from the runs' records."""
    if not isinstance(written, dict) or not isinstance(written.get("name"), str):
        return "not a mapping with the study's name"
    parts = {"primary": dict, "sequential": dict, "claims": list, "runs": list}
    wrong = [part for part, kind in parts.items() if not isinstance(written.get(part, kind()), kind)]
    return f"{wrong[0]} is no {'list' if parts[wrong[0]] is list else 'mapping'}" if wrong else None


def checked_arms(study: StudyConfig, root: Path) -> dict[str, Arm]:
    """The study's arms after all checks of arms, with TRL's own methods of combination as TRL's settings."""
    study.refuse_left_out()
    arms = study.expanded_arms()
    for name, arm in arms.items():
        with checks.at_arm(study, name):
            arms[name] = with_trl_methods(study, arm)
    for key, names in (("name", [study.name]), ("arms", arms), ("components", study.components)):
        for name in names:
            if name in TAKEN[key]:
                raise ValueError(f"{key}: '{name}' is taken by the workflow; not allowed: {', '.join(TAKEN[key])}")
    checks.check_baseline_and_control(study, arms)
    check_metrics(study, root)
    checks.check_arms(study, arms)
    further = further_columns(study.data.train)
    for name, component in study.components.items():
        with _in_section(f"components.{name}"):
            planned_arguments(component.function, component.parameters, root, further)
    check_answers(study, root)
    return arms


@contextmanager
def _in_section(where: str) -> Iterator[None]:
    """Name the key in a config at which the function of a component or metric is refused."""
    try:
        yield
    except StudyError as error:
        raise ValueError(f"{where}: {str(error).removeprefix('components: ')}") from None


def check_metrics(study: StudyConfig, root: Path) -> None:
    """Refuse a study that has no metric, built in or its own, and own metrics that cannot judge stored answers."""
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
    with _in_section(where):
        arguments = planned_arguments(function, parameters, root, further_columns(source))
    needless = {"completions", *defaults_of(function, root)}
    if missing := [column for column in arguments.columns if column in OF_TRAINER and column not in needless]:
        raise ValueError(
            f"{where}: {function} asks for {missing[0]}, which is known only in training; answers have their text, "
            "and the metric tokens is their length"
        )


def column_warnings(study: StudyConfig, root: Path) -> list[str]:
    """Warnings about arguments of own components and metrics that get a column in place of their default."""
    train, sets = [study.data.train], [*study.data.evaluation.values()]
    asked = [(f"components.{name}", each.function, each.parameters, train) for name, each in study.components.items()]
    for name, metric in study.evaluation.metrics.items():
        asked.append((f"evaluation.metrics.{name}", metric.function or "", metric.parameters, sets))
    warnings = []
    for where, function, parameters, sources in asked:
        for source in sources if in_a_file(function) else ():
            arguments = planned_arguments(function, parameters, root, further_columns(source))
            warnings += replaced_defaults(where, function, arguments, root)
    return list(dict.fromkeys(warnings))


def check_helpers(study: StudyConfig, arms: dict[str, Arm], root: Path) -> None:
    """Refuse files of one job that import different files by one name: Python would load one for both."""
    trained = {f"components.{name}": each.function for name, each in study.components.items()}
    trained |= {
        f"{key_of_arm(study.arms, name)}.combine": arm.combine.method for name, arm in arms.items() if arm.combine
    }
    judging = {f"evaluation.metrics.{name}": function for name, (function, _) in study.metric_functions().items()}
    for of_one_job in (trained, judging):
        first_with: dict[str, tuple[str, Path]] = {}
        for key, function in of_one_job.items():
            if not in_a_file(function) or names_a_module(function):
                continue
            for module, file in imports_of_file(user_file(function, root), root).items():
                other, other_file = first_with.setdefault(module, (key, file))
                if file.resolve() != other_file.resolve():
                    raise ValueError(
                        f"{key}: imports {module} from {file}, and {other} imports {module} from {other_file}; give "
                        "the two files different names"
                    )


def check_variables(study: StudyConfig, environment: Mapping[str, str], trains: bool, scores: bool) -> None:
    """Refuse a start if an environment variable is not set that a component (`trains`) or a metric (`scores`) reads."""
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


def same_arms(specs: dict[str, dict[str, Any]], keys: dict[str, str]) -> list[str]:
    """Warnings about arms with the same spec, or with weights that differ only by a factor that scaling removes."""
    first_with: dict[str, str] = {}
    first_direction: dict[str, str] = {}
    warnings = []
    for name, spec in specs.items():
        direction = dump({**spec, "weights": direction_of(spec["weights"])})
        if keys[name] in first_with:
            first = first_with[keys[name]]
            if spec != specs[first]:  # by chance, as of one pair of 90,000 arms
                raise ValueError(f"arms: {first} and {name} differ and have one key, {keys[name]}; change a weight")
            same = f"arms {first} and {name} have the same spec"
            warnings.append(f"{same}: they are one run per seed, launched as {first}")
        elif direction in first_direction and scales(spec["training"]) and "combine" not in spec:
            warnings.append(
                f"arms {first_direction[direction]} and {name} differ only in the scale of their weights, "
                "which scaled advantages take out"
            )
        first_with.setdefault(keys[name], name)
        first_direction.setdefault(direction, name)
    return warnings


def scales(training: dict[str, Any]) -> bool:
    """Whether a common factor of the weights has no effect. `normalize_then_sum` scales whatever `scale_rewards` is."""
    scaled = training.get("scale_rewards", "group") not in ("none", False)
    normalizes_first = training.get(AGGREGATION) == TRL_AGGREGATIONS["gdpo"]
    return (scaled or normalizes_first) and training.get("num_generations") != 1


def direction_of(weights: dict[str, float]) -> dict[str, float]:
    """Weights divided by the largest absolute weight, rounded to 12 digits."""
    largest = max(abs(weight) for weight in weights.values())
    return {name: round(weight / largest, 12) for name, weight in weights.items()}
