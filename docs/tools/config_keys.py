"""Generate the reference of the config's keys from the config models: the tables of `docs/config_keys.md`.

Run as `python docs/tools/config_keys.py` (`make schemas`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reward_ablation.config.base import COMMIT, FOLDER, HIGHEST_SEED, LARGEST_INT, NAME, REPOSITORY
from schemas import config_schema

PAGE = Path(__file__).parents[1] / "config_keys.md"
BEGIN, END = "<!-- keys -->\n", "<!-- /keys -->\n"

#: Sections of settings by TRL's names, which TRL documents.
TRL_CONFIG_OF = {"GRPOSettings": "TRL's `GRPOConfig`", "SFTSettings": "TRL's `SFTConfig`"}

#: Texts with a pattern: what the table calls them.
PATTERNS = {NAME: "name", FOLDER: "folder", COMMIT: "commit", REPOSITORY: "repository"}

#: Upper limits that the page states once, for all keys.
OF_ALL_INTEGERS = (LARGEST_INT, HIGHEST_SEED)

_SEED = "Seed of the random draws."
_WEIGHTS = "Weight of each component; a component that is left out has weight 0."
_SOURCE = "Which kind of source this is."
_DESIGN = "Which design this is."

#: Descriptions of keys whose models have none. A description in a model would count as code in the digests of tables
#: and scores, which would all be made again.
FURTHER = {
    "StudyConfig.name": "Name of the study, and of its folder of results.",
    "StudyConfig.seeds": "Seeds, one run per arm and seed; or numbers of seeds after which contrasts may be decided.",
    "StudyConfig.model": "The base model.",
    "StudyConfig.data": "The training set and the evaluation sets.",
    "StudyConfig.prompt": "How a question becomes a prompt.",
    "StudyConfig.components": "Reward functions by name.",
    "StudyConfig.arms": "The arms: a design, with its weights.",
    "StudyConfig.training": "Settings of the trainer, by TRL's names.",
    "StudyConfig.gradients": "Measurement of the components' gradients.",
    "StudyConfig.launch": "Processes and GPUs of one training run.",
    "StudyConfig.evaluation": "How the base model and the trained models are judged.",
    "StudyConfig.confidence": "Level of the intervals.",
    "StudyConfig.statistics": "How the tables compute intervals and tests.",
    "StudyConfig.figures": "Which figures `all.pdf` holds.",
    "Arm.training": "Settings of the trainer that replace the study's in this arm.",
    "Arm.weights": _WEIGHTS,
    **{f"{design}.weights": _WEIGHTS for design in ("Factorial", "LeaveOneOut", "OneAtATime")},
    **{f"{design}.design": _DESIGN for design in ("Factorial", "LeaveOneOut", "ListDesign", "OneAtATime", "Simplex")},
    "ListDesign.arms": "The arms by name.",
    "ClaimOnArms.arm": "The arm that the claim is about.",
    "ContrastOfArms.arm": "The arm that is compared.",
    "Data.train": "The training set.",
    "Data.evaluation": "The evaluation sets by name.",
    **{
        f"{source}.source": _SOURCE
        for source in ("HubModel", "LocalModel", "DemoModel", "HubData", "FileData", "WordProblems")
    },
    "HubData.split": "Split of the data set.",
    "FileData.path": "The file, from the folder of the config, or absolute.",
    "LocalModel.path": "The model's folder.",
    "DemoModel.seed": _SEED,
    "WordProblems.seed": _SEED,
    "WordProblems.count": "Number of problems.",
    "Evaluation.temperature": "Temperature of the sampled answers.",
    "Evaluation.top_p": "Tokens are sampled from the most probable ones that together have this probability.",
    "Evaluation.max_new_tokens": "Most tokens of an answer.",
    "Evaluation.batch_size": "Number of prompts that are answered together.",
    "Evaluation.seed": "Seed of the sampled answers; each question and sample has its own stream.",
    "Metric.higher_is_better": "Whether a higher score is better.",
    "Lora.r": "Rank of the adapters.",
    "Lora.lora_alpha": "Scale of the adapters: their product is multiplied by lora_alpha / r.",
    "Lora.lora_dropout": "Dropout in front of the adapters.",
    "Lora.target_modules": "Layers that get adapters.",
    "Sft.data": "The demonstrations.",
    "Sft.training": "Settings of the trainer, by TRL's names.",
    "Sft.seed": "Seed of data order, adapters and dropout.",
}


def tables(schema: dict[str, Any]) -> str:
    """Markdown of all tables: one for the study, one for each section, in the order of the study's keys."""
    definitions = {"StudyConfig": schema, **schema["$defs"]}
    places: dict[str, list[str]] = {"StudyConfig": [""]}
    waiting = ["StudyConfig"]
    for name in waiting:  # grows
        for key, rule in definitions[name].get("properties", {}).items():
            for section, path in sections_in(rule, key):
                if section in TRL_CONFIG_OF:
                    continue
                if section not in places:
                    waiting.append(section)
                parents = places[name]
                own = [f"{parent}.{path}".lstrip(".") for parent in parents]
                places[section] = list(dict.fromkeys([*places.get(section, []), *own]))
    keys = ["", *schema["properties"]]
    waiting.sort(key=lambda name: keys.index(re.split(r"[.\[]", places[name][0])[0]))  # stable
    return "\n".join(section_text(name, definitions[name], places[name]) for name in waiting)


