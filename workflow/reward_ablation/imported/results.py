"""Results folder of imported runs: `study.json`, runs, answers and questions, in this project's own layout.

`reward-ablation import` calls `write_results` before it has the usual rules make tables, figures and the summary of the
folder. It skips this where `is_current` finds all files as the last import read them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reward_ablation.analysis.words import counted
from reward_ablation.imported.alike import RunsSeen, refuse_doubles
from reward_ablation.imported.answers import CORRECT, OF_ALL_TASKS, Evaluation
from reward_ablation.imported.config import ImportConfig, Source
from reward_ablation.imported.readers.reward_ablation import read_record, tables_of
from reward_ablation.imported.runs import read_run
from reward_ablation.spec.parts import ComponentSpec
from reward_ablation.spec.run import ArmSpec, ImportedSpec
from reward_ablation.study.answers_record import read_record as read_content
from reward_ablation.study.claims import DeclaredClaim, recorded_claims
from reward_ablation.study.primary import Contrast, Primary, utc_now
from reward_ablation.study.run_folder import DESCRIPTION, RECORD
from reward_ablation.study.specs_of_config import check_unchanged, component_spec
from reward_ablation.study.standing import Since
from reward_ablation.system.digests import digest_where_present
from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.files import link_or_copy, sha256, write_json, write_parquet

#: Format of this project's own runs.
OWN = "reward_ablation"

#: In the results folder: what an import read, by which the next one knows that nothing changed.
IMPORTED = ".imported.json"

#: All that decides the results: the YAML, the code, the components, and the stamps of all files. If `IMPORTED` has the
#: same content, nothing is read again.
State = dict[str, Any]


def is_current(folder: Path, state: State) -> bool:
    """Whether an earlier import wrote the folder from the same `state`. Refuses the folder of a trained study."""
    if not (folder / IMPORTED).is_file():
        if (folder / DESCRIPTION).exists() or (folder / "runs").exists():
            raise StudyError(f"{folder}: has the results of a trained study; name another folder with the key results")
        return False
    return read_content(folder / IMPORTED) == state and (folder / DESCRIPTION).is_file()


def stamps(paths: list[Path]) -> dict[str, list[Any]]:
    """Name, size and time of change of the files at each path, or below it. Links below a folder do not count."""
    found: dict[str, list[Any]] = {}
    for path in paths:
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if not file.is_symlink())
        if not path.exists():
            raise StudyError(f"{path}: no such file or folder; paths start from the folder of the YAML")
        stats = [(str(file), file.stat()) for file in files if file.is_file()]
        found[str(path)] = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    return found


def write_results(config: ImportConfig, home: Path, folder: Path, state: State) -> None:
    """Read and check all files, then move what was made of them into the results folder; the caller holds a lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with storage_errors(folder), _empty(folder.with_name(f".{folder.name}.importing")) as made:
        study = _Import(config, home, made, folder / DESCRIPTION)
        study.read_runs()
        study.read_answers()
        write_json(study.content(), made / DESCRIPTION)
        files = [file.relative_to(made) for file in sorted(made.rglob("*")) if file.is_file()]
        # No state: if the moves are interrupted, the next import reads all files again.
        write_json({}, folder / IMPORTED)
        for name in sorted(files, key=lambda name: str(name) == DESCRIPTION):  # study.json last: it names the others
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if digest_where_present(folder / name) != sha256(made / name):  # else the tables would be made again
                shutil.move(made / name, folder / name)
        write_json(state, folder / IMPORTED)


