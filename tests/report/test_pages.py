"""Pages of the report on the study itself."""

import html
import re
from importlib.metadata import version
from types import SimpleNamespace

import pytest
import yaml

from reward_ablation.config.secrets import without_secrets
from reward_ablation.report.pages import ReportPages, config_page, environment_page, lock_of, locked
from reward_ablation.start.declarations import Declarations
from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import write_json
from reward_ablation.system.html_page import page, table, text
from workflow.conftest import ROOT, TINY


@pytest.fixture
def config():
    return yaml.safe_load(yaml.safe_dump(TINY))


def pages_of(config, tmp_path) -> dict[str, str]:
    study = resolve(config, "config.yaml", tmp_path)
    ReportPages(config, study).write(tmp_path, study.description)
    return {name: (tmp_path / f"{name}.html").read_text() for name in ("config", "arms", "environment", "commands")}


def declared(config, folder):
    study = resolve(config, "config.yaml", folder)
    now = Declarations(study)
    write_json(now.content(), study.description)
    return now.primary


def texts_in(words: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r"<pre>(.*?)</pre>", words, re.DOTALL)]


def test_the_config_can_be_taken_from_its_page(config, tmp_path):
    as_read, with_defaults = texts_in(pages_of(config, tmp_path)["config"])
    assert yaml.safe_load(as_read) == config
    full = yaml.safe_load(with_defaults)
    assert full["confidence"] == 0.95
    assert resolve(yaml.safe_load(as_read), "study.yaml", tmp_path).keys == resolve(config, "", tmp_path).keys


def test_the_question_stands_beside_the_arms_with_its_times(config, tmp_path):
    """And each arm has its weights and folders."""
    config["arms"]["arms"]["random_only"] = {"weights": {"random": 1}}
    config["components"]["random"] = {"function": "random", "scored": "where_trained"}
    asked = "accuracy_strict on test (greedy): mixed, random_only against length"
    assert asked in texts_in(pages_of(config, tmp_path)["arms"])[0]  # no study.json yet
    first = declared(config | {"control": "random_only"}, tmp_path)
    run = tmp_path / "results" / "tiny" / "runs" / "mixed-00000000" / "seed0"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    config["primary"] = {"metric": "format"}
    second = declared(config, tmp_path)
    words = pages_of(config, tmp_path)["arms"]
    assert texts_in(words)[0].splitlines() == [
        "format on test (greedy): mixed, random_only against length",
        f"changed {second.declared}, after 1 run was there; metric was accuracy_strict",
        f"before: {asked}; declared {first.declared}",
    ]
    keys = resolve(config, "config.yaml", tmp_path).keys
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", words)]
    assert ["mixed", "1", "0.5", "0.5", "not scored", "none", f"runs/mixed-{keys['mixed']}"] in cells
    assert ["random_only", "0", "0", "0", "1", "none", f"runs/random_only-{keys['random_only']}"] in cells
    assert "Arms: 3, by design list; seeds: 0, 1; runs: 6; baseline: length" in words
    words = pages_of(config, tmp_path)["commands"]  # arms that other components score have a code of their own
    codes = {run.arm: run.code for run in resolve(config, "config.yaml", tmp_path).runs.values()}
    assert f"<td>training of length, mixed</td><td>{codes['mixed']}</td>" in words


def test_the_commands_name_config_lock_and_code(config, tmp_path):
    study = resolve(config, "config.yaml", tmp_path)
    words = pages_of(config, tmp_path)["commands"]
    commands = texts_in(words)[0].splitlines()
    assert commands == [
        "make install && source .venv/bin/activate",
        "snakemake --configfile study.yaml --cores all",
        "snakemake --configfile study.yaml --report results/tiny/report.html",
    ]
    assert f"<td>{next(iter(study.runs.values())).code}</td>" in words
    assert re.search(r"envs/cpu\.txt: sha256 [0-9a-f]{64}", words)


def test_the_environment_is_held_to_its_lock():
    packages, pins = {"numpy": "2.0", "torch": "2.13.0+cpu"}, {"numpy": "2.1", "torch": "2.13.0"}
    words = environment_page(packages, "envs/cpu.txt", pins)
    assert "2 packages, 2 of them in another version than envs/cpu.txt has" in words
    assert "<tr><td>numpy</td><td>2.0</td><td>2.1</td></tr>" in words
    assert "none of them" in environment_page(pins, "envs/cpu.txt", pins)
    assert "envs/cpu.txt does not exist" in environment_page(pins, "envs/cpu.txt", locked(ROOT / "nothing.txt"))
    assert lock_of({"vllm": "1"}) == "envs/gpu.txt"
    assert locked(ROOT / lock_of({}))["snakemake"] == version("snakemake")


def test_the_digest_changes_with_the_config_and_not_otherwise(config, tmp_path):
    def digest() -> str:
        return ReportPages(config, resolve(config, "config.yaml", tmp_path)).digest(SimpleNamespace())

    before = digest()
    assert digest() == before
    config["bootstrap"] = 300
    assert digest() != before


def test_secrets_are_not_passed_on(config, tmp_path):
    study = resolve(config, "study.yaml", tmp_path)
    config["training"]["model_init_kwargs"] = {"token": "hf_very_private_0123456789"}
    shown = config_page(config, study)  # no such study is resolved; the page hides the token all the same
    assert "very_private" not in shown
    assert "token: (hidden)" in shown
    assert without_secrets({"judge": [{"api_key": ["sk", 12], "ghp_" + "x" * 20: 1}]}) == {
        "judge": [{"api_key": ["(hidden)", "(hidden)"], "(hidden)": 1}]
    }


def test_everything_is_escaped(config, tmp_path):
    evil = "<script>alert('x')</script>"
    words = page(evil, evil, text(evil), table([evil], [[evil]]))
    assert "<script>" not in words
    assert words.count("&lt;script&gt;") == 6  # title and heading, sentence, text, column and cell
    config["prompt"]["template"] = "{question}" + evil
    assert "<script>" not in pages_of(config, tmp_path)["config"]
