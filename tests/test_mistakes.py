"""Mistakes of users in config, data and rewards: one line that names the place, as early as possible."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from configs import CONFIG, changed
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.rewards.load import load_component
from reward_ablation.start.config_files import contents_of
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import may_pass

COMMIT = "0" * 40

REWARDS = """
import asyncio


def brevity(completions, *, limit: int, **columns):
    return [float(len(text) <= limit) for text in completions]


def of_tests(completions, unit_tests):
    return [0.0 for _ in completions]


async def judge(completions, **columns):
    return [0.0 for _ in completions]


def raises(completions, **columns):
    return [float(text.split()[7]) for text in completions]


def nan(completions, **columns):
    return [float("nan") for _ in completions]


def infinite(completions, **columns):
    return [float("inf") for _ in completions]


def too_few(completions, **columns):
    return [0.0]


def texts(completions, **columns):
    return ["good" for _ in completions]


def nothing(completions, **columns):
    for _ in completions:
        0.0
"""

BROKEN = """
def brevity(completions, **columns):
    return [float(len(text) <= 200 for text in completions]
"""


def own(function: str, **parameters: Any) -> dict[str, Any]:
    """A component of the user's file."""
    return {"function": f"my_rewards.py:{function}", "parameters": parameters}


#: What was written where, and the line without the config's name.
BEFORE_ANY_JOB = [
    ("sed", [0], "config: unknown key 'sed'; did you mean seeds?"),
    ("seeds", [0, 0], "seeds: a seed occurs twice"),
    ("results", "../other", "results: "),
    ("results", "results/$(id)", "results: "),
    ("model", {"source": "hub", "id": "Qwen/Qwen2.5-0.5B", "revision": "main"}, "model.revision: 'main' "),
    ("model", {"source": "hub", "id": "Qwen2.5 0.5B", "revision": COMMIT}, "model.id: 'Qwen2.5 0.5B' "),
    ("model", {"source": "local", "path": "my_model"}, "model.path: my_model: no config.json"),
    ("data/train", {"source": "file", "path": "my_data.jsonl"}, "data: my_data.jsonl: no such file"),
    ("data/train", {"source": "gsm8k", "split": "dev"}, "data.train.split: 'dev' "),
    ("components/format", {"function": "fromat"}, "components.format: unknown function 'fromat'; functions here: "),
    ("components/format", own("brevity"), "components.format: my_rewards.py:brevity: parameter 'limit' is missing"),
    ("components/format", own("brevty"), "components.format: my_rewards.py:brevty: no function 'brevty'"),
    ("components/format", own("judge", limit=1), "components.format: my_rewards.py:judge: unknown parameter 'limit'"),
    ("components/format", own("of_tests"), "components.format: my_rewards.py:of_tests: "),
    (
        "components/format",
        {"function": "broken.py:brevity"},
        "components.format: broken.py:brevity: broken.py",
    ),
    (
        "components/format",
        own("brevity", limit=9, api_key="sk-1234567890abcdef"),
        "components.format.parameters.api_key: looks like",
    ),
    ("arms/arms/b/weights", {"fromat": 1}, "arms.arms.b.weights: unknown component 'fromat'; components here: "),
    ("arms/arms/b/weights", {"format": float("nan")}, "arms.arms.b.weights.format: nan is not allowed"),
    ("arms", {"design": "leave_one_out", "weights": {"correctness": 1}}, "arms.weights: "),
    ("baseline", "c", "baseline: unknown arm 'c'; arms here: a, b"),
    ("training/lr", 1e-6, "training: lr: no setting of TRL's GRPOConfig"),
    ("training/learning_rate", "1e-6", "training: learning_rate: '1e-6' is not allowed; allowed: number; YAML reads"),
    ("training/max_steps", 0, "training: max_steps: a run takes at least 1 step"),
    ("training/num_generations", 0, "training: num_generations: completions of one prompt, at least 1"),
    ("training/num_generations_eval", 4, "training: num_generations_eval: not to be set here; "),
    ("training/trust_remote_code", True, "training: trust_remote_code: not to be set here; "),
    ("training/seed", 1, "training: seed: not to be set here; write it under seeds"),
    ("evaluation/answer_format", "box", "evaluation.answer_format: 'box' "),
    ("launch", {"gpus": 3, "nodes": 2}, "launch: nodes: 2 does not divide gpus: 3"),
    ("seeds", [2**32], "seeds.0: 4294967296 is not allowed; input should be less than or equal to 4294901760"),
    ("seeds", [10**39], "seeds.0: a whole number of more than 18 digits is not allowed"),
    ("seeds", {"looks": [2, 10**9]}, "seeds.looks.1: 1000000000 is not allowed; "),
    ("arms/seeds", {"a": [2**32]}, "arms.seeds.a.0: 4294967296 is not allowed; "),
    ("model/seed", 2**32, "model.seed: 4294967296 is not allowed; "),
    ("bootstrap", 10**12, "bootstrap: 1000000000000 is not allowed; input should be less than or equal to 1000000"),
    ("keep_models", 2**31, "keep_models: 2147483648 is not allowed; "),
    ("data/train/count", 8041, "data.train: count: the train split has 8040 problems, not 8041; ask for fewer"),
    ("data/train/limit", 2**31, "data.train.limit: 2147483648 is not allowed; "),
    ("evaluation/samples", 10**9, "evaluation.samples: 1000000000 is not allowed; "),
    ("evaluation/batch_size", 2**31, "evaluation.batch_size: 2147483648 is not allowed; "),
    ("training/max_steps", 2**31, "training: max_steps: 2147483648 is not allowed; at most 2147483647"),
    ("launch", {"gpus": 10**9}, "launch.gpus: 1000000000 is not allowed; "),
    ("launch", {"gpus": 0, "processes": 10**6}, "launch.processes: 1000000 is not allowed; "),
    ("arms", {"design": "simplex", "steps": 10**6}, "arms.steps: 1000000 steps with 2 components give 1000001 arms; "),
    (
        "components/format/parameters",
        {"format": 10**20},
        "components.format.parameters.format: a whole number of more than 18 digits is not allowed",
    ),
]


@pytest.mark.parametrize(("path", "value", "line"), BEFORE_ANY_JOB)
def test_in_the_config(tmp_path, monkeypatch, path, value, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    (tmp_path / "broken.py").write_text(BROKEN)
    config = changed(copy.deepcopy(CONFIG), path, value)
    with pytest.raises(StudyError) as error:
        resolve(config, "my_study.yaml", Path())
    assert str(error.value).startswith(f"my_study.yaml: {line}")
    assert "\n" not in str(error.value)


#: Rows of a data file, and the line: told while the data are prepared, which is before any model is fetched or trained.
DATA = [
    ([{"question": "x?", "answer": "1"}] * 2, "train: 1 question occurs more than once, first "),
    ([{"prompt": "x?", "answer": "1"}], "question"),
    ([{"question": "x?", "gold": "1"}], "answer"),
    ([{"question": "of the test", "answer": "1"}], "train: "),
    ([{"question": "x?", "answer": r"\frac{"}], "train: "),
    ([{"question": "", "answer": "1"}], "train: "),
    ([], "my_data.jsonl: "),
    ("{not json", "my_data.jsonl"),
]


@pytest.mark.parametrize(("rows", "line"), DATA)
def test_in_the_data(tmp_path, rows, line):
    def spec(name: str, text: str) -> PrepareSpec:
        path = tmp_path / f"{name}.jsonl"
        path.write_text(text)
        return PrepareSpec.model_validate({"source": {"source": "file", "path": str(path)}})

    test = spec("test", json.dumps({"question": "of the test", "answer": "1"}))
    prepare(test, "test", tmp_path / "test.parquet")
    text = rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows))
    with pytest.raises(StudyError) as error:
        prepare(spec("my_data", text), "train", tmp_path / "train.parquet", [tmp_path / "test.parquet"])
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "train.parquet").exists()