@contextmanager
def _empty(folder: Path) -> Iterator[Path]:
    """A folder that is empty, whatever an import that was killed left there, and gone after the block."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Arm:
    """What the runs of an arm have in common, the format of each run, and sentences on how they were read."""

    spec: ArmSpec | ImportedSpec | None = None
    formats: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Import:
    """One import: reads all files and writes them below `made`. `described` is the `study.json` of the last import."""

    def __init__(self, config: ImportConfig, home: Path, made: Path, described: Path):
        self.config, self.home, self.made = config, home, made
        self.former_claims = recorded_claims(read_content(described)).claims
        config.check_names()
        self.files, self.answer_files = config.rollouts_of(home), config.answers_of(home)
        runs = {f"arms.runs.{arm}.seeds.{seed}": source for (arm, seed), source in self.files.items()}
        answers = {
            f"evaluation.runs.{arm}" + ("" if seed is None else f".{seed}"): source
            for (arm, seed), source in self.answer_files.items()
        }
        refuse_doubles(((key, source.identity) for key, source in runs.items()), "run")
        refuse_doubles(((key, source.identity) for key, source in answers.items()), "answers")
        self.seen = RunsSeen()
        self.rescored = {name: component_spec(component, home, name) for name, component in config.components.items()}
        self.arms = {arm: _Arm() for arm in config.arms.runs}
        self.runs: dict[tuple[str, int], dict[str, Any]] = {}
        self.evaluation: Evaluation | None = None

    def read_runs(self) -> None:
        """Read each run and write its folder."""
        for (arm, seed), source in self.files.items():
            if source.format == OWN:
                self._link(arm, seed, source)
            else:
                self._write(arm, seed, source)

    def _link(self, arm: str, seed: int, source: Source) -> None:
        """A run of this project keeps its record and its tables."""
        record = read_record(source.path)
        if record.get("seed") != seed:
            raise StudyError(f"arms.runs.{arm}.seeds.{seed}: {source.path} is of seed {record.get('seed')}")
        spec = ArmSpec.read(record.get("spec"), f"{source.path / RECORD}: spec")
        written = self.config.arms.runs[arm].weights
        own = {name: float(weight) for name, weight in spec.weights.items()}
        if written is not None and written != own:
            raise StudyError(f"arms.runs.{arm}.weights: the run was trained with {own}; leave weights out")
        folder = self._of_arm(arm, seed, spec, source)
        if self.rescored:
            self.arms[arm].notes.append("The study's further components do not score this project's own runs.")
        for name in [RECORD, *tables_of(record["files"])]:
            link_or_copy((source.path / name).resolve(), folder / name)
        columns = ["step", "problem_id", "completion"]  # the prompts are in the training set
        self.seen.add(arm, seed, pq.read_table(folder / "rollouts.parquet", columns=columns))

    def _write(self, arm: str, seed: int, source: Source) -> None:
        """Write the tables and the record of a run from elsewhere."""
        run = read_run(self.config, self.home, source, arm)
        for name, component in self.rescored.items():
            check_unchanged(component, self.config.components[name].parameters, self.home)
        components: dict[str, ComponentSpec | None] = {name: self.rescored.get(name) for name in run.weights}
        first = self.arms[arm].spec
        group = first.training.get("num_generations", run.group) if first else run.group
        # The files do not say num_generations. The first seed's group size counts for all: sizes may differ. But seeds
        # with one completion a prompt do not go into one arm with others.
        group = run.group if 1 in (group, run.group) else group
        aggregation = {"multi_objective_aggregation": self.config.aggregation} if self.config.aggregation else {}
        spec = ImportedSpec.model_validate(
            {
                **{"imported": source.format, "components": components, "weights": run.weights},
                "training": {"num_generations": group, **aggregation},
            }
        )
        folder = self._of_arm(arm, seed, spec, source)
        self.arms[arm].notes += run.notes
        write_parquet(run.rollouts.table, folder / "rollouts.parquet")
        self.seen.add(arm, seed, run.rollouts.table)
        if run.rollouts.metrics is not None:
            write_parquet(run.rollouts.metrics, folder / "metrics.parquet")
        record = {"imported": source.format, "seed": seed, "spec": spec.content(), "steps": run.steps}
        write_json({**record, "files": {file.name: sha256(file) for file in folder.iterdir()}}, folder / RECORD)

    def _of_arm(self, arm: str, seed: int, spec: ArmSpec | ImportedSpec, source: Source) -> Path:
        """Make and note the folder of a run. Refuse a run with another spec than the arm's runs before it."""
        of_arm = self.arms[arm]
        if of_arm.spec is not None and of_arm.spec.content() != spec.content():
            one, other = of_arm.spec.content(), spec.content()
            key = next(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
            raise StudyError(
                f"arms.runs.{arm}.seeds.{seed}: {source.path}: {key} is {other.get(key)}, and {one.get(key)} in "
                "another seed; give runs that differ in more than the seed an arm each"
            )
        of_arm.spec = spec
        of_arm.formats.append(source.format)
        name = f"runs/{arm}-{spec.key}/seed{seed}"
        self.runs[arm, seed] = {"arm": arm, "key": spec.key, "seed": seed, "folder": name, "spec": spec.content()}
        folder = self.made / name
        folder.mkdir(parents=True)
        return folder

    def read_answers(self) -> None:
        """Read the answers of all models, and write them."""
        written = self.config.answers
        if written is not None:
            self.evaluation = Evaluation(written.dataset, self.answer_files)
            names: dict[tuple[str, int | None], str] = {("base", None): "base"}
            names |= {model: run["folder"].removeprefix("runs/") for model, run in self.runs.items()}
            self.evaluation.write(self.made, names)

    def content(self) -> dict[str, Any]:
        """Content of `study.json`."""
        config, evaluation = self.config, self.evaluation
        specs = {arm: of_arm.spec for arm, of_arm in self.arms.items() if of_arm.spec}
        components = list(dict.fromkeys(name for spec in specs.values() for name in spec.weights))
        datasets = [evaluation.dataset] if evaluation else []
        return {
            "name": config.name,
            "design": config.arms.design,
            "components": components,
            "arms": [
                {"name": arm, "weights": {name: float(spec.weights.get(name, 0.0)) for name in components}}
                | ({"combine": spec.combine.title} if spec.combine else {})
                for arm, spec in specs.items()
            ],
            "runs": list(self.runs.values()),
            "baseline": config.baseline,
            "seeds": sorted({seed for _, seed in self.runs}),
            "datasets": datasets,
            "answers": {name: f"evaluation/{{run}}/{name}.parquet" for name in datasets},
            "scores": {name: f"scores/{{run}}/{name}.parquet" for name in datasets},
            "questions": {name: f"data/evaluation/{name}.parquet" for name in datasets},
            "mathematics": False,
            "metrics": [
                {"name": name, "range": [0, 1] if name == CORRECT else None}
                for name in (evaluation.own if evaluation else [CORRECT])
            ],
            "primary": (question := self.question(specs)).model_dump(),
            "claims": [claim.model_dump() for claim in self.claims(question, list(specs))],
            "inputs": {"problems": "data/train.parquet"},
            "bootstrap": config.bootstrap,
            "confidence": config.confidence,
            **config.statistics.model_dump(),
            "model": config.model or "A model that the study does not name",
            "training_data": config.training_data or "problems that the study does not name",
            "imported": self.sentences(),
            "has_base": bool(evaluation and ("base", None) in evaluation.answers),
            "unmeasured": evaluation.unmeasured if evaluation else [*OF_ALL_TASKS],
        }

    def question(self, specs: dict[str, Any]) -> Primary:
        """The primary question, without a time of declaration: all runs were there before it."""
        written, evaluation, baseline = self.config.primary, self.evaluation, self.config.baseline
        listed = written.contrasts
        contrasts = (
            [Contrast(arm=arm, against=baseline) for arm in specs if arm != baseline]
            if listed is None
            else [Contrast(arm=each.arm, against=each.against or baseline) for each in listed]
        )
        if evaluation is None:
            if written != type(written)():
                raise StudyError("primary: nothing is evaluated; name answers under evaluation, or leave primary out")
            return Primary(dataset="", mode="greedy", metric=CORRECT, contrasts=[])
        known = self._known(evaluation)
        chosen = {key: getattr(written, key) or values[0] for key, values in known.items()}
        check_known("primary", chosen, known)
        keys = {arm: spec.key for arm, spec in specs.items()}
        return Primary(**chosen, contrasts=contrasts, arm_keys=keys)

    def claims(self, question: Primary, arms: list[str]) -> list[DeclaredClaim]:
        """The claims, each with the time of the first import that had it: all runs were there by then."""
        declared = {claim.key: claim for claim in self.former_claims}
        now = Since(declared=utc_now(), runs_then=len(self.runs)).since
        claims = []
        for name, written in self.config.claims.items():
            where, against = f"claims.{name}", written.against or self.config.baseline
            if self.evaluation is None:
                raise StudyError(f"{where}: nothing is evaluated; name answers under evaluation, or leave claims out")
            models = [*arms, *(["base"] if ("base", None) in self.evaluation.answers else [])]
            known = self._known(self.evaluation)
            chosen = {key: getattr(written, key) or getattr(question, key) for key in known}
            chosen |= {"arm": written.arm, "against": against}
            check_known(where, chosen, {**known, "arm": arms, "against": models})
            if written.arm == against:
                raise StudyError(f"{where}: compares {against} with itself; name two arms that differ")
            own = written.model_dump(include={"says", "source", "direction", "margin"})
            claim = DeclaredClaim(name=name, **own, **chosen, **now)
            known_claim = declared.get(claim.key)
            claims.append(claim.model_copy(update=known_claim.since) if known_claim else claim)
        return claims

    def _known(self, evaluation: Evaluation) -> dict[str, list[str]]:
        """What a question or a claim may choose of the answers. The first value of a key is the question's default."""
        measured = [name for name in OF_ALL_TASKS if name not in evaluation.unmeasured]
        return {"dataset": [evaluation.dataset], "mode": evaluation.modes, "metric": [*evaluation.own, *measured]}

    def sentences(self) -> list[str]:
        """Where the runs come from, how they were read, and what the files lack."""
        words = []
        for arm, of_arm in self.arms.items():
            origins = ", ".join(
                f"{counted(count, 'run')} " + (f"from {name} files" if name != OWN else "trained by this project")
                for name, count in Counter(of_arm.formats).items()
            )
            words.append(f"{arm}: {origins}.")
        notes: dict[str, list[str]] = {}
        for arm, of_arm in self.arms.items():
            for note in dict.fromkeys(of_arm.notes):
                notes.setdefault(note, []).append(arm)
        words += self.seen.sentences()
        foreign = [arm for arm, of_arm in self.arms.items() if set(of_arm.formats) != {OWN}]
        for note, arms in notes.items():
            words.append(note if arms == foreign and len(arms) > 1 else f"{', '.join(arms)}: {note}")
        if foreign:
            words.append(
                "Imported runs have no gradients, no advantages by component and no hours; whether they differ in more "
                "than the weights, such as in model, data or settings, is not known."
            )
            if self.config.aggregation is None:
                words.append(
                    "How advantages follow from several components is not in the files: groups without signal are "
                    "those of TRL's default, sum_then_normalize (key aggregation)."
                )
        if self.config.evaluation is None:
            words.append("Nothing was evaluated: no accuracies, differences, effects or signs of reward hacking.")
        else:
            assert self.evaluation
            words += [*self.evaluation.missing, *self.seen.trained_on(self.evaluation.questions)]
            words.append("No comparison is on record from before the first run, so read all of them as exploratory.")
        return words


def check_known(where: str, chosen: dict[str, str], known: dict[str, list[str]]) -> None:
    """Refuse a value of a section that is not among the known ones of its key."""
    for key, value in chosen.items():
        if value not in known[key]:
            raise StudyError(f"{where}.{key}: unknown {key} '{value}'; here: {', '.join(known[key])}")
