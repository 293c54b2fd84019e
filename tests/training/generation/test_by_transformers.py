"""transformers draws each rollout by its own seed, from the distribution that its own sampling has."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig, LogitsProcessorList
from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config
from trl import GRPOConfig

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.generation.by_transformers import must_stay_whole, own_draws, penalties, warpers

SAMPLING = {"temperature": 0.7, "top_k": 12, "top_p": 0.9, "min_p": 0.05}


@pytest.fixture(scope="module")
def model(demo_model):
    return load_model(demo_model)


@pytest.fixture(scope="module")
def config(demo_model):
    tokenizer = load_tokenizer(demo_model)
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    return GenerationConfig(max_new_tokens=16, do_sample=True, top_k=0, disable_compile=True, **ends)


@pytest.fixture(scope="module")
def prompts(demo_model):
    tokenizer = load_tokenizer(demo_model)
    return tokenizer(["Tom has 3 apples. How many?\n", "Ann buys 4 pens.\n"], return_tensors="pt", padding=True)


@pytest.mark.parametrize("changes", [{}, SAMPLING, {"top_p": 0.5}, {"min_p": 0.2}])
def test_the_distribution_is_that_of_its_own_sampling(model, changes):
    config = GenerationConfig(do_sample=True, **{"top_k": 0, **changes})
    logits = torch.randn(8, 50, generator=torch.Generator().manual_seed(0)) * 3
    config._eos_token_tensor = None
    theirs = model._get_logits_processor(config, input_ids_seq_length=1, logits_processor=LogitsProcessorList())
    expected = torch.softmax(theirs(None, logits.clone()), -1)
    torch.testing.assert_close(torch.softmax(LogitsProcessorList(warpers(config))(None, logits.clone()), -1), expected)


def test_neighbours_and_the_global_stream_change_no_rollout(model, config, prompts):
    seeds = [7, 8]
    with own_draws(model, config, seeds):
        together = model.generate(**prompts, generation_config=config)
    torch.manual_seed(99)
    alone = []
    for row, seed in enumerate(seeds):
        with own_draws(model, config, [seed]):
            one = {name: values[row : row + 1] for name, values in prompts.items()}
            alone.append(model.generate(**one, generation_config=config)[0])
    for row, of_one in enumerate(alone):
        assert together[row, : len(of_one)].tolist() == of_one.tolist()


def test_the_penalty_is_on_the_tokens_that_occur_and_not_on_padding():
    config = GenerationConfig(repetition_penalty=2.0, pad_token_id=0)
    (penalty,) = penalties(config)
    scores = penalty(torch.tensor([[0, 0, 3, 1], [2, 0, 3, 3]]), torch.tensor([[1.0, 1.0, 1.0, -1.0]] * 2))
    assert scores.tolist() == [[1.0, 0.5, 1.0, -2.0], [0.5, 1.0, 0.5, -2.0]]
    assert penalties(GenerationConfig(repetition_penalty=1.0)) == []


def test_seeds_make_rollouts_of_one_prompt_differ(model, config, prompts):
    group = {name: values[:1].repeat(6, 1) for name, values in prompts.items()}
    with own_draws(model, config, list(range(6))):
        rows = model.generate(**group, generation_config=config).tolist()
    assert len(set(map(tuple, rows))) == 6


#: What the files of models may ask for. transformers merges it into each call of generate that leaves it open.
ASKED = {"no_repeat_ngram_size": 1, "min_new_tokens": 15, "num_beams": 2, "suppress_tokens": [*range(3, 60)]}
ASKED |= {"guidance_scale": 3.0, "stop_strings": ["a"], "remove_invalid_values": True}


@pytest.mark.parametrize("adapted", [False, True])
def test_a_models_own_settings_change_no_rollout(demo_model, config, prompts, adapted):
    model = load_model(demo_model)
    if adapted:
        model = get_peft_model(model, LoraConfig(r=2, init_lora_weights=False, target_modules=["q_proj"]))
    with own_draws(model, config, [1, 2]):
        expected = model.generate(**prompts, generation_config=config)
    base = model.get_base_model() if adapted else model
    own = base.generation_config = GenerationConfig(**ASKED)
    with own_draws(model, config, [1, 2]):
        assert model.generate(**prompts, generation_config=config).tolist() == expected.tolist()
    assert base.generation_config is own


def test_nothing_is_left_behind(model, config, prompts):
    own = model.generation_config
    with pytest.raises(KeyboardInterrupt), own_draws(model, config, [1, 2]):
        raise KeyboardInterrupt
    assert config.do_sample
    assert model.generation_config is own
    torch.manual_seed(0)
    first = model.generate(**prompts, generation_config=config)
    torch.manual_seed(1)
    assert first.tolist() != model.generate(**prompts, generation_config=config).tolist()


def rows_per_call(model, config, group, whole):
    """Rollouts, and the number of rows in each forward pass of the model."""
    rows = []
    hook = model.register_forward_pre_hook(lambda _, __, named: rows.append(len(named["input_ids"])), with_kwargs=True)
    with own_draws(model, config, list(range(8)), whole):
        rollouts = model.generate(**group, generation_config=config).tolist()
    hook.remove()
    return rollouts, rows


def test_rows_that_have_ended_leave_and_a_prompt_runs_once_for_its_group(model, config, prompts):
    group = {name: values.repeat_interleave(4, 0) for name, values in prompts.items()}
    config = GenerationConfig(**{**config.to_dict(), "eos_token_id": list(range(5, 300, 4))})
    plain, of_plain = rows_per_call(model, config, group, whole=True)
    rollouts, rows = rows_per_call(model, config, group, whole=False)
    assert rollouts == plain
    assert set(of_plain) == {8}
    assert rows[0] == 2
    assert rows[-1] < 8


@pytest.mark.parametrize("case", ["plain", "generation_kwargs", "module", "function", "zero3"])
def test_what_looks_at_the_whole_batch_gets_it(demo_model, tmp_path, case):
    model = load_model(demo_model)
    kwargs = {"repetition_penalty": 1.2} if case == "generation_kwargs" else None
    args = GRPOConfig(str(tmp_path), generation_kwargs=kwargs, bf16=False, report_to=[])
    if case == "module":
        model = get_peft_model(model, LoraConfig(r=2, lora_dropout=0.1, target_modules=["q_proj"]))
    if case == "function":
        model.model.layers[0].self_attn.attention_dropout = 0.1
    zero3 = type("Zero3", (), {"is_zero3": lambda self: True})()  # transformers keeps only a weak reference
    if case == "zero3":
        set_hf_deepspeed_config(zero3)
    try:
        assert must_stay_whole(model, args) == (case != "plain")
    finally:
        unset_hf_deepspeed_config()
