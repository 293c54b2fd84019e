"""Names and paths in a results folder and in the folders of its runs, as jobs write them and planning reads them.

Local files and folders count by their content, under any spelling of their paths. But the name of a fetched model or a
prepared set has the key of its spec with the path as first spelled. The record beside the file has that path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.spec.canonical import key_of
from reward_ablation.study.answers_record import read_record
from reward_ablation.system.files import write_json

#: Folder of the tables and figures of what is finished, below the results folder.
PREVIEW = "preview"
#: All folders of a study below its results folder, but `ANSWERS_OF_JUDGES`.
FOLDERS = (
    *("benchmarks", "data", "design", "evaluation", "figures", "logs", "models", PREVIEW, "report", "runs"),
    "scores",
    "tables",
)
#: Folder of the prepared evaluation sets, below the results folder.
EVALUATION_SETS = "data/evaluation"
#: The resolved study, in the results folder; and the folder there with the answers of endpoints, which all runs share.
DESCRIPTION, ANSWERS_OF_JUDGES = "study.json", "judge"
#: A finished run's record, and a hidden copy. Snakemake does not know the copy, and so does not remove it.
RECORD, HIDDEN_RECORD = "run.json", ".run.json"
#: In the results folder: a line for each run that `reward-ablation prune` deleted, as it may have suggested a question.
PRUNED = ".pruned_runs"
#: In the folder of a run that diverged: what the run was trained with, and at which step it diverged.
DIVERGED = "diverged.json"
#: Output of the run's vLLM server in the last attempt.
VLLM_LOG = "vllm.log"
#: Lock of the process that trains the run. This process may outlive its Snakemake.
LOCK = ".lock"
#: Folder with the work of an unfinished run: its checkpoints, and the parts of its tables.
WORK = ".work"
#: Folder with the unfinished answers of a job, in the folder of a model's answers.
UNFINISHED = ".unfinished"
#: Ending of the hidden folder of an unfinished supervised start. It lies beside the future folder of the model.
SFT_WORK = ".sft"
#: In a folder of work: the time and hardware of each attempt; and the folder of counted requests to endpoints.
ATTEMPTS, REQUESTS = "attempts.json", "requests"
#: In a folder of work: the spec, code and inputs that the work belongs to. In each checkpoint: the list of digests,
#: which is written last.
OWNER, SEAL = "owner.json", "checksums.json"
#: Folder of the final model; and the start of the name of each model that the run kept during training.
MODEL, KEPT_MODEL = "model", "model-step"
#: Most spellings of a spec that are tried. A free choice.
MOST_SPELLINGS = 1000


def gpus_of(attempt: dict[str, Any]) -> int:
    """Number of GPUs that an attempt had by its record."""
    return len(attempt.get("hardware", {}).get("gpus", []))


def answers_of_judges(run_dir: Path) -> Path | None:
    """Where the answers of endpoints are kept for a run; None where its folder is in no results folder."""
    runs = run_dir.resolve().parent.parent
    return runs.parent / ANSWERS_OF_JUDGES if runs.name == "runs" else None


def description_of(run_dir: Path) -> Path:
    """`study.json` of the results folder that a run belongs to, even if folders in between are links."""
    return run_dir.absolute().parent.parent.parent / DESCRIPTION


def step_of_checkpoint(name: str) -> int:
    """Step of a folder `checkpoint-N`; 0 for any other name."""
    kind, _, number = name.rpartition("-")
    return int(number) if kind == "checkpoint" and number.isdecimal() else 0


def step_of_kept_model(name: str) -> int:
    """Step of a folder `model-stepN`; 0 for any other name."""
    number = name.removeprefix(KEPT_MODEL)
    return int(number) if number != name and number.isdecimal() else 0


def base_file(spec: Any) -> str:
    """The record of a base model or of a supervised start, below the results folder, by the spec."""
    return f"models/base-{key_of(spec)}/model.json"


def evaluation_file(dataset: str) -> str:
    """A prepared evaluation set, below the results folder, by its name and key."""
    return f"{EVALUATION_SETS}/{dataset}.parquet"


def training_file(spec: Any) -> str:
    """A prepared training set, below the results folder, by the spec."""
    return f"data/train-{key_of(spec)}.parquet"


def demonstrations_file(spec: Any) -> str:
    """The prepared demonstrations of a supervised start, below the results folder, by the spec."""
    return f"data/sft-{key_of(spec)}.parquet"


def deciding_inputs(spec: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, str]:
    """Digests of the inputs that decide a run beside its spec. Not a local model's: the spec has its content."""
    by_content = spec.get("model", {}).get("source") == "local" and not spec.get("sft")
    return {name: digest for name, digest in inputs.items() if not (by_content and name == "model")}


