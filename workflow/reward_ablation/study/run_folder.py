"""Names and paths in a results folder and in the folders of its runs, as jobs write them and planning reads them.

Local files and folders count by their content: what was made of one is found again under any spelling of its path. The
names of fetched models and prepared data have a key. The key covers the path as the config spelled it when the file was
made. The record beside such a file names this path, so that the same key can be computed from the same content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import key_of
from reward_ablation.study.answers_record import read_record

#: Folder of the tables and figures of what is finished, below the results folder.
PREVIEW = "preview"
#: All folders of a study below its results folder.
FOLDERS = (
    *("benchmarks", "data", "design", "evaluation", "exports", "figures", "logs", "models", PREVIEW, "report", "runs"),
    "scores",
    "tables",
)
#: Folder of the prepared evaluation sets, below the results folder.
EVALUATION_SETS = "data/evaluation"
#: The resolved study, in the results folder; and the folder there with the answers of endpoints, which all runs share.
DESCRIPTION, ANSWERS_OF_JUDGES = "study.json", "judge"
#: A finished run's record, and a hidden copy. Snakemake does not know the copy, and so does not remove it.
RECORD, HIDDEN_RECORD = "run.json", ".run.json"
#: In the results folder: a line for each run that `reward-ablation prune` deleted, since such a run may have suggested
#: a question, too.
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
#: Most spellings of a spec that are tried.
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
    """The digests of a run's inputs that decide beside its spec.

    The record of a local model has the path of its folder. The model's content is in the spec.
    """
    by_content = spec.get("model", {}).get("source") == "local" and not spec.get("sft")
    return {name: digest for name, digest in inputs.items() if not (by_content and name == "model")}


class EarlierPaths:
    """The paths that earlier starts read local files and folders from, as the results folder records them."""

    def __init__(self, results: Path):
        self.results = results

    def as_made(self, spec: Any, file_of: Callable[[Any], str]) -> Any:
        """The spec, as a JSON value, with the paths under which its file was made; as it is if there is no such file.

        `file_of` is the file of a spec, below the results folder.
        """
        if (self.results / file_of(spec)).exists():
            return spec
        return next((other for other in self._respelled(spec) if (self.results / file_of(other)).exists()), spec)

    def evaluation_sets(self, specs: Mapping[str, Any]) -> dict[str, Any]:
        """By name and key, the specs of evaluation sets as they were made. A set that was renamed is found, too.

        `specs` are JSON values, by the names of the sets in the config.
        """
        present = sorted(path.stem for path in (self.results / EVALUATION_SETS).glob("*.parquet"))
        free = [stem for stem in present if stem not in {f"{name}-{key_of(spec)}" for name, spec in specs.items()}]
        made = {}
        for name, spec in specs.items():
            stem, spec = f"{name}-{key_of(spec)}", spec
            if stem not in present:
                stem, spec = self._earlier_set(spec, sorted(free, key=lambda other: _name(other) != name), (stem, spec))
                free = [other for other in free if other != stem]
            made[stem] = spec
        return made

    def _earlier_set(self, spec: Any, stems: Iterable[str], otherwise: tuple[str, Any]) -> tuple[str, Any]:
        """Name and spec of the first set among `stems` that was made of the same content."""
        keys = {key_of(other): other for other in self._respelled(spec)} if stems else {}
        return next(((stem, keys[key]) for stem in stems if (key := stem.rpartition("-")[2]) in keys), otherwise)

    def _respelled(self, spec: Any) -> Iterator[Any]:
        """The spec itself, then the spec with other known paths of the same content, `MOST_SPELLINGS` at most."""
        return islice(self._variants(spec), MOST_SPELLINGS)

    def _variants(self, value: Any) -> Iterator[Any]:
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


def _name(stem: str) -> str:
    return stem.rpartition("-")[0]
