"""Requests to vLLM's engine and TRL's client: a seed for each completion."""

import copy
from types import SimpleNamespace

import pytest
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model

from reward_ablation.models.load import load_model
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.checks import check_for_vllm
from reward_ablation.training.core.generation.by_vllm import seeded_client, seeded_engine


class Parameters(SimpleNamespace):
    def clone(self):
        return copy.copy(self)


def test_an_engine_gets_a_seed_for_each_prompt():
    asked = {}

    def generate(prompts, sampling_params, **options):
        asked.update(prompts=prompts, parameters=sampling_params, options=options)

    shared = Parameters(temperature=0.7, seed=None)
    seeded_engine(generate, [5, 6])(["a", "b"], sampling_params=shared, use_tqdm=False)
    assert [parameters.seed for parameters in asked["parameters"]] == [5, 6]
    assert [parameters.temperature for parameters in asked["parameters"]] == [0.7, 0.7]
    assert (asked["prompts"], asked["options"], shared.seed) == (["a", "b"], {"use_tqdm": False}, None)


def test_a_server_is_sent_one_request_a_completion_and_answers_come_back_in_order():
    def generate(prompts, n, generation_kwargs, temperature):
        (prompt,) = prompts
        seed = generation_kwargs["seed"]
        assert (n, generation_kwargs["min_tokens"], temperature) == (1, 2, 0.7)
        ids = [[*prompt, seed]]
        return {"prompt_ids": prompts, "completion_ids": ids, "logprobs": [[seed]], "logprob_token_ids": [[seed]]}

    seeds = list(range(100, 106))
    output = seeded_client(generate, seeds)([[1], [2]], n=3, generation_kwargs={"min_tokens": 2}, temperature=0.7)
    assert output["prompt_ids"] == [[1], [2]]
    assert output["completion_ids"] == [[1, 100], [1, 101], [1, 102], [2, 103], [2, 104], [2, 105]]
    assert output["logprobs"] == [[seed] for seed in seeds]


def test_another_number_of_seeds_is_no_silent_mistake():
    with pytest.raises(ValueError, match="longer than"):
        seeded_engine(print, [1, 2])(["a"], Parameters())
    with pytest.raises(ValueError, match="2 seeds for 1"):
        seeded_client(print, [1, 2])([[1]], 1)


def test_a_model_that_vllm_would_not_sample_from_as_it_is_trained_is_refused(demo_model):
    def trainer(**changes):
        config = LoraConfig(**{"r": 2, "target_modules": "all-linear", **changes}, task_type="CAUSAL_LM")
        return SimpleNamespace(model=get_peft_model(load_model(demo_model), config), accelerator=Accelerator(cpu=True))

    check_for_vllm(trainer())
    with pytest.raises(StudyError, match=r"training\.disable_dropout: .*lora_dropout.default has a dropout of 0\.1"):
        check_for_vllm(trainer(lora_dropout=0.1))
    with pytest.raises(StudyError, match=r"lora\.target_modules: vLLM cannot get an adapter of the embedding"):
        check_for_vllm(trainer(target_modules=["q_proj", "embed_tokens"]))
