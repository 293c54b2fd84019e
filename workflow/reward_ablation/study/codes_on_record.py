"""Finished runs whose record has the digest of a whole reward file, as earlier versions took it, keep their keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import key_of
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.reward_files import whole_digest


def codes_on_record(
    specs: dict[str, ArmSpec], contents: dict[str, dict[str, Any]], folders: Iterable[str], root: Path
) -> tuple[dict[str, ArmSpec], dict[str, dict[str, Any]]]:
    """The specs and their contents, by arm, with the digests of whole files where runs are there under these alone.

    `folders` are the names of the folders of runs. Relative paths in the specs start from `root`.
    """
    keys = {folder.rpartition("-")[2] for folder in folders}
    specs, contents = dict(specs), dict(contents)
    for arm, content in contents.items() if keys else ():
        if key_of(content) in keys:
            continue
        spec = with_whole_files(specs[arm], root)
        earlier = {**content, "components": {name: dict(each) for name, each in content["components"].items()}}
        for name, component in spec.components.items():
            if component.code:
                earlier["components"][name]["code"] = component.code
        if spec.combine and spec.combine.code:
            earlier["combine"] = {**content["combine"], "code": spec.combine.code}
        if key_of(earlier) in keys:
            specs[arm], contents[arm] = spec, earlier
    return specs, contents


def with_whole_files(spec: ArmSpec, root: Path) -> ArmSpec:
    """A spec whose digests of code are those of whole files."""
    components = {
        name: each.model_copy(update={"code": whole_digest(each.function, root)}) if each.code else each
        for name, each in spec.components.items()
    }
    combine = spec.combine
    if combine and combine.code:
        combine = combine.model_copy(update={"code": whole_digest(combine.method, root)})
    return spec.model_copy(update={"components": components, "combine": combine})
