"""What vLLM is asked for and sent, the length that it reserves, and the gap between its probabilities and ours."""

import contextlib
import copy
import json
import math
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from trl import GRPOConfig

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import VllmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.checks import check_for_vllm
from reward_ablation.training.around.gap_watch import GapWatch
from reward_ablation.training.around.launch.vllm_server import longest_text
from reward_ablation.training.core.generation.by_vllm import merged_weights, seeded_client, seeded_engine
from reward_ablation.training.core.rollouts import sampling_gap
from reward_ablation.training.core.settings import grpo_config

from ..conftest import job_of, spec_with


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


def test_a_model_that_vllm_would_not_sample_from_as_it_is_trained_is_refused(demo_model):
    def trainer(**changes):
        config = LoraConfig(**{"r": 2, "target_modules": "all-linear", **changes}, task_type="CAUSAL_LM")
        return SimpleNamespace(model=get_peft_model(load_model(demo_model), config), accelerator=Accelerator(cpu=True))

    check_for_vllm(trainer())
    with pytest.raises(StudyError, match=r"training\.disable_dropout: .*lora_dropout.default has a dropout of 0\.1"):
        check_for_vllm(trainer(lora_dropout=0.1))
    with pytest.raises(StudyError, match=r"lora\.target_modules: vLLM cannot get an adapter of the embedding"):
        check_for_vllm(trainer(target_modules=["q_proj", "embed_tokens"]))


@pytest.fixture
def length(demo_model, problems, tmp_path):
    """`length(context, **changes of the spec)` of the text that vLLM reserves memory for; None: the model's context."""

    def of(context=None, **changes):
        model = shutil.copytree(demo_model, tmp_path / "small", dirs_exist_ok=True)
        if context:
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": context}))
        return longest_text(job_of(spec_with(**changes), problems.parent, model, problems))

    return of


@pytest.fixture
def lengths(demo_model, problems):
    """Tokens of the prompts, ascending."""
    questions = pd.read_parquet(problems).question
    return sorted(map(len, load_tokenizer(demo_model)([f"{question}\n" for question in questions])["input_ids"]))


def test_the_default_is_trls():
    assert GRPOConfig.__dataclass_fields__["max_completion_length"].default == COMPLETION_LENGTH


def test_the_longest_prompt_and_a_whole_completion_have_room_and_no_more_than_the_model_reads(length, lengths):
    longest = lengths[-1]
    assert length() == longest + 16
    assert length(training={"vllm_max_model_length": 200}) == 200
    with pytest.raises(StudyError, match=rf"training\.vllm_max_model_length: {longest + 15}, and the longest"):
        length(training={"vllm_max_model_length": longest + 15})
    with pytest.raises(StudyError, match=r"training\.vllm_max_model_length: 1000000, and the model reads \d+ tokens;"):
        length(training={"vllm_max_model_length": 10**6})
    with pytest.raises(StudyError, match=f"prompts do not fit into the model's context of {longest} tokens"):
        length(longest)


def test_prompts_that_are_too_long_are_left_out_if_the_study_says_so(length, lengths):
    dropping = {"data": {"too_long": "drop"}}
    assert length(lengths[-1] + 15, **dropping) == max(n for n in lengths if n < lengths[-1]) + 16
    with pytest.raises(StudyError, match=r"32 of 32 prompts do not fit .* context of 17 tokens"):
        length(17, **dropping)


def with_adapters(folder, dtype, **changes):
    """A model in this format, with adapters that are not zero."""
    config = LoraConfig(**{"r": 4, "lora_alpha": 16, "target_modules": "all-linear", **changes}, task_type="CAUSAL_LM")
    model = get_peft_model(load_model(folder, dtype), config)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.02
    return model


def sent(model, gather=lambda parameters: contextlib.nullcontext()):
    return dict(merged_weights(model, gather))


@pytest.mark.parametrize("changes", [{}, {"use_rslora": True}, {"target_modules": ["q_proj", "embed_tokens"]}])
def test_what_is_sent_is_the_merged_model(demo_model, changes):
    model = with_adapters(demo_model, "float32", **changes)
    weights = sent(model)
    expected = dict(model.merge_and_unload().named_parameters())
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, expected[name].data, msg=name)


