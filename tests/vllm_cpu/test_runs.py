"""Runs whose rollouts vLLM generates, by the command of the workflow: colocated, and by a server of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import requests

from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.training.around.launch.key import KEY
from training.conftest import changed_model, spec_with, training_command
from training.given import assert_shares_are_the_training_gradient
from training.interrupting import attempts, digests, started, wait_for

from .environment import DROP_WEIGHTS, environment, requires_vllm

pytestmark = [pytest.mark.slow, requires_vllm]

COLOCATE = {"vllm": {"mode": "colocate", "tensor_parallel_size": 1}}
SERVER = {"vllm": {"mode": "server", "gpus": 1, "tensor_parallel_size": 1}}
IN_TWO = {"processes": 2, "training": {"per_device_train_batch_size": 4}}
DEEPSPEED = str(Path(sys.prefix) / "deepspeed")
#: Enough that a run is not over before a test has ended it at its third.
STEPS = 8
#: What two makes of one model differ by in 32 bits: 6e-7 nats a token were seen.
ROUNDING = 1e-5


@pytest.fixture(scope="session")
def command(vllm_model, problems) -> Callable[[dict, Path], list[str]]:
    """`command(changes, run)` trains a run of eight steps that is saved at every second."""

    def of(changes: dict, run: Path) -> list[str]:
        training = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 2, **changes.get("training", {})}
        return training_command(spec_with(**{**changes, "training": training}), run, vllm_model, problems)

    return of


def run_of(words: list[str], run: Path) -> Path:
    """The folder of a run that this command trains."""
    packages = environment(PYTHONPATH=f"{environment()['PYTHONPATH']}:{DEEPSPEED}")
    result = subprocess.run(words, capture_output=True, text=True, timeout=400, env=packages)
    assert result.returncode == 0, result.stdout + result.stderr
    return run


@pytest.fixture
def train(command, tmp_path):
    """`train(name, **changes of the spec)` gives the folder of a trained run."""

    def run(name: str, **changes) -> Path:
        folder = tmp_path / name / "seed0"
        return run_of(command(changes, folder), folder)

    return run


@pytest.fixture(scope="session")
def colocated(command, tmp_path_factory) -> Path:
    """A run with a colocated engine, in one process."""
    folder = tmp_path_factory.mktemp("colocated") / "seed0"
    return run_of(command(COLOCATE, folder), folder)


def servers(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Processes that are vLLM's server."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.cmdline()[1:3] == ["-m", "vllm.entrypoints.cli.main"]:
                found.append(process)
    return found


def rollouts(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / "rollouts.parquet").set_index(["step", "problem_id", "rollout"]).sort_index()


def assert_synchronised(run: Path) -> None:
    """At each step vLLM sampled with the current weights of training, which change at each step."""
    metrics = pd.read_parquet(run / "metrics.parquet")
    assert len(metrics) == STEPS
    assert (metrics["grad_norm"] > 0).all()
    assert (metrics["sampling/sampling_logp_difference/mean"] < ROUNDING).all()
    assert (rollouts(run)["sampling_gap"] < ROUNDING).all()
    assert (rollouts(run)["sampling_corrected"] == 0).all()
    for step in range(1, STEPS + 1):
        assert_shares_are_the_training_gradient(run, step)


def assert_same(one: Path, other: Path) -> None:
    """The same rollouts with the same scores, and the same component gradients but for rounding."""
    first, second = rollouts(one), rollouts(other)
    scores = ["completion", *(name for name in first if name.startswith("score_"))]
    pd.testing.assert_frame_equal(first[scores], second[scores])
    keys = ["step", "layer", "definition", "component_a", "component_b"]
    first, second = (pd.read_parquet(run / "gradients.parquet").set_index(keys) for run in (one, other))
    assert list(first.index) == list(second.index)
    assert (np.abs(first["dot"] - second["dot"]) <= 1e-4 * first.norm_a * first.norm_b).all()


def test_a_colocated_engine_samples_by_the_present_weights(colocated):
    assert_synchronised(colocated)
    rows = pd.read_parquet(colocated / "sample_gram_rows.parquet")
    assert set(rows["family"]) == {"all_tokens"}  # ratios do not depend on the weights: others can be asked for
    different = rollouts(colocated).groupby(["step", "problem_id"])["completion"].nunique()
    assert (different == 4).all()


@pytest.mark.long
@pytest.mark.parametrize("vllm", [COLOCATE, SERVER], ids=["colocate", "server"])
def test_of_a_models_generation_config_only_end_tokens_count(vllm_model, problems, colocated, tmp_path, vllm):
    asked = {"presence_penalty": 2.0, "suppress_tokens": [*range(3, 60)], "max_new_tokens": 2}
    model, run = changed_model(vllm_model, tmp_path, asked), tmp_path / "run" / "seed0"
    run_of(training_command(spec_with(**vllm, training={"max_steps": 1}), run, model, problems), run)
    first = rollouts(colocated).loc[[1]]
    assert (first["stop_reason"] == "stop").any()
    pd.testing.assert_frame_equal(rollouts(run)[["completion", "tokens"]], first[["completion", "tokens"]])


@pytest.mark.long
def test_a_run_is_repeated_to_the_byte_and_goes_on_after_a_kill(command, colocated, tmp_path):
    run, log = tmp_path / "run" / "seed0", tmp_path / "log"
    with started(command(COLOCATE, run), log, environment()) as process:
        wait_for(f"step 3/{STEPS}", log, process)
        process.kill()
    with started(command(COLOCATE, run), log, environment()) as process:
        assert process.wait() == 0, log.read_text()
    assert [ended for _, _, ended in attempts(run)] == ["killed", "done"]
    assert attempts(run)[1][0] in (2, 4, 6)
    assert digests(run) == digests(colocated)


@pytest.mark.long
def test_slices_of_weights_reach_the_engine_whole(train, colocated):
    run = train("run", **COLOCATE, **IN_TWO, strategy="zero3")
    assert_synchronised(run)
    assert_same(colocated, run)


@pytest.mark.long
def test_adapters_reach_the_engine_and_a_method_goes_by_what_the_engine_sampled(train):
    combine = {"method": "upgrad", "parameters": {}, "gram": "same_step"}
    run = train("run", **COLOCATE, combine=combine, lora={"r": 4, "target_modules": "all-linear"})
    assert_synchronised(run)
    weights = pd.read_parquet(run / "weights.parquet")
    assert weights.groupby("component")["weight"].nunique().max() > 1


@pytest.mark.long
def test_a_server_for_two_processes_with_slices_of_the_weights(train, colocated):
    run = train("run", **SERVER, **IN_TWO, strategy="zero3")
    assert_synchronised(run)
    assert_same(colocated, run)


@pytest.mark.long
def test_weights_that_do_not_arrive_end_the_run(command, tmp_path):
    run, log = tmp_path / "run" / "seed0", tmp_path / "log"
    training = {"learning_rate": 1e-2}
    with started(command({**COLOCATE, "training": training}, run), log, environment(**{DROP_WEIGHTS: "1"})) as process:
        assert process.wait() == 1, log.read_text()
    [error] = [line for line in log.read_text().splitlines() if line.startswith("error: ")]
    assert error.startswith("error: launch.vllm: for 3 generations in a row, up to step 4, vLLM's log-probabilities ")
    assert not (run / "run.json").exists()


@pytest.mark.long
def test_a_server_that_is_killed_ends_the_run_which_goes_on_and_is_as_a_colocated_one(command, colocated, tmp_path):
    run, log = tmp_path / "run" / "seed0", tmp_path / "log"
    with started(command(SERVER, run), log, environment()) as process:
        wait_for(f"step 3/{STEPS}", log, process)
        everything = psutil.Process(process.pid).children(recursive=True)
        for server in servers(everything):
            server.kill()
        assert process.wait(60) == GOES_ON, log.read_text()
        assert log.read_text().splitlines()[-1].startswith("error: launch.vllm: the vLLM server was ended by SIGKILL")
        assert not psutil.wait_procs(everything, 10)[1]
    with started(command(SERVER, run), log, environment()) as process:
        assert process.wait() == 0, log.read_text()
    assert_synchronised(run)
    assert_same(colocated, run)


def assert_nobody_else_is_let_in(server: psutil.Process) -> None:
    """Requests without the run's key are refused, also those that take weights and vLLM's own for development."""
    command = server.cmdline()
    address = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    assert requests.get(f"{address}/health").status_code == 200
    for path in ("v1/models", "server_info", "metrics", "openapi.json"):
        assert requests.get(f"{address}/{path}").status_code == 401, path
    for path in ("inference/v1/generate", "update_weights", "collective_rpc", "sleep"):
        assert requests.post(f"{address}/{path}", json={}).status_code == 401, path
    key = server.environ()[KEY]
    assert key not in " ".join(command)
    shown = requests.get(f"{address}/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert shown.status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_is_gone_when_its_run_is(command, tmp_path, number):
    run, log = tmp_path / "run" / "seed0", tmp_path / "log"
    with started(command(SERVER, run), log, environment()) as process:
        wait_for(f"step 1/{STEPS}", log, process)
        everything = psutil.Process(process.pid).children(recursive=True)
        assert_nobody_else_is_let_in(servers(everything)[0])
        process.send_signal(number)
        process.wait(120)
        assert not psutil.wait_procs(everything, 60)[1]
