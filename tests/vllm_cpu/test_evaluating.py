"""Evaluation by vLLM, on a CPU: greedy answers equal those of transformers, each sample has its own stream."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model

from reward_ablation.models.load import load_model

from .environment import environment, requires_vllm

pytestmark = [pytest.mark.slow, requires_vllm]


@pytest.fixture(scope="session")
def adapter(vllm_model, tmp_path_factory) -> Path:
    """An adapter that changes what the model says."""
    config = LoraConfig(r=4, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(load_model(vllm_model), config)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("what", ["vllm_model", "adapter"])
def test_answers_of_a_model_and_of_an_adapter(request, vllm_model, tmp_path, what):
    program = Path(__file__).with_name("evaluating.py")
    output = tmp_path / "answers.json"
    command = [sys.executable, str(program), str(request.getfixturevalue(what)), str(vllm_model), str(output)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert result.returncode == 0, result.stderr
    answers = json.loads(output.read_text())
    rows = list(zip(answers["modes"], answers["vllm"], answers["transformers"], strict=True))
    greedy = [by_vllm == by_transformers for mode, by_vllm, by_transformers in rows if mode == "greedy"]
    assert sum(greedy) >= len(greedy) - 1  # two tokens may be as likely but for rounding
    samples = [by_vllm for mode, by_vllm, _ in rows if mode == "sampled"]
    assert sum(one != other for one, other in zip(samples[::2], samples[1::2], strict=True)) >= 18
