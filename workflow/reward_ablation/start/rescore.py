"""Runs from stored rollouts: of finished runs that trained alike, and differ in components that train nothing.

A component of weight 0 is scored, and changes no bit of training. If it is new, or its code or parameters changed, its
scores follow from the stored texts, and nothing has to be trained. Nor has it if a component that trains has another
name. `start.adopt` makes such runs, for `reward-ablation plan --adopt RESULTS`; a start never does so itself,
because scoring may take long. What a text does not tell cannot be made: gradients of such a component, and columns of
`log_extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reward_ablation.data.prepared import further_columns_of
from reward_ablation.rewards.columns import json_columns, with_values
from reward_ablation.rewards.load import load_component
from reward_ablation.sampling.prompts import render_prompt
from reward_ablation.spec.canonical import canonical
from reward_ablation.spec.run import ArmSpec
from reward_ablation.start.decide import Decisions
from reward_ablation.start.history import Damage, read_record
from reward_ablation.study.code_digest import PACKAGE, is_own
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.provenance import RESCORED
from reward_ablation.study.reward_files import files_of_function
from reward_ablation.study.run_folder import RECORD, deciding_inputs
from reward_ablation.study.specs_of_config import check_unchanged
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import link_or_copy, sha256, write_parquet
from reward_ablation.system.user_functions import in_a_file, names_a_module, user_module

#: Built-in components whose score needs more than the texts: the tokens themselves, a model, or a draw.
NEEDS_MORE = frozenset({"diversity", "judge", "random", "repetition_penalty", "reward_model"})
#: What training gives a user's function, and nothing has stored.
NOT_STORED = ("completion_ids", "trainer_state", "log_extra", "log_metric")
UNKNOWN_TOKENS = "reads completion_ids, which no run stores; start the study without --adopt, which trains these runs"
#: Files of a run that name components.
NAMING = ("rollouts.parquet", "metrics.parquet", "gradients.parquet", "projections.parquet")


@dataclass(frozen=True)
class Source:
    """A finished run that was trained as a run of the study would be."""

    folder: Path
    record: dict[str, Any]
    kept: dict[str, str]  # name there of each component whose scores stay, by its name in the study
    scored: list[str]  # components of the study whose scores are made from the stored texts


def trained_part(spec: ArmSpec) -> str:
    """What decides the model that a run ends with; names of components do not count, their order does."""
    content = spec.content()
    taking_part = [[content["components"][name], content["weights"][name]] for name in sorted(spec.taking_part)]
    rest = {name: value for name, value in content.items() if name not in ("components", "weights", "seed")}
    return canonical([taking_part, rest])


def calls_a_file(source: Source, run: Run) -> bool:
    """Whether a file of rewards is called to make a run from its source."""
    return any(in_a_file(run.arm_spec.components[name].function) for name in source.scored)


def sources(results: Path, decisions: Decisions) -> dict[str, Source]:
    """Where the study's missing runs can come from, by their names. Of the runs there, only records are read."""
    wanted, damage = missing_runs(decisions), Damage(decisions.study, results)
    there: dict[tuple[str, int], list[tuple[Path, dict[str, Any], ArmSpec]]] = {}
    for path in sorted((results / "runs").glob("*/*/" + RECORD)) if wanted else ():
        record = read_record(path.parent) or {}
        if RESCORED not in record and (spec := _spec_of(record)):
            there.setdefault((trained_part(spec), record.get("seed", -1)), []).append((path.parent, record, spec))
    found = {}
    for name, run in wanted.items():
        for folder, record, spec in there.get((trained_part(run.arm_spec), run.seed), ()):
            is_damaged = damage.of_run(f"{folder.parent.name}/{folder.name}", record)
            if not is_damaged and (source := _source(folder, record, spec, run, decisions)):
                found[name] = source
                break
    return found


def missing_runs(decisions: Decisions) -> dict[str, Run]:
    """The runs, by their names, that a start would train and that have no record."""
    there = decisions.history.records
    return {name: each.run for name, each in decisions.runs.items() if each.trains and name not in there}


def _spec_of(record: Mapping[str, Any]) -> ArmSpec | None:
    try:
        return ArmSpec.read(record["spec"], "spec")
    except (StudyError, KeyError):
        return None


