"""The full check: all problems at once, nothing written, and no code of the user beside other problems."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from configs import changed
from hub import Hub
from models.conftest import tiny_model  # noqa: F401
from reward_ablation.cluster.slurm import Node, Partition
from reward_ablation.config.sections.data import REVISIONS
from reward_ablation.data.word_problems import generate
from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.start import full_check as module
from reward_ablation.start.full_check import check_before_training, full_check, remember_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

from .test_newcomers import GOOD, check_apart, works

REWARD = """
def scored(completions, *, key="", **columns):
    open("called", "w").close()
    return [0.0] * len(completions)
"""

#: Told where the model is not there yet.
UNMEASURED = "prompts: their lengths are not checked, because the model is not there yet"


@pytest.fixture
def checked(config, tmp_path, monkeypatch):
    """Checks the config, for whose settings TRL was asked; returns the problems and the lines that were told."""
    monkeypatch.chdir(tmp_path)
    config["launch"] = {"gpus": 0}

    def check(offline=False, remember=True, **work):
        study = resolve(config, "study.yaml", tmp_path)
        if remember:
            remember_settings(study, tmp_path / study.config.root)
        told = []
        return full_check(study, works(study, **work), told.append, offline), told

    return check


def rows(name: str, rows: list) -> dict:
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    return {"source": "file", "path": name}


def test_all_problems_are_told_at_once_and_no_code_of_the_user_runs(checked, config, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "mine.py").write_text(REWARD)
    config["components"]["format"] = {"function": "mine.py:scored", "parameters": {"key": {"env": "NO_SUCH_KEY"}}}
    config["launch"] = {"gpus": 2}
    config["data"]["train"] = rows("train.jsonl", GOOD * 2)
    config["data"]["evaluation"]["test"] = rows("test.jsonl", [{"prompt": "?"}])
    problems, _ = checked()
    assert [problem.partition(":")[0] for problem in problems] == [
        "components.format.parameters",
        "launch.gpus",
        "data.evaluation.test",
        "data.train",
    ]
    assert not any("\n" in problem for problem in problems)
    assert not (tmp_path / "called").exists()


def test_a_good_study_has_no_problem_and_its_reward_is_called_last(checked, config, tmp_path):
    (tmp_path / "mine.py").write_text(REWARD)
    config["components"]["format"] = {"function": "mine.py:scored"}
    problems, told = checked()
    assert (problems, told) == ([], ["reading data.evaluation.test ...", "reading data.train ...", UNMEASURED])
    assert (tmp_path / "called").exists()


def test_files_of_different_jobs_may_import_different_files_by_one_name(config, tmp_path):
    text = "from my_own_helper import {0}\n\ndef f(completions, **columns):\n    return [{0}] * len(completions)\n"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(text.format(folder))
        (tmp_path / folder / "my_own_helper.py").write_text(f"{folder} = 1.0\n")
    config["components"]["of_a"] = {"function": "a/mine.py:f"}
    config["evaluation"]["metrics"] = {"of_b": {"function": "b/mine.py:f", "range": [0, 1]}}
    module.check_reward_files(resolve(config, "study.yaml", tmp_path), True, True, print)


@pytest.mark.slow
def test_nothing_is_written_where_trl_is_asked(checked, tmp_path):
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


def test_demonstrations_are_held_apart_too(checked, config):
    config["data"]["evaluation"]["test"] = rows("test.jsonl", GOOD)
    config["sft"] = {"data": rows("sft.jsonl", [{**row, "solution": "so"} for row in GOOD])}
    problems, _ = checked()
    assert problems[0].startswith("sft.data: sft.jsonl: 8 questions occur in an evaluation set too, first file/sft/0")


def test_prepared_sets_are_not_read_again_but_compared_with(checked, config, tmp_path):
    config["data"]["evaluation"]["test"] = rows("test.jsonl", GOOD)
    config["data"]["train"] = rows("train.jsonl", GOOD)
    study = resolve(config, "study.yaml", tmp_path)
    assert checked(makes=frozenset()) == ([], [])
    problems, told = checked(makes=frozenset({study.fetched_file, study.problems_file}))
    assert (problems, told) == (
        [],
        ["reading data.train ...", UNMEASURED],
    )  # the evaluation set is not there to compare with


def test_a_large_file_is_left_to_its_job(checked, config, monkeypatch):
    config["data"]["train"] = rows("train.jsonl", GOOD * 2)
    monkeypatch.setattr("reward_ablation.start.data_files.LARGEST", 10)
    assert checked()[0] == []


def test_jobs_of_a_cluster_need_no_gpu_here(checked, config, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config["launch"] = {"gpus": 2}
    assert checked(submits=True)[0] == []
    assert checked(runs=frozenset(), trains=False, evaluates=False)[0] == []


def test_a_cluster_that_would_never_run_the_jobs_is_a_problem(checked, config, tmp_path, monkeypatch):
    config["launch"] = {"gpus": 2}
    site = tmp_path / "site.yaml"
    assert checked(submits=True, site=site)[0] == [
        f"{site}: No such file or directory; name your site file with --slurm-study-site"
    ]
    site.write_text("train: {hours: 48, mem_gb: 1}\nevaluate: {hours: 48, mem_gb: 1}\n")
    nodes = [Node("g1", 32, 128_000, {"h200": 4})]
    offered = {"gpu": Partition("gpu", default=True, up=True, max_minutes=1440, nodes=nodes)}
    monkeypatch.setattr("reward_ablation.cluster.slurm.partitions", lambda: offered)  # else `sinfo` is asked
    [problem] = checked(submits=True, site=site)[0]
    assert problem.startswith(f"{site}: evaluate: asks for 48 hours; partition gpu gives a job at most 24 hours")
    site.write_text("bundle: run\ntrain: {hours: 13, mem_gb: 1}\nevaluate: {hours: 13, mem_gb: 1}\n")
    monkeypatch.setattr("reward_ablation.cluster.preflight.run_slurm_command", lambda *command: "")
    [problem] = checked(submits=True, site=site)[0]
    assert problem.startswith(f"{site}: train + evaluate (bundle: run): asks for 26 hours; partition gpu gives")
    config["launch"]["resources"] = {"runtime": "2d"}
    [problem] = checked(submits=True, site=site)[0]
    assert problem.startswith(f"{site}: train + evaluate (bundle: run): asks for 61 hours; partition gpu gives")
    config["launch"]["resources"] = {"runtime": "long"}
    assert checked(submits=True, site=site)[0] == [
        "resources of a train job: Resource 'runtime' with value 'long' could not be parsed as minutes; write "
        "minutes, or 2h or 2d"
    ]


@pytest.mark.slow
def test_offline_says_what_is_left_out(checked, config):
    config["model"] = {"source": "hub", "id": "some/model", "revision": "0" * 40}
    problems, told = checked(offline=True)
    assert problems == []
    assert "model: not checked whether the hub can be reached: offline" in told


@pytest.mark.slow
def test_data_sets_of_the_hub_are_asked_for_unless_they_are_cached(config, tmp_path):
    config["launch"] = {"gpus": 0}
    config["data"]["train"] = {"source": "gsm8k", "split": "train"}

    def error(**environment):
        home = {"HF_HOME": str(tmp_path / "home")}
        return check_apart(tmp_path, config, home | environment).stderr.removeprefix(
            "error: data.train: openai/gsm8k: "
        )

    with Hub() as hub:
        asked = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        assert error(**asked).startswith("no such repository")
        hub.add("datasets", "openai/gsm8k", {})
        assert error(**asked).startswith("has no revision cc7b047b")
    assert "or give a local copy with path" in error(**asked)
    assert error(HF_HUB_OFFLINE="1").startswith("HF_HUB_OFFLINE is set, and the data set is not in the cache")
    (tmp_path / "home" / "datasets" / "openai___gsm8k" / "main" / "0.0.0" / REVISIONS["gsm8k"]).mkdir(parents=True)
    assert error(HF_HUB_OFFLINE="1") == ""


@pytest.mark.slow
def test_evaluation_prompts_are_refused_in_the_words_of_the_job(checked, config, tmp_path, request):
    import pandas as pd  # here and below, because most tests need neither it nor torch

    from reward_ablation.evaluation.evaluate import Evaluator

    shutil.copytree(request.getfixturevalue("tiny_model"), tmp_path / "model")
    config["model"], config["prompt"] = {"source": "local", "path": "model"}, {"chat": False}
    changed(config, "evaluation/max_new_tokens", 32768)
    [problem] = checked()[0]
    spec = EvaluateSpec.parse(resolve(config, "study.yaml", tmp_path).evaluation_spec)
    questions = pd.DataFrame(generate(10, 0, "test")).assign(id=[str(number) for number in range(10)])
    with pytest.raises(StudyError) as error:
        Evaluator(spec, None, {"test": questions}).answers(tmp_path / "model", "test")
    assert str(error.value) == problem


@pytest.mark.slow
def test_adapters_of_layers_that_the_model_lacks_are_refused_before_any_job(checked, config, tmp_path, request):
    shutil.copytree(request.getfixturevalue("tiny_model"), tmp_path / "model")
    config["model"], config["prompt"] = {"source": "local", "path": "model"}, {"chat": False}
    config["lora"] = {"target_modules": ["q_proj", "v_prj"]}
    assert [problem[:60] for problem in checked()[0]] == [
        "lora.target_modules: v_prj: the model has no such layer; writ"[:60]
    ]
    assert checked(trains=False)[0] == []
    config["lora"] = {"target_modules": ["q_proj", "v_proj"]}
    assert checked()[0] == []


def test_the_module_imports_neither_torch_nor_snakemake():
    heavy = {"torch", "snakemake", "pandas", "pyarrow"}
    code = f"import sys, {module.__name__}; print({heavy} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_prompts_are_measured_for_the_longest_completions_also_where_no_length_is_set(config, tmp_path, monkeypatch):
    """TRL's own length is 512."""
    asked = []
    monkeypatch.setattr(module, "_in_a_fork", lambda *arguments: asked.append(arguments))
    config["arms"]["arms"]["a"]["training"] = {"max_completion_length": 64}
    config["training"].pop("max_completion_length", None)
    study = resolve(config, "study.yaml", tmp_path)
    (study.results / study.fetched_file).parent.mkdir(parents=True)
    made = frozenset([study.problems_file])
    module._check_prompts(study, works(study, makes=made), [*study.runs.values()], {"data.train": tmp_path}, print)
    assert "max_completion_length" not in json.loads(asked[0][3])["training"]


