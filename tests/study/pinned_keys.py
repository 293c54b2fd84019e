"""Keys of the shipped configs and fields of all specs, to compare with those in `pinned_keys.json`.

    python tests/study/pinned_keys.py

writes the file anew. Do so only when keys are meant to move, or when a spec gets a new field.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import PydanticUndefined

from reward_ablation.config.base import Section
from reward_ablation.spec import parts, run
from reward_ablation.start.config_files import from_working_folder
from reward_ablation.study.resolve import resolve
from reward_ablation.study.study import Study

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("pinned_keys.json")


def config_of(path: Path, root: Path) -> dict[str, Any]:
    """A shipped config with one GPU for `auto`. Stand-ins replace a model and data outside `root`."""
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    from_working_folder(config, root / path.relative_to(ROOT), print, root)
    if config.get("launch", {}).get("gpus") == "auto":
        config["launch"]["gpus"] = 1
    for source in (config["model"], config["data"]["train"], *config["data"]["evaluation"].values()):
        if str(source.get("path", "")).startswith("../"):
            file = (
                root.parent / source["path"].removeprefix("../") / ("config.json" if source is config["model"] else "")
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
    return config


def shipped_studies() -> dict[str, Study]:
    """All shipped configs as studies, by path below `config/`."""
    folder = ROOT / "config"
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "study")
        root.mkdir()
        shutil.copytree(folder, root / "config")
        studies = {}
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("presets/*.yaml")]):
            study = resolve(config_of(path, root), path.name, root)
            keys_of(study)  # which reads the stand-ins while they are there
            studies[str(path.relative_to(folder))] = study
    return studies


def keys_of(study: Study) -> dict[str, Any]:
    """All keys of a study: in the names of its runs, answers, data and models."""
    return {
        "arms": study.keys,
        "answers": study.answers_folder,
        "data": [study.problems_file, *study.datasets, *([study.demonstrations_file] if study.config.sft else [])],
        "models": [study.fetched_file, study.model_file],
    }


def fields() -> dict[str, dict[str, Any]]:
    """Fields of each part of a spec: those that are `always` written, and the `defaults` of the others."""
    found: dict[str, dict[str, Any]] = {}
    for module in (parts, run):
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, Section) and kind.__module__ == module.__name__:
                defaults = {
                    key: field.get_default(call_default_factory=True) for key, field in kind.model_fields.items()
                }
                always = sorted(key for key, default in defaults.items() if default is PydanticUndefined)
                later = {key: default for key, default in defaults.items() if default is not PydanticUndefined}
                found[name] = {"always": always, "defaults": later}
    return found


def main() -> None:
    content = {"keys": {name: keys_of(study) for name, study in shipped_studies().items()}, "fields": fields()}
    texts = []
    for kind, part in content.items():  # one line a config or part of a spec, so that a difference shows which
        lines = (f"{json.dumps(name)}: {json.dumps(part[name])}" for name in sorted(part))
        texts.append(f"{json.dumps(kind)}: {{\n" + ",\n".join(lines))
    FILE.write_text("{" + "},\n".join(texts) + "}}\n")


def pinned() -> dict[str, Any]:
    """What the file holds."""
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


if __name__ == "__main__":
    main()
