"""Mistakes of newcomers: each is one line, found when the config is read or by the full check, before any job."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs import CONFIG, REMOVE, changed
from hub import Hub
from models.conftest import tiny_model  # noqa: F401
from reward_ablation.rewards.load import load_component
from reward_ablation.start.data_files import sets_of
from reward_ablation.start.full_check import Work, full_check, refuse, remember_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.study.study import Study
from reward_ablation.system.errors import one_line_errors
from workflow.starting import forking_python

COMMIT = "0" * 40
GOOD = [{"question": f"What is {number} + 1?", "answer": str(number + 1)} for number in range(8)]
REWARDS = """
def brevity(completions, *, limit: int, **columns):
    return [float(len(text) <= limit) for text in completions]

def of_tests(completions, unit_tests):
    return [0.0 for _ in completions]

def nothing(completions, **columns):
    for _ in completions:
        0.0

def too_few(completions, **columns):
    return [0.0]

def nan(completions, **columns):
    return [float("nan") for _ in completions]

def texts(completions, **columns):
    return ["good" for _ in completions]

def raises(completions, **columns):
    return [float(text.split()[7]) for text in completions]

def rare(completions, **columns):
    return [1 / (len(completion[0]["content"]) - 12345) for completion in completions]

def as_text(completions, **columns):
    return [float(completion.lower().count("####")) for completion in completions]
"""


class Mistake(NamedTuple):
    """A change to a valid config, files and what else is around it; and the beginning of the line about it."""

    name: str
    when: Literal["config", "plan", "job"]
    line: str
    config: Mapping[str, Any] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})
    needs: tuple[str, ...] = ()


def in_config(name: str, line: str, path: str, value: Any, **files: str) -> Mistake:
    """A mistake that shows when the config is read."""
    return Mistake(name, "config", line, {path: value}, files)


def in_data(name: str, line: str, rows: Any, file: str = "my.jsonl", **config: Any) -> Mistake:
    """A mistake in a training set of one's own. `rows` are a text, or rows of JSON Lines."""
    text = rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows))
    source = {"source": "file", "path": file, **config.pop("source", {})}
    return Mistake(name, "plan", line, {"data/train": source, **config}, {file: text})


def in_reward(function: str, line: str, needs: tuple[str, ...] = (), **parameters: Any) -> Mistake:
    """A mistake in a reward of one's own."""
    component = {"function": f"my_rewards.py:{function}", "parameters": parameters}
    return Mistake(f"reward {function}", "plan", line, {"components/format": component}, needs=needs)


def on_hub(name: str, line: str, id: str, commit: str = "", needs: tuple[str, ...] = ("hub",)) -> Mistake:
    """A mistake in the name of a model. Without a `commit`, it is that of the test's hub."""
    model = {"source": "hub", "id": id, "revision": commit or "COMMIT"}
    return Mistake(name, "plan", line, {"model": model}, needs=needs)


