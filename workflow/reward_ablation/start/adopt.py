"""Finished runs in other results folders that the study needs: named by the plan, taken over on request.

Only `reward-ablation plan` calls it, and takes runs over with `--adopt RESULTS`. A run's key is a digest of its
settings. Equal keys make equal runs, and the records say by which code and inputs. A study that was renamed, copied in
part, or run from another checkout is therefore not trained again. A run of an equal key is taken over whole. Runs that
differ in what no weight depends on, as in a component of weight 0, are made of finished ones by `rescore`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from reward_ablation.start.decide import Decisions, stale_because
from reward_ablation.start.estimates import BASE_MODEL
from reward_ablation.start.history import Damage, read_record, recorded_files
from reward_ablation.start.plan import plural
from reward_ablation.start.rescore import Source, calls_a_file, make_rescored, missing_runs, rescored_lines, sources
from reward_ablation.study.answers_record import record_beside
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, WORK, deciding_inputs, key_in, remember_keys
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import link_or_copy, sha256, write_json
from reward_ablation.system.locks import Held, take

#: Written last, so that a run whose taking over was interrupted does not count as finished.
_LAST = (HIDDEN_RECORD, RECORD)
#: The record of a run that is being made, until the records of the answers have its digest.
_RECORD_TO_BE = f".{RECORD}.tmp"


def siblings(decisions: Decisions) -> list[Path]:
    """Other folders with runs in the folder that the results folder lies in."""
    own = decisions.root.resolve()
    try:
        with os.scandir(own.parent) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir() and entry.name != own.name]
    except OSError:
        return []
    return sorted(folder for folder in folders if (folder / "runs").is_dir())


def finished_in(results: Path, decisions: Decisions) -> dict[str, Path]:
    """Folders of runs that a start would train and that are finished in other results, by their names here."""
    return {name: folder for name, folder, why_not in _of_equal_keys(results, decisions) if not why_not}


def _of_equal_keys(results: Path, decisions: Decisions) -> Iterator[tuple[str, Path, str | None]]:
    """For each run that is missing here and has a run of its key there: name, folder there, and why not to take it."""
    wanted = missing_runs(decisions)
    of_key: dict[str, list[Path]] = {}
    for folder in sorted((results / "runs").glob("*-*")) if wanted else ():
        of_key.setdefault(folder.name.rpartition("-")[2], []).append(folder)
    damage = Damage(decisions.study, results)
    for name, run in wanted.items():
        for folder in of_key.get(run.key, ()):
            seed = folder / f"seed{run.seed}"
            if record := read_record(seed):
                why_not = stale_because(record, run, decisions.present)
                yield name, seed, why_not or damage.of_run(f"{folder.name}/{seed.name}", record)


def elsewhere_lines(decisions: Decisions) -> list[str]:
    """A line for each folder with runs that need not be trained again: how many, and what takes them over."""
    lines = rescored_lines(sources(decisions.root, decisions), os.path.relpath(decisions.root))
    for results in siblings(decisions):
        if number := len(finished_in(results, decisions)):
            shown, (are, them) = os.path.relpath(results), ("is", "it") if number == 1 else ("are", "them")
            lines.append(f"{number} of these runs {are} finished in {shown}: to take {them} over, add --adopt {shown}")
    return lines


def adopt(results: Path, decisions: Decisions, calls_files: bool = True) -> str:
    """Take over finished runs of other results, with their inputs and answers. Returns a line that says how many.

    Without `calls_files`, runs for which a file of rewards would be called are left, and the line says how many.

    Nothing that exists is replaced, except what an interrupted training left of such a run. The files are hard links,
    or copies where the file system has no links. `results` may be the study's own: then runs are only made of others.

    Raises StudyError if the folder has no run that the study needs.
    """
    if not (results / "runs").is_dir():
        raise StudyError(f"--adopt {results}: has no folder `runs`; name a results folder of finished runs")
    is_own = results.resolve() == decisions.root.resolve()
    candidates = [] if is_own else [*_of_equal_keys(results, decisions)]
    whole = {name for name, _, why_not in candidates if not why_not}
    to_make, left = _made_from(results, decisions, whole, calls_files)
    if not whole and not to_make:
        no_run = "no finished run there is, or was trained as, a run that this study would train"
        why = left or next((f"{folder.relative_to(results)}: {why_not}" for _, folder, why_not in candidates), no_run)
        raise StudyError(f"--adopt {results}: nothing to take over; {why}")
    found: dict[str, Path] = {}
    if not is_own:
        records = [read_record(folder) or {} for _, folder, why_not in candidates if not why_not]
        records += [source.record for source in to_make.values()]
        for file in sorted(decisions.inputs_to_make):
            if _is_as_recorded(results, file, decisions.study, records):
                _take_input(results, decisions.root, file)
        decisions = Decisions(decisions.study, decisions.code_counts)  # runs must be of the inputs as they are now
        found = finished_in(results, decisions)
        to_make, left = _made_from(results, decisions, found, calls_files)
    # Before any run is made: a reward may fail at a later run, and the question was declared for the keys of the old.
    remember_keys(decisions.root, {key_in(name): key_in(source.folder.parent.name) for name, source in to_make.items()})
    if not found and not to_make:
        raise StudyError(f"--adopt {results}: took over no run; its runs had other inputs than those here")
    if not is_own:
        _take_answers(results, Path(BASE_MODEL), decisions, BASE_MODEL)
    taken = 0
    for name, folder in {**found, **{name: source.folder for name, source in to_make.items()}}.items():
        with suppress(Held), take(decisions.root / "runs" / name / LOCK):  # held while a process trains the run
            taken += _take_run(folder, to_make.get(name), decisions, name)
    if not taken:
        raise StudyError(f"--adopt {results}: took over no run; processes train these runs here now")
    return f"took over {plural(taken, 'finished run')} from {results}" + (f"; {left}" if left else "")


def _take_run(folder: Path, source: Source | None, decisions: Decisions, name: str) -> bool:
    """Take over the run in `folder`, or make the run `name` of its source; False if it has been trained meanwhile."""
    target = decisions.root / "runs" / name
    if (target / RECORD).exists():
        return False
    _remove_older(folder, target)
    if source:
        made = make_rescored(source, decisions.runs[name].run, decisions.study, target)
        write_json(made, target / _RECORD_TO_BE)
    # Answers come before the record: a run with one is never taken over again, even if its answers are missing.
    _take_answers(folder.parents[2], folder.relative_to(folder.parents[1]), decisions, name)
    if source:
        _name_run(decisions.root / decisions.study.answers_folder / name, folder / RECORD, target / _RECORD_TO_BE)
        (target / _RECORD_TO_BE).replace(target / HIDDEN_RECORD)
        write_json(made, target / RECORD)
    else:
        _take_folder(folder, target)
    return True


def _made_from(
    results: Path, decisions: Decisions, whole: Collection[str], calls_files: bool
) -> tuple[dict[str, Source], str]:
    """Sources of runs, but of those taken over `whole`, and words on runs that are left: they call files of rewards."""
    found, runs = sources(results, decisions), decisions.runs
    found = {name: source for name, source in found.items() if name not in whole}
    made = {name: each for name, each in found.items() if calls_files or not calls_a_file(each, runs[name].run)}
    number = plural(len(found) - len(made), "run")
    left = f"left {number} to score by files of rewards, which --quick does not call; leave out --quick"
    return made, left if len(made) < len(found) else ""


def _take_answers(results: Path, folder: Path, decisions: Decisions, name: str) -> None:
    """Take over a model's answers, and scores of the same answers, each with its record."""
    made, scored = decisions.study.answers_folder, decisions.study.scores_folder
    for source in sorted((results / made / folder).glob("*.parquet")):
        answers = decisions.root / made / name / source.name
        _take_table(source, answers)
        if scored and answers.is_file() and sha256(answers) == sha256(source):
            _take_table(results / scored / folder / source.name, decisions.root / scored / name / source.name)


