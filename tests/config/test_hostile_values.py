"""No text of a config is a command to a shell, a terminal or a browser: the text is refused, or arrives unchanged."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from snakemake.utils import format as format_command

from reward_ablation.cluster.request import arguments, request_of
from reward_ablation.cluster.site import read_site
from reward_ablation.report.pages import arms_page, as_yaml, config_page
from reward_ablation.study.resolve import resolve
from reward_ablation.study.shown_paths import without_places
from reward_ablation.system.errors import StudyError
from rule_commands import shell_commands, words_in_bash

HOSTILE = [
    "$(touch PWNED) `touch PWNED`; a && touch PWNED | cat > PWNED #",
    *("' $(touch PWNED) '", '" $(touch PWNED) "', "back\\slash\\ it's", "* ? [a-z] ~ !1", "--output=PWNED", " a "),
    *("two\r\nlines", "nul\0", "\x1b[31mred", "\x9b31m"),  # colours of a terminal, the last in one character
    *("..", "../../outside", "/outside"),
    *("x" * 300, "x" * 200_000),  # longer than a file's name, and than a command's argument
    *("{wildcards.run} {", "%j %(name)s %%"),  # Snakemake's fields, Slurm's and Python's
    '"><img src=x onerror=touch(1)> <script>touch(1)</script> &lt;',
    *('{"a": [1]}', "!!python/object/apply:os.system [touch PWNED]", "*alias", "- a: b # c"),
    *("\ud800", "\u202egnp.exe"),  # half a character; writes backwards
    *("ünï 漢字 🎉", ""),
]

REWARDS = "def mine(completions, *, word=None, **columns):\n    return [0.0 for _ in completions]\n"


def put(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Set a key of the config. If the path ends with `<key>`, the value becomes the name of a key there."""
    *parents, last = path.split("/")
    section: Any = config
    for key in parents:
        section = section.setdefault(key, {}) if isinstance(section, dict) else section[int(key)]
    section[value if last == "<key>" else last] = NEEDED.get(path) if last == "<key>" else value
    return config


#: What stands under a hostile key.
NEEDED: dict[str, Any] = {
    "arms/arms/<key>": {"weights": {"format": 1}},
    "components/<key>": {"function": "constant"},
    "data/evaluation/<key>": {"source": "word_problems", "count": 5, "split": "test"},
    "components/mine/parameters/word/<key>": 1,
    "training/<key>": 1,
    "launch/resources/<key>": 1,
    "<key>": 1,
}
HUB, FILE = {"source": "hub", "id": "a/b", "revision": "0" * 40}, {"source": "file", "path": "rows.jsonl"}
SFT = {"data": {"source": "word_problems", "count": 5, "split": "train"}, "completion": "{solution}"}

#: Fields of free text, and what the config has beside them.
FIELDS: dict[str, dict[str, Any]] = {
    "name": {},
    "results": {},
    "model/id": {"model": HUB},
    "model/path": {"model": {"source": "local", "path": "model"}},
    "data/train/path": {"data/train": FILE},
    "data/train/columns/question": {"data/train": FILE},
    "prompt/system": {},
    "prompt/template": {},
    "components/mine/function": {},
    "components/mine/parameters/word": {},
    "training/run_name": {"training/report_to": "tensorboard"},
    "training/chat_template_kwargs/style": {"prompt": {"chat": True}},
    "sft/completion": {"sft": SFT},
    "launch/resources/slurm_partition": {},
    "evaluation/answer_format": {},
    **{path: {} for path in NEEDED},
}


def tags_of(page: str) -> set[str]:
    """Tags of a page."""
    tags: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.add(tag)  # type: ignore[method-assign]
    parser.feed(page)
    return tags


def leaves(value: Any) -> list[Any]:
    """All keys and values in a JSON value."""
    if isinstance(value, dict):
        return leaves([*value, *value.values()])
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, list) else [value]


def commands_of(study) -> list[str]:
    """Commands with all specs and options of a study's jobs."""
    runs = study.runs.values()
    specs = [run.spec for run in runs] + [*study.datasets.values(), study.evaluation_spec]
    specs += [study.model_spec, study.train_data_spec]
    specs += [study.sft_spec, study.sft_data_spec] if study.config.sft else []
    options = [format_command("exec python --spec x{params.options}", params=run) for run in runs]
    return [format_command("exec python --spec {spec:q}", spec=spec) for spec in specs] + options


def words_of(commands: list[str], folder) -> Iterator[Any]:
    """Words of commands, as bash reads them, and all values inside words of JSON."""
    for words in words_in_bash(commands, folder):
        for word in words:
            yield from [word, *leaves(json.loads(word))] if word[:1] == "{" else [word]


def check_message(error: StudyError, field: str) -> None:
    """The message is one line, is harmless to a terminal, and names the field, or the line that is not YAML."""
    told = str(error)
    assert told.isprintable(), ascii(told)
    assert len(told) < 3000
    keys = [key for key in field.split("/") if key != "<key>"]
    assert not keys or any(key in told for key in (*keys[-2:], ": not YAML: ")), (field, told)


def check_pages(config: dict[str, Any], study, tags: set[str]) -> None:
    """Pages of the report show the config's text unchanged, and no tag of it becomes a tag of the page."""
    pages = [config_page(config, study), arms_page(study)]
    assert all(tags_of(page) <= tags for page in pages)
    assert yaml.safe_load(as_yaml(config, study.root)) == without_places(json.loads(json.dumps(config)), study.root)


