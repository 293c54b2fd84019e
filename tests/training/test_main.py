"""The training command in this process: it waits for its lock's holder, and trains with the planned code only."""

import os
import threading
from dataclasses import replace

import pytest

from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, VLLM_LOG
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import take
from reward_ablation.training.__main__ import train

from .conftest import job_of, spec_with


def test_it_waits_for_a_process_that_trains_the_run_and_refuses_other_code_than_planned(
    demo_model, problems, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "1")  # as some batch systems set it
    job = job_of(spec_with(), tmp_path / "run", demo_model, problems)
    threading.Timer(0.5, take(job.run_dir / LOCK).release).start()
    with pytest.raises(StudyError, match="training code has changed since the workflow was started; start it again"):
        train(job, nodes=1)
    assert f"train: waiting for process {os.getpid()} on " in capsys.readouterr().err
    assert not (job.run_dir / RECORD).exists()


def test_a_launcher_of_the_user_s_own_is_refused(demo_model, problems, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    told = "^launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command without a launch"
    with pytest.raises(StudyError, match=told):
        train(job_of(spec_with(processes=2), tmp_path / "run", demo_model, problems), nodes=1)
    assert not (tmp_path / "run").exists()


def test_a_finished_run_needs_no_server(demo_model, problems, tmp_path, capsys):
    spec, run = spec_with(vllm={"mode": "server", "gpus": 1, "tensor_parallel_size": 1}), tmp_path / "run"
    job = job_of(spec, run, demo_model, problems)
    job = replace(job, code=training_digest(job.spec.functions))
    made = {"seed": spec.pop("seed"), "spec": spec, "code": job.code, "files": {}}
    inputs = {"model": sha256(demo_model / "model.json"), "problems": sha256(problems)}
    write_json({**made, "inputs": inputs}, run / HIDDEN_RECORD)
    assert train(job, nodes=1) == 0
    assert capsys.readouterr().out == f"train: {run} is trained already; to train it again, delete the folder\n"
    assert (run / RECORD).exists()  # as Snakemake wants it
    assert not (run / VLLM_LOG).exists()