def _source(folder: Path, record: dict[str, Any], before: ArmSpec, run: Run, decisions: Decisions) -> Source | None:
    """The run in a folder, of the spec `before`, as a run's source; None if code, inputs, files or functions forbid."""
    if record.get("code") != training_digest(before.functions) or not _is_inside(folder, record):
        return None
    inputs = deciding_inputs(record["spec"], decisions.present.inputs)
    if any(record.get("inputs", {}).get(name, digest) != digest for name, digest in inputs.items()):
        return None
    after = run.arm_spec
    kept = dict(zip(sorted(after.taking_part), sorted(before.taking_part), strict=True))  # paired as in `trained_part`
    renames = any(new != old for new, old in kept.items())
    if after.gradients.whole or (after.combine and renames):
        return None  # more of their files name components
    for name in sorted(set(after.components) - set(kept)):
        for old in sorted(set(before.components) - set(kept.values()), key=lambda old: old != name):
            with_it = dict(sorted([*kept.items(), (name, old)]))
            if before.components[old] == after.components[name] and [*with_it.values()] == sorted(with_it.values()):
                kept = with_it  # in the order that the files have
                break
    scored = sorted(set(after.components) - set(kept))
    if not all(_is_text(decisions.study, run, name) for name in scored):
        return None
    return Source(folder, record, dict(sorted(kept.items())), scored)


def _is_inside(folder: Path, record: Mapping[str, Any]) -> bool:
    """Whether the files on record lie in the folder: a record may be a stranger's, and name any file."""
    return all((folder / file).resolve() == folder.resolve() / file for file in record.get("files", {}))


def _is_text(study: Study, run: Run, name: str) -> bool:
    """Whether a component's score follows from the stored texts and lengths."""
    function = run.arm_spec.components[name].function
    if not in_a_file(function):
        return function not in NEEDS_MORE
    reached = files_of_function(function, study.root)
    if any(is_own(module) and module.rpartition(".")[2] in NEEDS_MORE for module in reached):
        return False
    own = [path for module, path in reached.items() if not is_own(module)]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in own]
    # An installed package may reach what is not stored by way of this one.
    installed = names_a_module(function) and user_module(function, study.root).installed
    words = (*NOT_STORED, PACKAGE) if installed else NOT_STORED
    return not any(word in text for word in words for text in texts)


def rescored_lines(found: Mapping[str, Source], shown: str) -> list[str]:
    """A line on runs of `sources` that need no training. `shown` is their results folder."""
    if not found:
        return []
    scored = sorted({name for source in found.values() for name in source.scored})
    with_scores = f" with scores of {', '.join(scored)} from the stored rollouts" if scored else ""
    number = f"{len(found)} of these runs {'needs' if len(found) == 1 else 'need'}"
    return [
        f"{number} no training: runs in {shown} differ only in components of weight 0, or in names of components; to "
        f"take them over{with_scores}, add --adopt {shown}"
    ]


def make_rescored(source: Source, run: Run, study: Study, target: Path) -> dict[str, Any]:
    """Make a run's folder from its source, and return its record, which the caller writes last."""
    rollouts = pq.read_table(source.folder / "rollouts.parquet")
    scores = {name: _scores(name, run, study, rollouts) for name in source.scored}
    made: dict[str, Callable[[pa.Table], pa.Table]] = {
        "rollouts.parquet": lambda table: _with_scores(table, run.arm_spec, source.kept, scores),
        "metrics.parquet": lambda table: _with_means(table, source.kept, rollouts, scores),
        **dict.fromkeys(NAMING[2:], lambda table: _of_components(table, source.kept)),
    }
    files, sizes = dict(source.record["files"]), dict(source.record.get("sizes", {}))
    for file in files:
        if file not in made:
            if (source.folder / file).is_file():  # users delete kept models
                link_or_copy(source.folder / file, target / file)
            continue
        target.mkdir(parents=True, exist_ok=True)
        write_parquet(made[file](pq.read_table(source.folder / file)), target / file)
        files[file], sizes[file] = sha256(target / file), (target / file).stat().st_size
    came = {"run": f"{source.folder.parent.name}/{source.folder.name}", "components": source.scored}
    changed = {"spec": run.arm_spec.content(), "code": run.code, "files": files, "sizes": sizes, RESCORED: came}
    return {**source.record, **changed}


