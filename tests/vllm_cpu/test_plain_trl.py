"""TRL's trainer and vLLM on a CPU, without this repository's trainer: what its tests stand on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .environment import DROP_WEIGHTS, environment, requires_vllm
from .server import free_port, serve

pytestmark = [pytest.mark.slow, requires_vllm]

GAP = "sampling/sampling_logp_difference/mean"


def gaps(model: Path, problems: Path, folder: Path, settings: dict, **variables: str) -> list[float]:
    """Train and give each step's mean |difference| of vLLM's log-probabilities from the trainer's, in nats a token."""
    folder.mkdir()
    program = Path(__file__).with_name("plain_trl.py")
    command = [sys.executable, str(program), str(model), str(problems), str(folder), json.dumps(settings)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(**variables))
    assert result.returncode == 0, result.stderr
    steps = [step for step in json.loads((folder / "log.json").read_text()) if GAP in step]
    assert all(step["grad_norm"] > 0 for step in steps[:-1])
    return [step[GAP] for step in steps]


def assert_synchronised(gaps: list[float]) -> None:
    """Twice the rounding of 32 bits is what the two make of one model (4e-7 seen); the second step is another model."""
    assert len(gaps) == 3
    assert max(gaps) < 1e-5


def assert_left_behind(gaps: list[float]) -> None:
    """The first step is of the model as it was loaded."""
    assert gaps[0] < 1e-5
    assert min(gaps[1:]) > 0.05


def test_a_colocated_engine_has_the_trainers_weights(vllm_model, problems, tmp_path):
    assert_synchronised(gaps(vllm_model, problems, tmp_path / "run", {"vllm_mode": "colocate"}))


def test_weights_that_a_colocated_engine_drops_are_seen(vllm_model, problems, tmp_path):
    found = gaps(vllm_model, problems, tmp_path / "run", {"vllm_mode": "colocate"}, **{DROP_WEIGHTS: "1"})
    assert_left_behind(found)


@pytest.fixture
def gaps_of_a_server(vllm_model, problems, tmp_path):
    """Gaps of training with a server: `gaps_of_a_server(**variables of the server)`."""

    def train(**variables: str) -> list[float]:
        with serve(vllm_model, tmp_path / "server.log", **variables) as url:
            settings = {"vllm_mode": "server", "vllm_server_base_url": url, "vllm_group_port": free_port()}
            return gaps(vllm_model, problems, tmp_path / "run", settings)

    return train


def test_a_server_has_the_trainers_weights(gaps_of_a_server):
    assert_synchronised(gaps_of_a_server())


def test_weights_that_a_server_drops_are_seen(gaps_of_a_server):
    assert_left_behind(gaps_of_a_server(**{DROP_WEIGHTS: "1"}))
