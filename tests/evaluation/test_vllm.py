"""Requests to vLLM and the use of its answers. A stand-in replaces the package, which needs a GPU."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.generate import VllmGenerator
from reward_ablation.evaluation.requests import list_requests, request_seed

EVALUATION = Evaluation(answer_format="hash", samples=2, max_new_tokens=6, temperature=0.7, top_p=0.9, seed=3)
END = 1


@pytest.fixture
def asked(monkeypatch):
    """Calls of the stand-in. It answers each prompt with the prompt itself, an end token, and more tokens."""
    calls = SimpleNamespace(engine=None, engines=0, parameters=None, lora=None)

    class LLM:
        def __init__(self, **options):
            calls.engine = options
            calls.engines += 1

        def generate(self, prompts, parameters, lora_request=None):
            calls.parameters, calls.lora = parameters, lora_request
            ids = [
                [*prompt["prompt_token_ids"], END, 5][: each["max_tokens"]]
                for prompt, each in zip(prompts, parameters, strict=True)
            ]
            return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=of_one)]) for of_one in ids]

    package, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    package.LLM, package.SamplingParams, package.TokensPrompt = LLM, dict, dict
    request.LoRARequest = lambda *arguments: arguments
    for name, module in (("vllm", package), ("vllm.lora", lora), ("vllm.lora.request", request)):
        monkeypatch.setitem(sys.modules, name, module)
    return calls


@pytest.fixture
def requests():
    return list_requests(["a", "b"], [[7, 8], [9, 9, 9, 9, 9, 9]], EVALUATION)


def test_greedy_and_sampled_requests_have_their_own_parameters(asked, requests, tmp_path):
    completions = VllmGenerator(EVALUATION, None, longest=6)(requests, tmp_path, [END])
    for request, parameters in zip(requests, asked.parameters, strict=True):
        greedy = request.mode == "greedy"
        assert parameters["temperature"] == (0.0 if greedy else 0.7)
        assert parameters["top_p"] == (1.0 if greedy else 0.9)
        assert parameters["seed"] == (None if greedy else request_seed(request, 3))
        assert (parameters["max_tokens"], parameters["stop_token_ids"]) == (6, [END])
    assert asked.engine["max_model_len"] == 6 + 6
    assert asked.lora is None
    assert [(each.ids, each.truncated) for each in completions[:3]] == [([7, 8, END], False)] * 3
    assert [(each.ids, each.truncated) for each in completions[3:]] == [([9] * 6, True)] * 3


def test_all_adapters_over_a_base_share_an_engine(asked, requests, tmp_path):
    generator = VllmGenerator(EVALUATION, tmp_path / "base")
    loras = []
    for name in ("model", "model-step1", "model"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "adapter_config.json").write_text('{"r": 12}')
        generator(requests, tmp_path / name, [END])
        loras.append(asked.lora)
    assert (asked.engine["model"], asked.engine["max_lora_rank"]) == (str(tmp_path / "base"), 16)
    assert [(number, path) for _, number, path in loras] == [
        (number, str(tmp_path / name)) for number, name in ((1, "model"), (2, "model-step1"), (1, "model"))
    ]
    assert len({name for name, _, _ in loras}) == 2
    assert asked.engines == 1
    (tmp_path / "whole").mkdir()
    generator(requests, tmp_path / "whole", [END])
    generator(requests, tmp_path / "whole", [END])
    assert (asked.engines, asked.lora) == (2, None)