LOCAL = {"model": {"source": "local", "path": "my_model"}}
MISTAKES = [
    in_config("a key misspelt", "config: unknown key 'trainng'; did you mean training?", "trainng", {}),
    in_config("a key left out", "seeds: missing; it has no default", "seeds", REMOVE),
    in_config("one seed without a list", "seeds: 3 is not allowed; input should be a valid list", "seeds", 3),
    in_config("a seed twice", "seeds: a seed occurs twice", "seeds", [0, 0]),
    in_config(
        "a model by its name alone",
        "model: 'Qwen/Qwen2.5-0.5B' is not a mapping of keys to values; write one, such as model: {source: hub, id: "
        "Qwen/Qwen2.5-0.5B, revision: <40 hex digits of a commit>}",
        "model",
        "Qwen/Qwen2.5-0.5B",
    ),
    in_config(
        "a model by its address",
        "model.id: 'https://huggingface.co/Qwen/Qwen2.5-0.5B' is not allowed; allowed: a repository ",
        "model",
        {"source": "hub", "id": "https://huggingface.co/Qwen/Qwen2.5-0.5B", "revision": COMMIT},
    ),
    in_config(
        "a branch instead of a commit",
        "model.revision: 'main' is not allowed; allowed: the full hash of a commit, 40 of the ",
        "model",
        {"source": "hub", "id": "Qwen/Qwen2.5-0.5B", "revision": "main"},
    ),
    in_config(
        "no commit", "model.revision: missing; it has no default", "model", {"source": "hub", "id": "Qwen/Qwen2.5-0.5B"}
    ),
    in_config(
        "a folder that is not there",
        "model.path: my_modle: no config.json",
        "model",
        {**LOCAL["model"], "path": "my_modle"},
    ),
    in_config(
        "a data set by its name alone",
        "data.train: 'gsm8k' is not a mapping of keys to values; write one, such as train: {source: gsm8k, ",
        "data/train",
        "gsm8k",
    ),
    in_config("a data set misspelt", "data.train: source 'gms8k' is not allowed; ", "data/train", {"source": "gms8k"}),
    in_config(
        "a split that is not there", "data.train.split: 'dev' ", "data/train", {"source": "gsm8k", "split": "dev"}
    ),
    in_config(
        "a data file that is not there",
        "data: not_there.jsonl: no such file",
        "data/train",
        {"source": "file", "path": "not_there.jsonl"},
    ),
    in_config(
        "a component by its function alone",
        "components.format: 'answer_format' is not a mapping of keys to values; write one, such as format: "
        "{function: answer_format}",
        "components/format",
        "answer_format",
    ),
    in_config(
        "a component misspelt",
        "components.format: unknown function 'fromat'; functions here: ",
        "components/format",
        {"function": "fromat"},
    ),
    in_config(
        "a weight of no component",
        "arms.arms.b.weights: unknown component 'fromat'; ",
        "arms/arms/b/weights",
        {"fromat": 1},
    ),
    in_config("a baseline of no arm", "baseline: unknown arm 'c'; arms here: a, b", "baseline", "c"),
    in_config(
        "a design misspelt", "arms: design 'leave_one' is not allowed; allowed: ", "arms", {"design": "leave_one"}
    ),
    in_config(
        "1e-6 in YAML",
        "training: learning_rate: '1e-6' is not allowed; allowed: number; YAML reads 1e-6 as text",
        "training/learning_rate",
        "1e-6",
    ),
    in_config(
        "a setting misspelt",
        "training: learning_rte: no setting of TRL's GRPOConfig; did you mean learning_rate",
        "training/learning_rte",
        1.0e-6,
    ),
    in_config(
        "a setting of an older TRL",
        "training: max_prompt_length: TRL 1.16.0 has no such setting any more; no prompt is cut: ",
        "training/max_prompt_length",
        512,
    ),
    in_config(
        "vLLM by TRL's name",
        "training: use_vllm: not to be set here; set launch.vllm.mode",
        "training/use_vllm",
        True,
    ),
    in_config("no step", "training: max_steps: a run takes at least 1 step", "training/max_steps", 0),
    in_config(
        "a prompt without the question", "prompt.template: must contain {question} ", "prompt", {"template": "?"}
    ),
    in_config(
        "a format misspelt", "evaluation.answer_format: 'box' is not allowed; ", "evaluation/answer_format", "box"
    ),
    in_config(
        "a key in the config",
        "components.format.parameters.api_key: looks like ",
        "components/format",
        {"function": "my_rewards.py:brevity", "parameters": {"limit": 1, "api_key": "sk-1234567890abcdef"}},
    ),
    in_config(
        "a parameter left out",
        "components.format: my_rewards.py:brevity: parameter 'limit' is missing",
        "components/format",
        {"function": "my_rewards.py:brevity"},
    ),
    in_config(
        "a column that the data lack",
        "components.format: my_rewards.py:of_tests: ",
        "components/format",
        {"function": "my_rewards.py:of_tests"},
    ),
    in_config(
        "a function misspelt",
        "components.format: my_rewards.py:brevty: no function 'brevty'",
        "components/format",
        {"function": "my_rewards.py:brevty"},
    ),
    in_config(
        "a reward file that is not Python",
        "components.format: broken.py:brevity: broken.py",
        "components/format",
        {"function": "broken.py:brevity"},
        **{"broken.py": "def brevity(completions, **columns):\n    return [float(len(text) for text in completions]\n"},
    ),
    in_config(
        "a damaged record",
        "results/study/study.json, the study's record of itself, is damaged (Expecting property name ",
        "name",
        "study",
        **{"results/study/study.json": "{"},
    ),
    in_config(
        "another study's folder",
        "results: results/other holds the study other; give study a folder of its own",
        "results",
        "results/other",
        **{"results/other/study.json": '{"name": "other"}'},
    ),
    Mistake(
        "a batch that no group divides",
        "plan",
        "training: TRL's GRPOConfig refuses these settings: generation_batch_size (8) must be divisible by ",
        {"training/num_generations": 7},
        needs=("TRL",),
    ),
    Mistake(
        "a tracker that is not installed",
        "plan",
        "training: report_to: trackio is not installed; pip install trackio",
        {"training/report_to": "trackio"},
        needs=("TRL",),
    ),
    in_data("an empty file", "data.train: my.jsonl: is empty; it needs at least one row", ""),
    in_data("a file that is not JSON", "data.train: my.jsonl: line 2: not JSON", json.dumps(GOOD[0]) + "\n{question"),
    in_data(
        "a list called .jsonl", "data.train: my.jsonl: line 1: must be an object with the columns", json.dumps(GOOD)
    ),
    in_data(
        "no column of questions",
        "data.train: my.jsonl: no column 'question'; name its column with columns: {question: ...}; columns here: ",
        [{"prompt": "1 + 1?", "answer": "2"}],
    ),
    in_data(
        "no column of answers",
        "data.train: my.jsonl: no column 'answer'; name its column with columns: {answer: ...}; columns here: ",
        [{"question": "1 + 1?", "gold": "2"}],
    ),
    in_data(
        "a column misspelt",
        "data.train: my.jsonl: columns.answer: no column 'gould'; columns here: question, gold",
        [{"question": "1 + 1?", "gold": "2"}],
        source={"columns": {"answer": "gould"}},
    ),
    in_data(
        "messages as questions",
        "data.train: my.jsonl row 0: question is a list of messages (user); name its text with columns: {question: ",
        [{"question": [{"role": "user", "content": "1 + 1?"}], "answer": "2"}],
    ),
    in_data(
        "whole solutions as answers",
        "data.train: my.jsonl: 1 gold does not grade itself as correct: file/my/0: '1 + 1 is 2. #### 2' (has ",
        [{"question": "1 + 1?", "answer": "1 + 1 is 2. #### 2"}],
    ),
    in_data(
        "answers all empty",
        "data.train: my.jsonl: none of 2 problems is left (dropped no gold: 2, ",
        [{"question": f"{number}?", "answer": ""} for number in range(2)],
    ),
    in_data("a question twice", "data.train: my.jsonl: 8 questions occur more than once, first file/my/8 ", GOOD * 2),
    in_data(
        "training on the test set",
        "data.train: my.jsonl: 8 questions occur in an evaluation set too, first file/my/0 (as test-",
        GOOD,
        **{"data/evaluation/test": {"source": "file", "path": "my.jsonl"}},
    ),
    in_data(
        "nothing left beside the test set",
        "data.train: my.jsonl: none of 8 problems is left (dropped no gold: 0, dropped duplicates: 0, ",
        GOOD,
        **{"data/evaluation/test": {"source": "file", "path": "my.jsonl"}, "data/overlap": "drop"},
    ),
    in_data(
        "fewer problems than a generation takes",
        "training: a generation takes 16 problems at once, and data.train has 8; add problems, or lower ",
        GOOD,
        **{"training/per_device_train_batch_size": 128},
    ),
    in_data(
        "a Git LFS pointer",
        "data.train: my.parquet: is a Git LFS pointer, not the file itself; run `git lfs pull`",
        "version https://git-lfs.github.com/spec/v1\n",
        "my.parquet",
    ),
    in_data("text called .parquet", "data.train: my.parquet: not a Parquet file (", "question,answer\n", "my.parquet"),
    Mistake(
        "a Parquet file without the columns",
        "plan",
        "data.train: columns.parquet: no column 'question'; name the file's column with columns: {question: ...}; "
        "columns here: prompt, reward_model",
        {"data/train": {"source": "file", "path": "columns.parquet"}},
    ),
    Mistake(
        "a Parquet file without a field",
        "plan",
        "data.train: columns.parquet: columns.answer: 'reward_model' has no field 'gold', which ",
        {
            "data/train": {
                "source": "file",
                "path": "columns.parquet",
                "columns": {"question": "prompt", "answer": "reward_model.gold"},
            }
        },
    ),
    in_reward("nothing", "components.format: my_rewards.py:nothing: "),
    in_reward("too_few", "components.format: my_rewards.py:too_few: "),
    in_reward("nan", "components.format: my_rewards.py:nan: "),
    in_reward("texts", "components.format: my_rewards.py:texts: "),
    in_reward("raises", "components.format: my_rewards.py:raises: "),
    in_reward("as_text", "components.format: my_rewards.py:as_text: "),
    Mistake(
        "a package that is not installed",
        "plan",
        "components.format: needs.py:scored: ",
        {"components/format": {"function": "needs.py:scored"}},
        {"needs.py": "import no_such_package\n\ndef scored(completions, **columns):\n    return [0.0]"},
    ),
    Mistake(
        "no key of a judge",
        "plan",
        "components.format.parameters: the environment variable JUDGE_KEY is not set; set it with `export ",
        {"components/format": {"function": "my_rewards.py:brevity", "parameters": {"limit": {"env": "JUDGE_KEY"}}}},
    ),
    Mistake(
        "no GPU",
        "plan",
        "launch.gpus: a run takes 4 GPUs and this machine ",
        {"launch": {"gpus": 4}},
        needs=("no GPU",),
    ),
    Mistake(
        "vLLM on a CPU",
        "plan",
        "evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers",
        {"evaluation/backend": "vllm"},
    ),
    Mistake(
        "a disk that is too small",
        "plan",
        "results: ",
        {"prompt": {"chat": False}},
        needs=("a huge model",),
    ),
    on_hub("a model misspelt", "model: some/modle: no such repository, or a private one; check ", "some/modle", COMMIT),
    on_hub(
        "a commit misspelt", f"model: some/model: has no revision {COMMIT}; give the full hash", "some/model", COMMIT
    ),
    on_hub("terms not accepted", "model: some/gated: gated; accept its terms on its page, then log in", "some/gated"),
    on_hub(
        "a model with pickles only", "model: some/pickles: has pickled weights only (pytorch_model.bin)", "some/pickles"
    ),
    on_hub("no network", "model: some/model: the hub cannot be reached (", "some/model", COMMIT, ("no hub",)),
    on_hub(
        "HF_HUB_OFFLINE",
        "model: some/model: HF_HUB_OFFLINE is set, and the model is not fetched ",
        "some/model",
        COMMIT,
        (),
    ),
    Mistake(
        "an adapter as model", "plan", "model: my_model: holds a LoRA adapter; merge it", LOCAL, needs=("adapter",)
    ),
    Mistake(
        "a model without a chat template",
        "plan",
        "prompt.chat: the model's tokenizer has no chat template",
        LOCAL,
        needs=("model",),
    ),
    Mistake(
        "prompts longer than the context",
        "plan",
        "training.max_completion_length: 10 of 10 prompts do not fit into the model's context of 32768 tokens with a "
        "completion of 32768; the longest prompt has ",
        {**LOCAL, "prompt": {"chat": False}, "training/max_completion_length": 32768},
        needs=("model",),
    ),
    Mistake(
        "evaluation prompts longer than the context",
        "plan",
        "evaluation.max_new_tokens: test: 10 of 10 prompts do not fit into the model's context of 32768 tokens with a ",
        {**LOCAL, "prompt": {"chat": False}, "evaluation/max_new_tokens": 32768},
        needs=("model",),
    ),
    # What the reward will meet only in the model's own completions, no one can know before.
    Mistake(
        "a reward that fails at a rare completion",
        "job",
        "components.mine: my_rewards.py, line 29, ",
        {"components/format": {"function": "my_rewards.py:rare"}},
    ),
]