HARDWARE = {"machine": "x86_64", "cpus": 2, "gpus": [], "processes": 1}


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
            record = {"code": changes.get("code", run.code), "attempts": [attempt], **changes.get("record", {})}
            (folder / "run.json").write_text(json.dumps(record))
        check_before_training(study, **options)

    return check


ALL_ALIKE = [{}, {}, {}, {}]
OLD_NUMPY = {"packages": {"numpy": "1.0"}}
OTHER_GPU = {"hardware": {"gpus": ["NVIDIA A100"]}}
OLD_CODE = {"code": "0" * 16}


def test_a_control_beside_finished_runs_is_of_the_same_code(start, config):
    config["components"]["random"] = {"function": "random", "scored": "where_trained"}
    config["arms"]["arms"]["noise"] = {"weights": {"random": 1}}
    start(*ALL_ALIKE)  # the control is to be trained
    start(*ALL_ALIKE, {}, {})  # it is trained, too
    with pytest.raises(StudyError, match="code is"):
        start(*ALL_ALIKE, OLD_CODE, {}, code_counts=False)


def test_runs_that_are_alike_pass(start):
    start()
    start({}, {})
    start(*ALL_ALIKE)


@pytest.mark.parametrize("finished", [[{}, OLD_NUMPY], [OLD_NUMPY], [{}, OTHER_GPU]])
def test_by_default_nothing_is_refused(start, finished):
    start(*finished, refuse=False)


