"""The full check: all problems at once, nothing written, and no code of the user beside other problems."""

from __future__ import annotations

import importlib
import json
import platform
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs import changed
from hub import Hub
from models.conftest import model_copy, tiny_model  # noqa: F401
from reward_ablation.cluster.slurm import Node, Partition
from reward_ablation.config import trl_settings
from reward_ablation.config.sections.data import REVISIONS
from reward_ablation.start import full_check as before_jobs
from reward_ablation.start.data_files import sets_of
from reward_ablation.start.full_check import (
    Work,
    check_before_training,
    check_training_settings,
    full_check,
    remember_settings,
)
from reward_ablation.start.model_files import check_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

GOOD = [{"question": f"What is {number} + 1?", "answer": str(number + 1)} for number in range(8)]
REWARD = """
def scored(completions, *, key="", **columns):
    open("called", "w").close()
    return [0.0] * len(completions)
"""

#: Told where the model is not there yet.
UNMEASURED = "prompts: their lengths are not checked, because the model is not there yet"
NOTHING: frozenset[str] = frozenset()


def works(study: Study, **changes: Any) -> Work:
    """A first start, which does everything on this machine."""
    makes = frozenset([study.fetched_file, *(each.file for each in sets_of(study))])
    everything = {"runs": frozenset(study.runs), "trains": True, "scores": True, "makes": makes, "code_counts": True}
    return Work(**{**everything, "submits": False, "site": None, "evaluates": True, **changes})


