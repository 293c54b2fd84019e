"""Secrets in a config: refused in plain text and never repeated, read from the environment by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from configs import changed, refusal
from reward_ablation.config.secrets import refuse_secrets, without_secrets
from reward_ablation.study.resolve import check_variables, resolve
from reward_ablation.study.shown_paths import without_places
from reward_ablation.system.errors import StudyError

URL = "https://me:hunter2@judge.example/v1"
LONG = "hunter2" * 4  # as long as a token of a service
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("components/format/parameters", {"api_key": "hunter2"}, "components.format.parameters.api_key: "),
        ("components/format/parameters", {"urls": ["x", URL]}, "components.format.parameters.urls.1: "),
        ("evaluation/metrics", {"m": {"function": "judge", "parameters": {"api_key": LONG}}}, "m.parameters.api_key: "),
        ("model", {"source": "hub", "id": "a/b", "revision": "0" * 40, "token": LONG}, "model.token: "),
        ("data/train", {"source": "file", "path": URL}, "data.train.path: "),
        ("launch", {"resources": {"slurm_extra": f"--export=PROXY={URL}"}}, "launch.resources.slurm_extra: "),
        ("sk-hunter2hunter2hunter2", 1, "(a key): "),
        *[
            ("components/format/parameters", {key: "hunter2"}, f"components.format.parameters.{key}: ")
            for key in ("judge_token", "openai_key", "judgeApiKey", "X-Auth-Token")
        ],
        ("components/format/parameters", {"api_key": ["hunter2"]}, "components.format.parameters.api_key.0: "),
        ("components/format/parameters", {"api_key": 12345678}, "components.format.parameters.api_key: "),
        ("components/format/parameters", {"headers": ["Authorization: Basic aHVudGVyMg=="]}, "parameters.headers.0: "),
        ("prompt", {"template": f"{{question}} bearer {LONG}"}, "prompt.template: "),
        *[
            ("components/format/parameters", {"note": f"{start}{LONG}"}, "components.format.parameters.note: ")
            for start in ("gsk_", "nvapi-", "pypi-", "AccountName=me;AccountKey=", "https://a.b/?key=")
        ],
    ],
)  # fmt: skip
def test_a_secret_in_plain_text_is_refused_and_not_repeated(config, path, value, told):
    text = refusal(changed(config, path, value))
    assert told in text
    assert "looks like a secret in plain text, and a config is copied into logs, results and the report; " in text
    assert ("write {env: NAME}" in text) == ("parameters" in path or "metrics" in path)
    assert "hunter2" not in text
    assert "12345678" not in text


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": {"env": "JUDGE_API_KEY"}},  # by name
        {"token": "<think>"},
        {"token": "[END_OF_STEP_NUMBER_1]"},
        {"pad_token": "<|fim_pad_of_type_1|>", "stop_token": "FINAL-ANSWER-FOLLOWS", "eos_token": 151643},
        {"path": "data/pypi-download-statistics-2024.parquet"},
        {"api_key": "", "password": None, "use_auth_token": False},
    ],
)
def test_what_is_no_secret_is_not_refused(config, tmp_path, value):
    (tmp_path / "mine.py").write_text("def f(completions, *, p: dict, **columns): ...\n")
    config["components"]["format"] = {"function": "mine.py:f", "parameters": {"p": value}}
    study = resolve(config, "study.yaml", tmp_path)
    [spec, *_] = [json.loads(run.spec) for run in study.runs.values()]
    assert spec["components"]["format"]["parameters"]["p"] == value


@pytest.mark.parametrize("path", sorted(ROOT.glob("config/**/*.yaml")), ids=lambda path: path.name)
def test_the_configs_that_come_along_hold_no_secrets_and_no_absolute_paths(path):
    config = yaml.safe_load(path.read_text())
    refuse_secrets(config)
    assert without_secrets(config) == without_places(config, ROOT) == config


def test_all_variables_that_are_not_set_are_told_in_one_line(config, tmp_path):
    (tmp_path / "mine.py").write_text("def f(completions, *, p: dict | str, **columns): ...\n")
    several = {"a": {"env": "FIRST"}, "b": {"env": "SECOND"}, "c": {"env": "SET"}}
    parameters = {"format": several, "other": {"env": "FIRST"}}
    for name, value in parameters.items():
        config["components"][name] = {"function": "mine.py:f", "parameters": {"p": value}}
    study = resolve(config, "study.yaml", tmp_path)  # to look at results takes no secret
    check_variables(study.config, {}, trains=False, scores=True)  # what is evaluated reads no component
    with pytest.raises(StudyError) as caught:
        check_variables(study.config, {"SET": "x"}, trains=True, scores=False)
    assert str(caught.value) == (
        "components.format.parameters, components.other.parameters: the environment variables FIRST, SECOND are "
        "not set; set them with `export FIRST=... SECOND=...`, then run the same command again"
    )


def test_a_variable_of_a_metric_is_told_before_answers_are_scored(config, tmp_path):
    (tmp_path / "mine.py").write_text("def f(completions, *, key: str, **columns): ...\n")
    judged = {"function": "mine.py:f", "parameters": {"key": {"env": "KEY"}}}
    config["components"]["format"] = judged
    places = {"evaluation.metrics.judged": judged, "components.format": {"component": "format"}}
    for where, metric in places.items():
        config["evaluation"]["metrics"] = {"judged": metric | {"range": [0, 1]}}
        study = resolve(config, "study.yaml", tmp_path)
        check_variables(study.config, {}, trains=False, scores=False)
        with pytest.raises(StudyError, match=rf"^{where}\.parameters: the environment variable KEY is not set"):
            check_variables(study.config, {}, trains=False, scores=True)
