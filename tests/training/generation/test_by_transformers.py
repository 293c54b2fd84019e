"""Each rollout has a seed of its own, by which transformers draws it from the distribution of its own sampling."""

from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig, LogitsProcessorList
from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.generation.by_transformers import must_stay_whole, own_draws, penalties, warpers
from reward_ablation.training.core.trainer import rollout_seeds


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


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.7, "top_k": 12, "top_p": 0.9, "min_p": 0.05}])
def test_the_distribution_is_that_of_its_own_sampling(model, changes):
    config = GenerationConfig(do_sample=True, **{"top_k": 0, **changes})
    logits = torch.randn(8, 50, generator=torch.Generator().manual_seed(0)) * 3
    config._eos_token_tensor = None
    theirs = model._get_logits_processor(config, input_ids_seq_length=1, logits_processor=LogitsProcessorList())
    expected = torch.softmax(theirs(None, logits.clone()), -1)
    torch.testing.assert_close(torch.softmax(LogitsProcessorList(warpers(config))(None, logits.clone()), -1), expected)


def test_neighbours_and_the_global_stream_change_no_rollout_and_another_seed_does(model, config, prompts):
    group = {name: values.repeat_interleave(3, 0) for name, values in prompts.items()}
    with own_draws(model, config, [*range(6)]):
        together = model.generate(**group, generation_config=config).tolist()
    assert len(set(map(tuple, together))) == 6
    torch.manual_seed(99)
    for row in (0, 3):
        with own_draws(model, config, [row]):
            one = {name: values[row : row + 1] for name, values in group.items()}
            alone = model.generate(**one, generation_config=config)[0].tolist()
        assert together[row][: len(alone)] == alone


def test_the_penalty_is_on_the_tokens_that_occur_and_not_on_padding():
    config = GenerationConfig(repetition_penalty=2.0, pad_token_id=0)
    (penalty,) = penalties(config)
    scores = penalty(torch.tensor([[0, 0, 3, 1], [2, 0, 3, 3]]), torch.tensor([[1.0, 1.0, 1.0, -1.0]] * 2))
    assert scores.tolist() == [[1.0, 0.5, 1.0, -2.0], [0.5, 1.0, 0.5, -2.0]]
    assert penalties(GenerationConfig(repetition_penalty=1.0)) == []


#: What the files of models may ask for. transformers merges it into each call of generate that leaves it open.
ASKED = {"no_repeat_ngram_size": 1, "min_new_tokens": 15, "num_beams": 2, "suppress_tokens": [*range(3, 60)]}
ASKED |= {"guidance_scale": 3.0, "stop_strings": ["a"], "remove_invalid_values": True}


def test_a_models_own_settings_change_no_rollout_and_nothing_is_left_behind(demo_model, config, prompts):
    model = load_model(demo_model)
    adapted = get_peft_model(model, LoraConfig(r=2, init_lora_weights=False, target_modules=["q_proj"]))
    own, before = GenerationConfig(**ASKED), config.to_dict()
    rollouts = []
    for settings in (model.generation_config, own):
        model.generation_config = settings
        with own_draws(adapted, config, [1, 2]):
            rollouts.append(adapted.generate(**prompts, generation_config=config).tolist())
    assert rollouts[0] == rollouts[1]
    with pytest.raises(KeyboardInterrupt), own_draws(adapted, config, [1, 2]):
        raise KeyboardInterrupt
    assert model.generation_config is own
    assert config.to_dict() == before
    assert "generate" not in vars(adapted)


def test_what_looks_at_the_whole_batch_gets_it(demo_model):
    model, plain = load_model(demo_model), SimpleNamespace(generation_kwargs=None)
    assert not must_stay_whole(model, plain)
    assert must_stay_whole(model, SimpleNamespace(generation_kwargs={"repetition_penalty": 1.2}))
    zero3 = type("Zero3", (), {"is_zero3": lambda self: True})()  # transformers keeps only a weak reference
    set_hf_deepspeed_config(zero3)
    try:
        assert must_stay_whole(model, plain)
    finally:
        unset_hf_deepspeed_config()
    model.model.layers[0].self_attn.attention_dropout = 0.1
    assert must_stay_whole(model, plain)
    assert must_stay_whole(torch.nn.Sequential(torch.nn.Dropout(0.1)), plain)


def test_run_step_problem_and_rollout_each_change_a_rollouts_seed_and_its_neighbours_do_not():
    runs = [rollout_seeds(run, step, ["a", "a", "b", "2/a"], [0, 1, 0, 0]) for run in (0, 1) for step in (1, 2, 12)]
    seeds = [seed for run in runs for seed in run]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert rollout_seeds(0, 1, ["b"], [0]) == runs[0][2:3]
    # Written down, since a change would change every rollout of every run.
    assert rollout_seeds(0, 3, ["a"], [0]) == [3942757702785726818]