def works(study: Study, **changes: Any) -> Work:
    """A first start, which does everything on this machine."""
    makes = frozenset([study.fetched_file, *(each.file for each in sets_of(study))])
    everything = {"runs": frozenset(study.runs), "trains": True, "scores": True, "makes": makes, "code_counts": True}
    return Work(**{**everything, "submits": False, "site": None, "evaluates": True, **changes})


def written(folder: Path, mistake: Mistake, commit: str = COMMIT) -> dict[str, Any]:
    """The config with a mistake, whose files are written into a folder."""
    pq.write_table(
        pa.table({"prompt": ["1 + 1?", "2 + 2?"], "reward_model": [{"ground_truth": "2"}, {"ground_truth": "4"}]}),
        folder / "columns.parquet",
    )
    for name, text in {"my_rewards.py": REWARDS, **mistake.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    config = {**copy.deepcopy(CONFIG), "launch": {"gpus": 0}}
    for path, value in mistake.config.items():
        value = value if value is REMOVE else copy.deepcopy(value)
        if isinstance(value, dict) and value.get("revision") == "COMMIT":
            value["revision"] = commit
        changed(config, path, value)
    return config


#: A check in a process of its own, as a command makes it: libraries read the environment when they are imported.
CHECK = """
import json, sys
from pathlib import Path
from start.test_newcomers import works
from reward_ablation.start.full_check import remember_settings
from reward_ablation.start.full_check import full_check, refuse
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import one_line_errors

study = resolve(json.loads(sys.argv[1]), "my_study.yaml", Path.cwd())
remember_settings(study, Path(study.config.root))  # asking TRL takes seconds
if "a huge model" in sys.argv:
    model = Path(study.model_file).parent
    Path(study.config.root, "models").mkdir()
    Path("my_model").rename(Path(study.config.root, model))
    Path(study.config.root, study.model_file).write_text(json.dumps({"parameters": 10**15}))
made = {"makes": works(study).makes - {study.fetched_file}} if "a huge model" in sys.argv else {}
before = sorted(Path().rglob("*"))
with one_line_errors():
    problems = full_check(study, works(study, **made), print)
    assert sorted(Path().rglob("*")) == before
    refuse(problems)
"""


def check_here(config: Any, *needs: str) -> None:
    """Check a config that needs no environment of its own, in the present folder."""
    study = resolve(config, "my_study.yaml", Path.cwd())
    if "TRL" not in needs:
        remember_settings(study, Path(study.config.root))
    refuse(full_check(study, works(study), print))


def check_apart(folder: Path, config: Any, environment: Mapping[str, str], *needs: str) -> Any:
    """Check a config in a process of its own, with this environment beside the tests' own."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", CHECK, json.dumps(config), *needs]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def hub():
    """A hub with a good model, one that is gated and one with pickled weights, and their commits."""
    with Hub() as hub:
        weights = {"config.json": b"{}", "model.safetensors": b""}
        commits = {
            "some/model": hub.add("models", "some/model", weights),
            "some/gated": hub.add("models", "some/gated", weights, gated=True),
            "some/pickles": hub.add("models", "some/pickles", {"config.json": b"{}", "pytorch_model.bin": b""}),
        }
        yield hub, commits


def rows(when: str) -> list[Any]:
    """The mistakes of one kind. Those that import torch are slow."""
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] if {*each.needs} - {"no GPU"} else [])
        for each in MISTAKES
        if each.when == when
    ]


@pytest.mark.parametrize("mistake", rows("config"))
def test_a_mistake_in_the_config(tmp_path, monkeypatch, capsys, mistake):
    monkeypatch.chdir(tmp_path)
    config = written(tmp_path, mistake)
    with pytest.raises(SystemExit) as end, one_line_errors():
        resolve(config, "my_study.yaml", Path())
    assert end.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: my_study.yaml: {mistake.line}")


@pytest.mark.parametrize("mistake", rows("plan"))
def test_a_mistake_that_the_full_check_finds(tmp_path, request, monkeypatch, capsys, mistake):
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    commit, folder = COMMIT, tmp_path / "my_model"
    if {"model", "a huge model"} & {*mistake.needs}:
        shutil.copytree(request.getfixturevalue("tiny_model"), folder)
    if "adapter" in mistake.needs:
        folder.mkdir()
        for name in ("config.json", "adapter_config.json", "adapter_model.safetensors"):
            (folder / name).write_text("{}")
    if not {*mistake.needs} & {"hub", "no hub", "a huge model"}:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.setattr(sys, "executable", forking_python())
        with pytest.raises(SystemExit) as end, one_line_errors():
            check_here(written(tmp_path, mistake), *mistake.needs)
        assert end.value.code == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {mistake.line}")
        return
    if "no hub" in mistake.needs:
        environment |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}
    if "hub" in mistake.needs:
        hub, commits = request.getfixturevalue("hub")
        environment |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
        commit = commits.get(mistake.config["model"]["id"])
    result = check_apart(tmp_path, written(tmp_path, mistake, commit), environment, *mistake.needs)
    lines = [line[: len(mistake.line) + 7] for line in result.stderr.splitlines()]
    assert lines == [f"error: {mistake.line}"], result.stderr
    assert result.returncode == 1


@pytest.mark.parametrize("mistake", rows("job"))
def test_a_mistake_that_only_a_job_can_know(tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(tmp_path)
    study = resolve(written(tmp_path, mistake), "my_study.yaml", tmp_path)
    remember_settings(study, tmp_path / study.config.root)
    assert full_check(study, works(study), print) == []
    function = mistake.config["components/format"]["function"]
    component = load_component(function, {}, tmp_path, name="mine")
    with pytest.raises(SystemExit) as end, one_line_errors():
        component([[{"role": "assistant", "content": "x" * 12345}]])
    assert end.value.code == 1


def test_there_are_forty_mistakes_of_different_names():
    assert len(MISTAKES) >= 40
    assert len({each.name for each in MISTAKES}) == len(MISTAKES)