def _scores(name: str, run: Run, study: Study, rollouts: pa.Table) -> list[float | None]:
    """Scores of all rollouts by a component, called for each step and process, as in training; float32, as in TRL."""
    spec, problems = run.arm_spec, study.results / study.problems_file
    if not problems.is_file():
        raise StudyError(
            f"components.{name}: {problems} is not there, which rollouts are scored with; start the study once"
        )
    component = spec.components[name]
    values = {**component.parameters, **study.other_parameters.get(name, {})}
    function = load_component(component.function, values, study.root, name, further=further_columns_of(problems))
    check_unchanged(component, values, study.root)
    function = with_values(function, json_columns(pq.read_schema(problems)))
    rows = {row["id"]: row for row in pq.read_table(problems).to_pylist()}
    scores: list[float | None] = []
    read: list[bool] = []  # also where the function catches what is raised
    for batch in _batches(rollouts, spec):
        of_batch = [rows[problem] for problem in batch["problem_id"]]
        columns = {key: [row[key] for row in of_batch] for key in of_batch[0] if key != "id"}
        columns |= {"prompts": [render_prompt(row["question"], spec.prompt) for row in of_batch]}
        columns |= {
            "problem_id": batch["problem_id"],
            "completion_ids": [_Tokens(number, read) for number in batch["tokens"]],
        }
        texts = batch["completion"]
        chat = [[{"role": "assistant", "content": text}] for text in texts]
        given = function(completions=chat if spec.prompt.chat else texts, **columns)
        if read:
            raise StudyError(f"components.{name}: {UNKNOWN_TOKENS}")
        scores += [None if score is None else float(np.float32(score)) for score in given]
    return scores


class _Tokens:
    """Stands for the tokens of a completion, of which the number alone is stored."""

    def __init__(self, number: int, read: list[bool]):
        self._number, self._read = number, read

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, _: Any) -> NoReturn:
        self._read.append(True)
        raise StudyError(UNKNOWN_TOKENS)


def _batches(rollouts: pa.Table, spec: ArmSpec) -> Iterator[dict[str, list[Any]]]:
    """Rows of each step and process. A group, 8 completions by TRL's default, is of the process with its first row."""
    steps, size = rollouts["step"].to_numpy(), spec.training.get("num_generations", 8)
    ends = [*(np.flatnonzero(np.diff(steps)) + 1), len(steps)]
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        rows = (end - start) // spec.process_count
        cuts = [start + -(-rows * process // size) * size for process in range(spec.process_count)]
        for first, last in zip(cuts, [*cuts[1:], end], strict=True):
            if last > first:
                yield rollouts.slice(first, last - first).select(["problem_id", "completion", "tokens"]).to_pydict()


def _with_scores(
    table: pa.Table, spec: ArmSpec, kept: Mapping[str, str], scores: Mapping[str, list[float | None]]
) -> pa.Table:
    """Rollouts with the components of a spec: kept columns under their new names, and scores without an advantage."""
    columns = {name: table[name] for name in table.column_names if not name.startswith(("score_", "advantage_"))}
    extra = columns.pop("extra", None)
    nothing = pa.array(np.zeros(len(table)))
    for name in sorted(spec.components):
        columns[f"score_{name}"] = (
            table[f"score_{kept[name]}"] if name in kept else pa.array(scores[name], pa.float64())
        )
    for name in sorted(spec.components):
        columns[f"advantage_{name}"] = table[f"advantage_{kept[name]}"] if name in kept else nothing
    return pa.table(columns | ({} if extra is None else {"extra": extra}))


def _with_means(
    table: pa.Table, kept: Mapping[str, str], rollouts: pa.Table, scores: Mapping[str, list[float | None]]
) -> pa.Table:
    """The trainer's metrics with the components' new names, and the mean of new scores, as training logs it."""
    new = {old: name for name, old in kept.items()}
    columns = {}
    for name in table.column_names:
        kind, slash, rest = name.partition("/")
        if kind != "rewards" or not slash:
            columns[name] = table[name]
        elif (old := rest.rpartition("/")[0]) in new:
            columns[f"rewards/{new[old]}/{rest.rpartition('/')[2]}"] = table[name]
    for name, of_component in scores.items():
        by_step = pa.table({"step": rollouts["step"], "score": pa.array(of_component, pa.float64())})
        means = by_step.group_by("step").aggregate([("score", "mean")])
        mean = dict(zip(means["step"].to_pylist(), means["score_mean"].to_pylist(), strict=True))
        columns[f"rewards/{name}/mean"] = pa.array([mean.get(step) for step in table["step"].to_pylist()], pa.float64())
    step = {"step": columns.pop("step")}
    return pa.table(step | dict(sorted(columns.items())))


def _of_components(table: pa.Table, kept: Mapping[str, str]) -> pa.Table:
    """Rows of kept components alone, under their new names."""
    new = pa.array(list(kept)), pa.array(list(kept.values()))
    for name in (name for name in table.column_names if name in ("component", "component_a", "component_b")):
        table = table.filter(pc.is_in(table[name], new[1]))
        renamed = pc.take(new[0], pc.index_in(table[name], new[1]))
        table = table.set_column(table.column_names.index(name), name, renamed)
    return table