def _take_table(source: Path, target: Path) -> None:
    """Take over a table and its record, unless there is a table here, which the record is not of."""
    if source.is_file() and not target.exists():
        _take(record_beside(source), record_beside(target))
        _take(source, target)  # last, so that another attempt takes over what an interrupted one did not


def _remove_older(source: Path, target: Path) -> None:
    """Remove from a run's folder, which has no record, files that differ from the files of the run taken over."""
    (target / HIDDEN_RECORD).unlink(missing_ok=True)
    inside = {*_files_below(source)}  # a record may be a stranger's, and name any file
    for file, digest, _ in recorded_files(read_record(source) or {}):
        if file in inside and (target / file).is_file() and sha256(target / file) != digest:
            (target / file).unlink()


def _is_as_recorded(results: Path, file: str, study: Study, records: list[dict[str, Any]]) -> bool:
    """Whether an input has the digests that the record beside it and a record of a run give, if they give any."""
    if not (results / file).is_file():
        return False
    digest, name = sha256(results / file), {study.model_file: "model", study.problems_file: "problems"}.get(file)
    named = [deciding_inputs(record.get("spec", {}), record.get("inputs", {})).get(name or "") for record in records]
    beside = (read_record(results, record_beside(file)) or {}).get("sha256", digest)
    return beside == digest and (name is None or any(each in (None, digest) for each in named))


def _name_run(answers: Path, source: Path, made: Path) -> None:
    """In records of answers, put the digest of the made run's record in place of its source's digest."""
    before, now = sha256(source), sha256(made)
    for path in sorted(answers.glob("*.json")):
        record = read_record(path.parent, path.name) or {}
        if record.get("inputs", {}).get("run") == before:
            write_json({**record, "inputs": {**record["inputs"], "run": now}}, path)


def _take_input(results: Path, own: Path, file: str) -> None:
    """Take over a model's folder or a prepared set, with its record, from other results to one's own."""
    record = record_beside(file)
    if file.startswith("models/"):
        _take_folder((results / file).parent, (own / file).parent, last=(Path(file).name,))
        record = record_beside(Path(file).parent)  # which says by which code a supervised start was made
    for each in (record, file):
        _take(results / each, own / each)


def _take_folder(source: Path, target: Path, last: tuple[str, ...] = _LAST) -> None:
    """Take over the regular files of a folder, but no unfinished work, and the files named `last` at the end."""
    for file in sorted(_files_below(source), key=lambda file: (file in last, file)):
        _take(source / file, target / file)


def _files_below(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != WORK and not name.endswith(".tmp")]
        yield from (os.path.relpath(os.path.join(above, name), folder) for name in files if name != LOCK)


def _take(source: Path, target: Path) -> None:
    """Link or copy a file, if it is there and the target is not. No symbolic link is followed: it may lead anywhere."""
    if source.is_file() and not source.is_symlink() and not target.exists():
        link_or_copy(source, target)
