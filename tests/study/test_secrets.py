"""Secrets in a config: refused in plain text and never repeated, read from the environment by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configs import changed
from reward_ablation.study.errors import StudyError
from reward_ablation.study.resolve import check_variables, resolve

URL = "https://me:hunter2@judge.example/v1"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("components/format/parameters", {"api_key": "hunter2"}, "components.format.parameters.api_key: "),
        ("components/format/parameters", {"apiKey": "hunter2"}, "components.format.parameters.apiKey: "),
        ("components/format/parameters", {"url": URL}, "components.format.parameters.url: "),
        ("components/format/parameters", {"urls": ["x", URL]}, "components.format.parameters.urls.1: "),
        ("components/format/parameters", {"url": "https://a.b/?key=hunter2hunter2"}, "format.parameters.url: "),
        ("components/format/parameters", {"note": "sk-hunter2" + "x" * 20}, "components.format.parameters.note: "),
        ("components/format/parameters", {"h": {"Authorization": "Basic hunter2"}}, "parameters.h.Authorization: "),
        ("components/format/function", "hunter2.py:hf_hunter2" + "x" * 20, "components.format.function: "),
        ("model", {"source": "hub", "id": "a/b", "revision": "0" * 40, "token": "hunter2"}, "model.token: "),
        ("data/train", {"source": "file", "path": URL}, "data.train.path: "),
        ("training/model_init_kwargs", {"token": "hunter2"}, "training.model_init_kwargs.token: "),
        ("training/run_name", "hf_hunter2" + "x" * 20, "training.run_name: "),
        ("arms/arms/b/training", {"hub_token": "hunter2"}, "arms.arms.b.training.hub_token: "),
        ("prompt", {"template": "{question} ghp_hunter2" + "x" * 20}, "prompt.template: "),
        ("launch", {"resources": {"slurm_extra": f"--export=PROXY={URL}"}}, "launch.resources.slurm_extra: "),
        ("sk-hunter2hunter2hunter2", 1, "(a key): "),
    ],
)  # fmt: skip
def test_a_secret_in_plain_text_is_refused_and_not_repeated(config, path, value, told):
    with pytest.raises(StudyError) as caught:
        resolve(changed(config, path, value), "study.yaml", Path())
    text = str(caught.value)
    assert told in text
    assert "looks like a secret in plain text, and a config is copied into logs, results and the report; " in text
    assert ("write {env: NAME}" in text) == ("parameters" in path)
    assert "hunter2" not in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": {"env": "JUDGE_API_KEY"}},  # by name
        {"url": "https://judge.example:8000/v1?model=gpt"},
        {"url": "git@github.com:me/judge.git"},
        {"token": "<think>"},  # a word that a model writes
        {"eos_token": "</s>", "tokenizer": "a/tokenizer-of-many-words"},
        {"key": "task-specific-reasoning-tokens-are-counted"},
        {"revision": "989aa7980e4cf806f80c7fef2b1adb7bc71aa306"},
        {"api_key": "", "password": None},
    ],
)
def test_what_is_no_secret_is_not_refused(config, tmp_path, value):
    (tmp_path / "mine.py").write_text("def f(completions, *, p: dict, **columns): ...\n")
    config["components"]["format"] = {"function": "mine.py:f", "parameters": {"p": value}}
    study = resolve(config, "study.yaml", tmp_path)
    [spec, *_] = [json.loads(run.spec) for run in study.runs.values()]
    assert spec["components"]["format"]["parameters"]["p"] == value


def test_a_variable_that_is_not_set_is_told_before_any_job(config, tmp_path):
    (tmp_path / "mine.py").write_text("def f(completions, *, key: str, **columns): ...\n")
    config["components"]["format"] = {"function": "mine.py:f", "parameters": {"key": {"env": "JUDGE_API_KEY"}}}
    study = resolve(config, "study.yaml", tmp_path)  # to look at results takes no secret
    with pytest.raises(StudyError, match=r"^components\.format\.parameters: the environment variable JUDGE_API_KEY"):
        check_variables(study.config, {})
    check_variables(study.config, {"JUDGE_API_KEY": "hunter2"})