def sections_in(rule: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Sections that a value may be or contain, each with its path. `<name>` stands for names that users give."""
    if "$ref" in rule:
        yield rule["$ref"].rpartition("/")[2], path
    for option in (*rule.get("anyOf", ()), *rule.get("oneOf", ())):
        yield from sections_in(option, path)
    for of_names in rule.get("patternProperties", {}).values():
        yield from sections_in(of_names, f"{path}.<name>")
    if isinstance(items := rule.get("items"), dict):
        yield from sections_in(items, f"{path}[]")


def section_text(name: str, definition: dict[str, Any], places: list[str]) -> str:
    """Heading, description and table of a section."""
    title = f"`{places[0]}`" if places[0] else "The study"
    lines = [f"## {title}{variant_of(definition)}", ""]
    lines += [definition["description"].partition("\n\n")[0].replace("\n", " "), ""]
    if places[1:]:
        lines += [f"The same keys: {', '.join(f'`{place}`' for place in places[1:])}.", ""]
    lines += ["| key | type | default | what it is |", "| --- | --- | --- | --- |"]
    for key, rule in definition["properties"].items():
        path = f"{places[0]}.{key}".lstrip(".")
        cells = [f"`{path}`", kind_of(rule), default_of(key, rule, definition), description_of(name, key, rule)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def variant_of(definition: dict[str, Any]) -> str:
    """The part of a section's heading that says for which source or design the keys are."""
    for key in ("source", "design"):
        rule = definition["properties"].get(key, {})
        if values := rule.get("enum") or ([rule["const"]] if "const" in rule else []):
            return f" with `{key}` {', '.join(f'`{value}`' for value in values)}"
    return ""


def description_of(section: str, key: str, rule: dict[str, Any]) -> str:
    """What a key means; KeyError if neither its model nor `FURTHER` describes it."""
    written = rule.get("description") or FURTHER[f"{section}.{key}"]
    return written.replace("\n", " ").replace("<", "&lt;").replace("*", "\\*")


def default_of(key: str, rule: dict[str, Any], definition: dict[str, Any]) -> str:
    """The default as YAML would have it."""
    if key in definition.get("required", ()):
        return "required"
    default = rule.get("default")
    if default in (None, [], {}) or isinstance(default, dict):
        return "none" if not isinstance(default, dict) or not default else "the defaults of its keys"
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def kind_of(rule: dict[str, Any]) -> str:
    """Type of a value in words."""
    options = [option for option in (*rule.get("anyOf", ()), *rule.get("oneOf", ())) if option.get("type") != "null"]
    if options:
        return " or ".join(dict.fromkeys(map(kind_of, options)))
    if "$ref" in rule:
        return TRL_CONFIG_OF.get(rule["$ref"].rpartition("/")[2], "section")
    if "const" in rule or "enum" in rule:
        return ", ".join(f"`{value}`" for value in rule.get("enum", [rule.get("const")]))
    if names := rule.get("patternProperties"):
        (of_names,) = names.values()
        return f"mapping: name → {kind_of(of_names)}"
    if "prefixItems" in rule:
        return f"list of {len(rule['prefixItems'])} numbers"
    if isinstance(rule.get("items"), dict):
        return f"list of {kind_of(rule['items'])}"
    if rule.get("type") == "string":
        return PATTERNS.get(rule.get("pattern", ""), "text")
    words = {"object": "mapping", "array": "list", "boolean": "`true`, `false`"}
    kind = words.get(rule["type"], rule["type"])
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [
        f"{sign} {rule[bound]:.12g}" for bound, sign in signs.items() if rule.get(bound) not in (None, *OF_ALL_INTEGERS)
    ]
    return f"{kind} {', '.join(bounds)}".replace("<", "&lt;").strip()


def page(text: str) -> str:
    """Text of the page, with newly made tables between its two marks."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + tables(config_schema()) + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