def test_the_sum_is_rounded_once_and_the_base_stays(demo_model):
    """Where adapters are merged into the base and taken out again, it drifts a little with each step."""
    model = with_adapters(demo_model, "bfloat16")
    before = {name: part.detach().clone() for name, part in model.named_parameters()}
    layer = model.base_model.model.model.layers[0].mlp.up_proj
    exact = layer.base_layer.weight.float() + layer.get_delta_weight("default").float()
    assert torch.equal(sent(model)["model.layers.0.mlp.up_proj.weight"], exact.bfloat16())
    assert all(torch.equal(part, before[name]) for name, part in model.named_parameters())


def test_weights_are_gathered_while_they_are_read(demo_model):
    gathered = []

    @contextlib.contextmanager
    def gather(parameters):
        gathered.append(len(parameters))
        yield

    assert len(sent(with_adapters(demo_model, "float32"), gather)) == len(gathered)
    assert {1, 3} == set(gathered)  # alone, or with both halves of its adapter


MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
SAMPLER = torch.full((2, 4), -2.0)
#: Differences of 0, 0.5, -1.5, 2; and of 0.1 and 0.1, then padding.
TRAINER = torch.tensor([[-2.0, -1.5, -3.5, 0.0], [-1.9, -1.9, 9.0, 9.0]])


def gap_of(trainer=TRAINER, sampler=SAMPLER, mask=MASK, by_sequence=False):
    """The gap where TRL cuts ratios of tokens off at 3, or leaves completions with a ratio above 3 out."""
    difference = (trainer - SAMPLER) * MASK
    ratio = torch.exp(difference.sum(1, keepdim=True) if by_sequence else difference)
    cut = ratio.masked_fill(ratio > 3.0, 0.0) if by_sequence else ratio.clamp(max=3.0)
    return sampling_gap(trainer, sampler, mask, cut, by_sequence)


def test_gap_and_what_is_cut_off():
    """A completion's ratio counts for all its tokens."""
    by_token, by_sequence = gap_of(), gap_of(by_sequence=True)
    assert by_token["sampling_gap"] == by_sequence["sampling_gap"] == pytest.approx([1.0, 0.1])
    assert by_token["sampling_corrected"] == [0.25, 0.0]  # exp(2) alone is over 3
    assert by_sequence["sampling_corrected"] == [0.0, 0.0]  # exp(1) and exp(0.2)
    assert gap_of(TRAINER + 0.5 * MASK, by_sequence=True)["sampling_corrected"] == [1.0, 1.0]


def test_a_token_without_a_log_probability_and_a_completion_that_is_masked_have_no_gap():
    sampler = SAMPLER.clone()
    sampler[0, 3] = math.nan
    gap = gap_of(sampler=sampler, mask=MASK * torch.tensor([[1], [0]]))
    assert gap["sampling_gap"] == pytest.approx([0.5, math.nan], nan_ok=True)
    assert math.isnan(gap["sampling_corrected"][1])


@pytest.mark.parametrize("large", [0.11, math.nan])
def test_gaps_beyond_rounding_end_the_run_at_the_third_in_a_row(large):
    watch = GapWatch({"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None})
    for step, gap in enumerate([large, large, 0.05, large, large], start=1):
        watch.see(gap, step)
    with pytest.raises(StudyError, match=r"launch\.vllm: for 3 generations in a row, up to step 6, vLLM's log-probab"):
        watch.see(large, 6)


@pytest.mark.parametrize("setting", [{"top_p": 0.9}, {"generation_kwargs": {"stop": "x"}}])
def test_where_vllm_samples_from_a_cut_distribution_no_gap_ends_a_run(setting):
    watch = GapWatch(setting)
    for step in range(1, 9):
        watch.see(1.0, step)
    assert watch.in_a_row == 0


def test_the_default_correction_is_by_token(tmp_path):
    """A bound on the product of all ratios would leave long completions out more often than short ones."""
    default = grpo_config({}, tmp_path, 0, on_cpu=True, vllm=VllmSpec(mode="colocate", tensor_parallel_size=1))
    assert default.vllm_importance_sampling_mode == "token_truncate"