def test_finished_runs_that_differ_are_refused(start):
    with pytest.raises(StudyError, match=r"^results/study: GPUs is none in runs/a-\w+/seed0 and 1 x NVIDIA A100"):
        start({}, OTHER_GPU, {}, {})


def test_a_finished_run_that_is_trained_again_does_not_count(start, config, tmp_path):
    """Such as a damaged run, or one of other inputs."""
    _, second, *_ = resolve(config, "config.yaml", tmp_path).runs
    start({}, OTHER_GPU, {}, {}, to_make={second})


def test_a_package_that_has_changed_since_is_refused_while_runs_are_missing(start):
    with pytest.raises(StudyError) as error:
        start(OLD_NUMPY)
    assert "numpy is 1.0 in runs/a-" in str(error.value)
    assert f"and {version('numpy')} in the runs to be trained now; delete the runs" in str(error.value)
    start(*[OLD_NUMPY] * 4)  # all are there, and alike


def test_a_package_that_is_not_here_any_more_is_refused_in_one_line(start):
    with pytest.raises(StudyError, match=r"no-such-package is 1\.0 in .* and none in the runs to be trained now"):
        start({"packages": {"no-such-package": "1.0"}})


def test_runs_that_were_scored_afterwards_may_stand_beside_others(start):
    start({"record": {"rescored": {"components": ["format"]}}}, {"record": {"rescored": {"components": []}}})


def test_runs_of_older_code_are_trained_again_and_do_not_count(start):
    start(OLD_CODE | OLD_NUMPY, {})


def test_where_older_code_is_kept_it_counts(start):
    with pytest.raises(StudyError, match=r"code is 0000000000000000 in runs/"):
        start(OLD_CODE, {}, code_counts=False)