@pytest.mark.parametrize(("field", "beside"), FIELDS.items(), ids=FIELDS.keys())
def test_a_hostile_value_is_refused_by_its_field_or_travels_unchanged(config, tmp_path, field, beside, monkeypatch):
    root = tmp_path / "outer" / "project"
    root.mkdir(parents=True)
    monkeypatch.chdir(root)
    for file in ("rows.jsonl", "model/config.json"):
        write_if_possible(root / file)
    (root / "mine.py").write_text(REWARDS)
    config["components"]["mine"] = {"function": "mine.py:mine"}
    config |= {"prompt": {"chat": True}, "launch": {"gpus": 0}}
    for path, value in beside.items():
        put(config, path, value)
    study = resolve(config, "study.yaml", root)
    plain = tags_of(config_page(config, study) + arms_page(study))
    text = yaml.safe_dump(config)
    accepted, commands = [], []
    for hostile in HOSTILE:
        value = SHAPES.get(field, "{}").replace("{}", hostile)
        if field.endswith("path"):
            write_if_possible(root / value / "config.json" if field == "model/path" else root / value)
        changed = put(yaml.safe_load(text), field, value)
        try:
            study = resolve(changed, "study.yaml", root)
        except StudyError as error:
            check_message(error, field)
            continue
        assert all(char.isprintable() or char in "\n\t\r\u202e" for char in value), ascii(value)
        check_pages(changed, study, plain)
        accepted.append((value, study.config.root))
        commands += commands_of(study)
    words = [*words_of(commands, root)]  # one bash reads all commands
    for value, results in accepted:
        name = (f"{value}-b-seed0" if value else results) if field == "training/run_name" else value
        assert field in NOT_IN_COMMANDS or name in words or results == name, (field, value)
    assert not list(tmp_path.rglob("PWNED"))


#: What the value of a field must have around a hostile text.
SHAPES = {"prompt/template": "{question}{}", "sft/completion": "{solution}{}", "components/mine/function": "{}:mine"}
#: What Slurm is told, beside the commands; and names that are in the files' names.
NOT_IN_COMMANDS = {"launch/resources/slurm_partition", "launch/resources/<key>"}
NOT_IN_COMMANDS |= {"name", "arms/arms/<key>", "data/evaluation/<key>"}


def write_if_possible(path) -> None:
    """Write the file that a path names, so that a path is refused for its text and not for a missing file."""
    try:
        if str(path).startswith(os.getcwd()) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
    except (OSError, ValueError):
        pass


@pytest.mark.parametrize("field", ["account", "gpu_type", "train/constraint"])
def test_a_hostile_value_of_the_site_file_is_one_word_to_sbatch(tmp_path, field):
    ask = {"hours": 1, "mem_gb": 1}
    job = SimpleNamespace(rule=SimpleNamespace(name="train"), resources={"gpu": 1}, threads=1, attempt=1)
    for hostile in HOSTILE:
        written = put({"train": dict(ask), "evaluate": dict(ask)}, field, hostile)
        path = tmp_path / "site.yaml"
        path.write_text(json.dumps(written))
        try:
            site = read_site(path)
        except StudyError as error:
            check_message(error, field)
            continue
        assert hostile.isprintable() or hostile[0] in "\u202e a", ascii(hostile)
        options = arguments(request_of([job], site), "gpus")
        assert all(option.startswith("--") for option in options)
        assert not hostile or sum(hostile in option.partition("=")[2] for option in options) == 1


@pytest.mark.parametrize("name", shell_commands())
def test_each_rule_quotes_each_of_its_paths_and_params(tmp_path, name):
    """The same command with a harmless and with a hostile text in each field."""
    command = shell_commands()[name]

    class Fields:
        """Snakemake's `input` and the like: any name gives a list of one text."""

        def __init__(self, kind: str, folder: str):
            self.kind, self.folder = kind, folder

        def __getattr__(self, field: str) -> list[str]:
            return [f"{self.folder}/{self.kind}.{field}"]

    def words(folder: str) -> list[str]:
        kinds = ("input", "output", "params")
        given: dict[str, Any] = {kind: Fields(kind, folder) for kind in kinds}
        # Our own words, never a user's text.
        for field in ("code", "figures", "module", "mixed", "answer_format", "options"):
            setattr(given["params"], field, " word" if field == "options" else "word")
        wildcards, resources = SimpleNamespace(dataset="test-0a1b2c3d"), SimpleNamespace(nodes=1)
        told = format_command(command, **given, wildcards=wildcards, resources=resources, threads=2)
        return words_in_bash([told], tmp_path)[0]

    hostile = 'a b/it\'s "$(touch PWNED)" `touch PWNED` {wildcards} \\ *'
    assert words(hostile) == [word.replace("plain", hostile) for word in words("plain")]
    assert not list(tmp_path.rglob("PWNED"))


def test_yaml_that_json_cannot_hold_is_refused_by_its_place(config, tmp_path):
    bomb: Any = "x"
    for _ in range(30):
        bomb = [bomb] * 10
    for value, told in [
        (datetime.date(2026, 1, 1), "components.format.parameters.word: 2026-01-01 is not allowed: YAML reads it as a"),
        (float("nan"), "components.format.parameters.word: nan is not allowed; give a finite number"),
        (bomb, "more than 1000000 entries or 40 levels; take out aliases"),
        ([{"a": {1: 0.2}}], "components.format.parameters: the key 1 is no text, and JSON has no others; write '1'"),
    ]:
        config["components"]["format"]["parameters"] = {"word": value}
        with pytest.raises(StudyError, match=r"^study\.yaml: ") as error:
            resolve(config, "study.yaml", tmp_path)
        assert told in str(error.value)