class EarlierPaths:
    """The paths that earlier starts read local files and folders from, as the results folder records them."""

    def __init__(self, results: Path):
        self.results = results

    def as_made(self, spec: Any, file_of: Callable[[Any], str]) -> Any:
        """The spec, a JSON value, with the paths under which its file was made; as it is without such a file."""
        return next((other for other in self._respelled(spec) if (self.results / file_of(other)).exists()), spec)

    def evaluation_sets(self, specs: Mapping[str, Any]) -> dict[str, Any]:
        """By name and key, the specs of evaluation sets (JSON values by name) as they were made, under any name."""
        present = sorted(path.stem for path in (self.results / EVALUATION_SETS).glob("*.parquet"))
        stems = {name: f"{name}-{key_of(spec)}" for name, spec in specs.items()}
        free = [stem for stem in present if stem not in stems.values()]
        made = {}
        for name, spec in specs.items():
            stem, made_of = stems[name], spec
            if stem not in present and free:
                keys = {key_of(other): other for other in self._respelled(spec)}
                fitting = [other for other in free if other.rpartition("-")[2] in keys]
                if fitting:
                    stem = min(fitting, key=lambda other: other.rpartition("-")[0] != name)
                    made_of = keys[stem.rpartition("-")[2]]
                    free.remove(stem)
            made[stem] = made_of
        return made

    def _respelled(self, spec: Any) -> Iterator[Any]:
        """The spec itself, then the spec with other known paths of the same content, `MOST_SPELLINGS` at most."""
        return islice(self._variants(spec), MOST_SPELLINGS)

    def _variants(self, value: Any) -> Iterator[Any]:
        """A part of a spec as it is, and with other paths wherever it has both `path` and `content`."""
        if isinstance(value, list):
            yield from map(list, product(*map(self._few_variants, value)))
        elif isinstance(value, dict):
            paths = self._known(value) if {"path", "content"} <= value.keys() else ()
            for parts in product(*map(self._few_variants, value.values())):
                own = dict(zip(value, parts, strict=True))
                yield own
                yield from ({**own, "path": path} for path in paths)
        else:
            yield value

    def _few_variants(self, value: Any) -> list[Any]:
        return [*self._respelled(value)]

    def _known(self, source: Mapping[str, Any]) -> list[str]:
        """Other paths of a local model or file. Of a model, only the key says whether the content is the same."""
        paths = self._of_models if source["source"] == "local" else self._of_data.get(source["content"], [])
        return [path for path in paths if path != source["path"]]

    @cached_property
    def _of_models(self) -> list[str]:
        records = map(read_record, sorted(self.results.glob("models/base-*/model.json")))
        return [*dict.fromkeys(str(record["id"]) for record in records if "id" in record)]

    @cached_property
    def _of_data(self) -> dict[str, list[str]]:
        paths: dict[str, list[str]] = {}
        for file in sorted(self.results.glob("data/**/*.json")):
            source = read_record(file).get("source")
            if isinstance(source, dict) and "sha256" in source:
                paths.setdefault(source["sha256"], []).append(str(source.get("path")))
        return {digest: [*dict.fromkeys(each)] for digest, each in paths.items()}


def key_in(name: str) -> str:
    """The key in a run's name."""
    return name.partition("/")[0].rpartition("-")[2]


def folders_of(keys: dict[str, str], present: Iterable[str]) -> dict[str, str]:
    """Folder below `runs/` of each key; of several, the one that the workflow would name, so all machines agree."""
    named: dict[str, list[str]] = {key: [] for key in keys.values()}
    for arm, key in keys.items():
        named[key].append(f"{arm}-{key}")
    of_key: dict[str, list[str]] = {key: [] for key in named}
    for folder in sorted(present):
        name, _, key = folder.rpartition("-")
        if key in of_key and re.fullmatch(NAME_PATTERN, name):
            of_key[key].append(folder)
    return {
        key: next((folder for folder in own if folder in of_key[key]), (of_key[key] or own)[0])
        for key, own in named.items()
    }


#: In the results folder: by the key of an arm whose runs `plan --adopt` made of others, the key of those others.
TRAINED_KEYS = ".trained_keys.json"


def trained_keys(results: Path, keys: Mapping[str, str]) -> dict[str, str]:
    """The keys, by arm, under which runs were trained and the study's question was declared."""
    known = read_record(results / TRAINED_KEYS)
    return {arm: str(known.get(key, key)) for arm, key in keys.items()}


def remember_keys(results: Path, keys: Mapping[str, str]) -> None:
    """Record the key under which an arm was trained, by its present key."""
    if keys:
        known = read_record(results / TRAINED_KEYS)
        write_json({**known, **{new: known.get(old, old) for new, old in keys.items()}}, results / TRAINED_KEYS)


#: End of a message on a run that diverged.
GOES_ON = "start the workflow again, which goes on without this run"


def record_divergence(run_dir: Path, made: dict[str, Any], step: int, what: str) -> None:
    """Write the record of a run that diverged: `made` as in `run.json`, and what was not finite at the step."""
    kept = {name: made[name] for name in ("seed", "spec", "code", "inputs", "modules") if name in made}
    write_json({**kept, "step": step, "what": what}, run_dir / DIVERGED)
