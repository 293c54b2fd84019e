"""Settings that TRL refuses are refused before the first job; settings that passed are remembered."""

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from reward_ablation.config import trl_settings
from reward_ablation.start import full_check as before_jobs
from reward_ablation.start.full_check import check_training_settings, remember_settings
from reward_ablation.start.model_files import check_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError


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


@pytest.mark.parametrize("installed", ["1.16.1", None])
def test_another_trl_is_refused_at_the_start_and_in_each_job(config, tmp_path, monkeypatch, installed):
    from reward_ablation.sft import __main__ as sft
    from reward_ablation.training import __main__ as training

    def version(package):
        if installed is None:
            raise PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(trl_settings, "version", version)
    refused = f"^trl: version {installed or 'none'} is installed, and this workflow needs 1.16.0.*pip install trl==1.16"
    starts = [
        lambda: check_training_settings(resolve(config, "study.yaml", tmp_path), tmp_path, print),
        lambda: training.train(None, nodes=1),
        lambda: sft.main(["--spec", "{}", *(f"--{name}={tmp_path}" for name in ("model", "problems", "output"))]),
    ]
    for start in starts:
        with pytest.raises(StudyError, match=refused):
            start()


def test_the_needed_trl_is_the_one_that_the_project_pins():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert f"trl=={trl_settings.TRL}" in project["dependencies"]


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