#: A config file, and the line without the file's name.
FILES = [
    (
        "seeds: [0]\nname: a\nseeds: [1]\n",
        "line 3: key 'seeds' occurs twice, first in line 1; rename one of the two, or ",
    ),
    ("arms:\n  no_judge: {weights: {a: 1}}\n  no_judge: {weights: {b: 1}}\n", "line 3: key 'no_judge' occurs twice, "),
    ('{"seeds": [0],\n"seeds": [1]}', "line 2: key 'seeds' occurs twice, first in line 1; "),
    ("name: a\n\tseeds: [1]\n", "line 2, column 1: not YAML: found a tab character that violates indentation; indent "),
    ("name: !foo a\n", "line 1, column 7: not YAML: could not determine a constructor for the tag '!foo'"),
    ("name: !!python/object:os.x {}\n", "line 1, column 7: not YAML: could not determine a constructor for the tag "),
    ("name: " + "[" * 5000 + "]" * 5000, "line 1, column 46: more than 40 levels; flatten them"),
    ("name: " + "1" * 5000, "line 1, column 7: a whole number has too many digits; write it as text"),
    ("name: 2026-13-45\n", "line 1, column 7: month must be in 1..12; put it in quotes to have text"),
    (b"name: \xff\n", "not UTF-8 text (byte 6); save it as UTF-8"),
    ("__use_yte__: true\nname: ?__import__('os').getpid()\n", "__use_yte__: would run Python from the config; "),
]


@pytest.mark.parametrize(("text", "line"), FILES)
def test_in_the_text_of_a_config(tmp_path, text, line):
    path = tmp_path / "study.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StudyError) as error:
        contents_of(path)
    assert str(error.value).startswith(f"{path}: {line}")


#: Functions whose mistake shows only when they score; such a run is trained once, since the error stays.
SCORING = [
    ("raises", "components.mine: my_rewards.py, line 18, `return [float(text.split()[7]) "),
    ("nan", "components.mine: "),
    ("infinite", "components.mine: "),
    ("too_few", "components.mine: "),
    ("texts", "components.mine: "),
    ("nothing", "components.mine: "),
]


@pytest.mark.parametrize(("function", "line"), SCORING)
def test_in_a_reward(tmp_path, monkeypatch, function, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    component = load_component(f"my_rewards.py:{function}", {}, Path(), name="mine")
    with pytest.raises(StudyError) as error:
        component(["one", "two"])
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert not may_pass(error.value)