@pytest.fixture
def checked(config, tmp_path, monkeypatch):
    """Checks the config, for whose settings TRL was asked; returns the problems and the lines that were told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config["launch"] = {"gpus": 0}

    def check(offline=False, remember=True, **work):
        study = resolve(config, "study.yaml", tmp_path)
        if remember:
            remember_settings(study, study.results)
        before = sorted(tmp_path.rglob("*"))
        told = []
        problems = full_check(study, works(study, **work), told.append, offline)
        new = {path for path in {*tmp_path.rglob("*")} - {*before} if "__pycache__" not in path.parts}
        assert new <= {tmp_path / "called"}
        assert not any("\n" in problem for problem in problems)
        return problems, told

    return check


@pytest.fixture(scope="module")
def imported():
    """Checks that need torch run in forks of this process, which then need not import it."""
    importlib.import_module("reward_ablation.start.model_files")


def rows(name: str, rows: list) -> dict:
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    return {"source": "file", "path": name}


def test_all_problems_are_told_at_once_and_no_code_of_the_user_runs(checked, config, tmp_path):
    (tmp_path / "mine.py").write_text(REWARD)
    config["components"]["format"] = {"function": "mine.py:scored", "parameters": {"key": {"env": "NO_SUCH_KEY"}}}
    config["launch"] = {"gpus": 4}
    config["data"]["train"] = rows("train.jsonl", GOOD * 2)
    pq.write_table(pa.table({"prompt": ["1 + 1?"], "reward_model": [{"ground_truth": "2"}]}), "columns.parquet")
    (tmp_path / "empty.jsonl").touch()
    evaluation = {name: {"source": "file", "path": name} for name in ("empty.jsonl", "columns.parquet")}
    config["data"]["evaluation"] = {name.partition(".")[0]: source for name, source in evaluation.items()}
    problems, _ = checked()
    expected = [
        "components.format.parameters: the environment variable NO_SUCH_KEY is not set; set it with `export ",
        "launch.gpus: a run takes 4 GPUs and this machine ",
        "data.evaluation.empty: empty.jsonl: is empty; it needs at least one row",
        "data.evaluation.columns: columns.parquet: no column 'question'; name the file's column with columns: {questio",
        "data.train: train.jsonl: 8 questions occur more than once, first file/train/8 ",
    ]
    assert [problem[: len(line)] for problem, line in zip(problems, expected, strict=True)] == expected
    assert not (tmp_path / "called").exists()


def test_a_good_study_has_no_problem_and_its_reward_is_called_last(checked, config, tmp_path):
    (tmp_path / "mine.py").write_text(REWARD)
    config["components"]["format"] = {"function": "mine.py:scored"}
    problems, told = checked()
    assert (problems, told) == ([], ["reading data.evaluation.test ...", "reading data.train ...", UNMEASURED])
    assert (tmp_path / "called").exists()


@pytest.mark.slow
def test_trl_is_asked_and_nothing_is_written(checked, tmp_path, imported):
    problems, told = checked(remember=False)
    assert (problems, told[-1]) == ([], "asking TRL for its rules ...")
    assert list(tmp_path.iterdir()) == []


def test_questions_that_are_dropped_are_counted(checked, config):
    config["data"]["train"] = rows("train.jsonl", GOOD)
    config["data"]["evaluation"]["test"] = rows("test.jsonl", [{**GOOD[0], "question": "what  IS 0 + 1?"}])
    config["data"]["overlap"] = "drop"
    config["training"]["num_generations"] = 8
    problems, told = checked()
    assert problems == []
    dropped = "1 of 8 questions are in an evaluation set too and are taken out of this set"
    assert f"warning: data.train: {dropped}" in told


def test_training_sets_and_demonstrations_are_held_apart_from_evaluation_sets(checked, config):
    config["data"]["evaluation"]["test"] = config["data"]["train"] = rows("test.jsonl", GOOD)
    config["sft"] = {"data": rows("sft.jsonl", [{**row, "solution": "so"} for row in GOOD])}
    assert [problem.partition(" (")[0] for problem in checked()[0]] == [
        "data.train: test.jsonl: 8 questions occur in an evaluation set too, first file/test/0",
        "sft.data: sft.jsonl: 8 questions occur in an evaluation set too, first file/sft/0",
    ]


def test_a_demonstration_without_a_solution_is_told(checked, config, tmp_path):
    config["sft"] = {"data": rows("sft.jsonl", GOOD), "completion": "{solution}"}
    study = resolve(config, "study.yaml", tmp_path)
    makes = frozenset([study.model_file, study.fetched_file, *(each.file for each in sets_of(study))])
    [problem] = checked(makes=makes)[0]
    assert problem.startswith("sft.data: file/sft/0 has no solution, and the template '{solution}' needs one; ")


def test_several_nodes_outside_a_slurm_job_are_told(checked, config, monkeypatch):
    config["launch"] = {"gpus": 2, "nodes": 2}
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_JOB_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    line = "launch.nodes: a run on 2 nodes must be started by a Slurm job's batch script, and this process is not"
    assert [problem[: len(line)] for problem in checked(makes=NOTHING)[0]] == [line]
    assert checked(makes=NOTHING, submits=True)[0] == []
    assert checked(runs=NOTHING, trains=False, evaluates=False, makes=NOTHING)[0] == []


def test_prepared_sets_and_large_files_are_left_to_their_jobs(checked, config, tmp_path, monkeypatch):
    config["data"]["evaluation"]["test"] = config["data"]["train"] = rows("train.jsonl", GOOD)
    study = resolve(config, "study.yaml", tmp_path)
    assert checked(makes=NOTHING) == ([], [])
    makes = frozenset({study.fetched_file, study.problems_file})
    assert checked(makes=makes) == ([], ["reading data.train ...", UNMEASURED])  # no evaluation set to compare with
    monkeypatch.setattr("reward_ablation.start.data_files.LARGEST", 10)
    assert checked() == ([], [])


def test_a_generation_takes_no_more_problems_than_there_are(checked, config):
    config["data"]["train"] = rows("train.jsonl", GOOD)
    config["training"]["per_device_train_batch_size"] = 128
    line = "training: a generation takes 16 problems at once, and data.train has 8; add problems, or lower "
    assert [problem[: len(line)] for problem in checked()[0]] == [line]


def test_what_this_machine_cannot_do_is_told(checked, config, tmp_path):
    config["evaluation"]["backend"] = "vllm"
    study = resolve(config, "study.yaml", tmp_path)
    (study.results / study.model_file).parent.mkdir(parents=True)
    (study.results / study.model_file).write_text(json.dumps({"parameters": 10**15}))
    backend, disk = checked(makes=NOTHING)[0]
    assert backend == "evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers"
    assert disk.startswith("results: ")
    assert " free, and 4 runs, 1 at once, write up to " in disk


@pytest.mark.parametrize(
    ("hours", "bundle", "line"),
    [
        (13, "bundle: run", "train + evaluate (bundle: run): asks for 61 hours; partition gpu gives a job at most 24 "),
        (48, "", "evaluate: asks for 48 hours; partition gpu gives a job at most 24 hours"),
    ],
)
def test_a_cluster_that_would_never_run_the_jobs_is_a_problem(
    checked, config, tmp_path, monkeypatch, hours, bundle, line
):
    config["launch"] = {"gpus": 2, "resources": {"runtime": "2d" if bundle else "1h"}}
    site = tmp_path / "site.yaml"
    asked = f"{{hours: {hours}, mem_gb: 1}}"
    site.write_text(f"{bundle}\ntrain: {asked}\nevaluate: {asked}\n")
    nodes = [Node("g1", 32, 128_000, {"h200": 4})]
    offered = {"gpu": Partition("gpu", default=True, up=True, max_minutes=1440, nodes=nodes)}
    monkeypatch.setattr("reward_ablation.cluster.slurm.partitions", lambda: offered)  # else `sinfo` is asked
    monkeypatch.setattr("reward_ablation.cluster.preflight.run_slurm_command", lambda *command: "")
    [problem] = checked(submits=True, site=site, makes=NOTHING)[0]
    assert problem.startswith(f"{site}: {line}")


def test_offline_says_what_is_left_out(checked, config):
    config["model"] = {"source": "hub", "id": "some/model", "revision": "0" * 40}
    problems, told = checked(offline=True)
    assert problems == []
    assert "model: not checked whether the hub can be reached: offline" in told


@pytest.mark.slow
def test_what_the_hub_does_not_give_is_told(checked, config, monkeypatch, imported):
    weights, gsm8k = {"config.json": b"{}", "model.safetensors": b""}, {"source": "gsm8k", "split": "train"}
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
    with Hub() as hub:
        monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
        path = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + path)
        commits = {
            "some/modle": "0" * 40,
            "some/model": hub.add("models", "some/model", weights),
            "some/gated": hub.add("models", "some/gated", weights, gated=True),
            "some/pickles": hub.add("models", "some/pickles", {"config.json": b"{}", "pytorch_model.bin": b""}),
        }
        hub.add("datasets", "openai/gsm8k", {})
        models = [{"source": "hub", "id": name, "revision": commit} for name, commit in commits.items()]
        models.append({**models[1], "revision": "0" * 40})
        sets = [gsm8k, {**gsm8k, "source": "math"}, *[config["data"]["train"]] * 3]
        told = []
        for config["model"], config["data"]["train"] in zip(models, sets, strict=True):
            told += checked()[0]
    expected = [
        "model: some/modle: no such repository, or a private one; check ",
        "data.train: openai/gsm8k: has no revision cc7b047b",
        "data.train: DigitalLearningGmbH/MATH-lighteval: no such repository",
        "model: some/gated: gated; accept its terms on its page, then log in",
        "model: some/pickles: has pickled weights only (pytorch_model.bin)",
        f"model: some/model: has no revision {'0' * 40}; give the full hash",
    ]
    assert [problem[: len(line)] for problem, line in zip(told, expected, strict=True)] == expected


@pytest.mark.slow
def test_without_a_hub_only_what_is_cached_can_be_had(tmp_path, monkeypatch, imported):
    from reward_ablation.start.model_files import ask_for_data, ask_for_model

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path))
    with pytest.raises(StudyError, match=r"^some/model: HF_HUB_OFFLINE is set, and the model is not fetched yet"):
        ask_for_model("some/model", "0" * 40)
    with pytest.raises(StudyError, match=r"^openai/gsm8k: HF_HUB_OFFLINE is set, and the data set is not in the cache"):
        ask_for_data("gsm8k", REVISIONS["gsm8k"])
    with monkeypatch.context() as online:
        online.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        online.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(StudyError, match=r"^openai/gsm8k: the hub cannot be reached.* or give a local copy with p"):
            ask_for_data("gsm8k", REVISIONS["gsm8k"])
    (tmp_path / "openai___gsm8k" / "main" / "0.0.0" / REVISIONS["gsm8k"]).mkdir(parents=True)
    ask_for_data("gsm8k", REVISIONS["gsm8k"])


@pytest.fixture
def local(config, model_copy, imported):  # noqa: F811
    """The config with a model in a folder, without a chat; returns the folder."""
    config["model"], config["prompt"] = {"source": "local", "path": str(model_copy)}, {"chat": False}
    return model_copy


@pytest.mark.slow
def test_a_folder_that_is_no_model_is_refused(checked, config, tmp_path):
    (tmp_path / "adapter").mkdir()
    for name in ("config.json", "adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / "adapter" / name).write_text("{}")
    config["model"] = {"source": "local", "path": "adapter"}
    assert [problem[:52] for problem in checked()[0]] == ["model: adapter: holds a LoRA adapter; merge it into "]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("prompt", {"chat": True}, "prompt.chat: the model's tokenizer has no chat template"),
        (
            "training/max_completion_length",
            32768,
            "training.max_completion_length: 10 of 10 prompts do not fit into the model's context of 32768 tokens with "
            "a completion of 32768; the longest prompt has ",
        ),
        (
            "evaluation/max_new_tokens",
            32768,
            "evaluation.max_new_tokens: test: 10 of 10 prompts do not fit into the model's context of 32768 tokens",
        ),
        ("lora", {"target_modules": ["q_proj", "v_prj"]}, "lora.target_modules: v_prj: the model has no such layer; "),
    ],
)
def test_what_a_model_cannot_do_is_told_before_any_job(checked, config, local, path, value, line):
    changed(config, path, value)
    assert [problem[: len(line)] for problem in checked()[0]] == [line]
    if path == "lora":
        assert checked(trains=False)[0] == []
        value["target_modules"].remove("v_prj")
        assert checked()[0] == []


HARDWARE = {"machine": "x86_64", "cpus": 2, "gpus": [], "processes": 1}
OLD_NUMPY = {"packages": {"numpy": "1.0"}}
OTHER_GPU = {"hardware": {"gpus": ["NVIDIA A100"]}}
OLD_CODE = {"code": "0" * 16}


@pytest.fixture
def start(config, tmp_path):
    """A study of four runs, of which these are finished, about to be started again."""

    def check(*finished: dict, refuse: bool = True, **options) -> None:
        switch = {"mixed_provenance": "refuse" if refuse else "tell"}
        study = resolve(config | switch, "config.yaml", tmp_path)
        for (name, run), changes in zip(study.runs.items(), finished, strict=False):
            packages = {"python": platform.python_version(), "numpy": version("numpy")} | changes.get("packages", {})
            hardware = HARDWARE | changes.get("hardware", {})
            attempt = {"from_step": 0, "to_step": 3, "packages": packages, "hardware": hardware}
            folder = tmp_path / study.config.root / "runs" / name
            folder.mkdir(parents=True, exist_ok=True)
            record = {"code": changes.get("code", run.code), "attempts": [attempt]}
            (folder / "run.json").write_text(json.dumps(record))
        check_before_training(study, **options)

    return check


def test_runs_that_are_alike_pass_and_others_where_nothing_is_to_be_refused(start, config, tmp_path):
    start({}, {})
    start(*[OLD_NUMPY] * 4)  # all are there, and alike
    start(OLD_CODE | OLD_NUMPY, {}, {}, {})  # trained again, so that it does not count
    _, second, *_ = resolve(config, "config.yaml", tmp_path).runs
    start({}, OTHER_GPU, to_make={second})  # such as a damaged run, or one of other inputs
    start({}, OTHER_GPU, refuse=False)


@pytest.mark.parametrize(
    ("finished", "options", "line"),
    [
        ([{}, OTHER_GPU, {}, {}], {}, r"^results/study: GPUs is none in runs/a-\w+/seed0 and 1 x NVIDIA A100"),
        ([OLD_NUMPY], {}, rf"numpy is 1.0 in runs/a-.* and {version('numpy')} in the runs to be trained now; delete"),
        ([{"packages": {"no-such": "1.0"}}], {}, r"no-such is 1\.0 in .* and none in the runs to be trained now"),
        ([OLD_CODE, {}], {"code_counts": False}, "code is 0000000000000000 in runs/"),
    ],
)
def test_runs_that_differ_are_refused(start, finished, options, line):
    with pytest.raises(StudyError, match=line):
        start(*finished, **options)


def test_a_control_beside_finished_runs_is_of_the_same_code(start, config):
    config["components"]["random"] = {"function": "random", "scored": "where_trained"}
    config["arms"]["arms"]["noise"] = {"weights": {"random": 1}}
    alike = [{}] * 4
    start(*alike)  # the control is to be trained
    start(*alike, {}, {})  # it is trained, too
    with pytest.raises(StudyError, match="code is"):
        start(*alike, OLD_CODE, {}, code_counts=False)


@pytest.mark.slow
def test_what_has_passed_is_not_checked_again(config, tmp_path, monkeypatch):
    started = []

    def check():
        before = len(started)
        study = resolve(config, "study.yaml", tmp_path)
        check_training_settings(study, tmp_path / "results", started.append)
        remember_settings(study, tmp_path / "results")
        return len(started) - before

    assert check() == 1
    assert check() == 0
    config["training"]["num_generations"] = 7  # does not divide the batch
    with pytest.raises(StudyError, match="num_generations"):
        check()
    del config["training"]["num_generations"]
    config["seeds"] = [3]
    config["components"]["format"]["parameters"]["format"] = "boxed"
    assert check() == 0
    monkeypatch.setattr(before_jobs, "installed", lambda: {"trl": "9.9"})
    assert check() == 1


def test_another_trl_is_refused_at_the_start_and_in_each_job(config, tmp_path, monkeypatch):
    from reward_ablation.sft import __main__ as sft
    from reward_ablation.training import __main__ as training

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert f"trl=={trl_settings.TRL}" in project["dependencies"]
    monkeypatch.setattr(trl_settings, "version", lambda package: "1.16.1")
    refused = "^trl: version 1.16.1 is installed, and this workflow needs 1.16.0.*pip install trl==1.16"
    starts = [
        lambda: check_training_settings(resolve(config, "study.yaml", tmp_path), tmp_path, print),
        lambda: training.train(None, nodes=1),
        lambda: sft.main(["--spec", "{}", *(f"--{name}={tmp_path}" for name in ("model", "problems", "output"))]),
    ]
    for start in starts:
        with pytest.raises(StudyError, match=refused):
            start()


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({"num_generations": 8, "per_device_train_batch_size": 2}, 4),  # 8 completions over 4 processes
        ({"tf32": True, "bf16": True}, 1),  # the machine that submits jobs may have no GPU
        # As a spec writes 2.0, 1.5 and 0.0; whole numbers were refused in the job.
        ({"temperature": 2, "repetition_penalty": 2, "adam_beta1": 0, "optim": "adamw_torch"}, 0),
        ({"optim": "sgd", "optim_target_modules": "all-linear", "dataloader_num_workers": 2}, 1),
        ({"top_k": 50, "top_p": 1, "min_p": 0.1, "generation_kwargs": {"min_new_tokens": 5}}, 0),
    ],
)
def test_accepted(settings, gpus):
    check_settings([json.dumps({"training": settings, "layout": {"gpus": gpus}})])


@pytest.mark.parametrize(
    ("settings", "gpus", "message"),
    [
        ({"num_generations": 8, "per_device_train_batch_size": 2}, 1, "must be divisible by num_generations (8)"),
        ({"report_to": "trackio"}, 0, "training: report_to: refused by the trainer: TrackioCallback requires trackio"),
        ({"optim": "paged_adamw_8bit"}, 1, "training: optim and its settings: refused by the trainer: You need"),
        ({"lr_scheduler_type": "warmup_stable_decay"}, 0, "training: lr_scheduler_type and lr_scheduler_kwargs: "),
        ({"gradient_checkpointing_kwargs": {"use_reentrat": True}}, 1, "training: gradient_checkpointing_kwargs: "),
        ({"dataloader_persistent_workers": True}, 0, "training: dataloader settings: refused by the trainer: "),
        ({"use_liger_kernel": True}, 1, "training: use_liger_kernel: the package is not installed; pip install"),
        ({"cache_implementation": "statc"}, 0, "training: sampling settings: refused by the trainer: Invalid"),
        ({"deepspeed": "no_such_file.json"}, 1, "training: TRL's GRPOConfig refuses these settings: "),
    ],
)
def test_refused(settings, gpus, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        check_settings([json.dumps({"training": settings, "layout": {"gpus": gpus}})])


def test_settings_of_the_supervised_start_are_tried_too():
    with pytest.raises(StudyError, match=r"^sft\.training: optim and its settings: refused by the trainer: You need"):
        check_settings([json.dumps({"sft": {"optim": "paged_adamw_8bit"}, "gpus": 1})])
