"""Local files and folders count by their content: what was made of one is found again under any spelling of its path.

The names of fetched models and prepared data have a key. The key covers the path as the config spelled it when the file
was made. The record beside such a file names this path, so that the same key can be computed from the same content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import key_of
from reward_ablation.study.answers_record import read_record

#: Most spellings of a spec that are tried.
MOST = 1000
#: Folder of the prepared evaluation sets, below the results folder.
EVALUATION_SETS = "data/evaluation"


def base_file(spec: Any) -> str:
    """The record of a base model or of a supervised start, below the results folder, by the spec."""
    return f"models/base-{key_of(spec)}/model.json"


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


class Places:
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
        """The spec itself, then the spec with other known paths of the same content, `MOST` at most."""
        return islice(self._variants(spec), MOST)

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
