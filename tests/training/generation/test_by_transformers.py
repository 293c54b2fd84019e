"""Each rollout has a seed of its own, by which transformers draws it from the distribution of its own sampling."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig, LogitsProcessorList
from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config
from trl import GRPOConfig

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
    rows = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        rows.append(model.generate(**prompts, generation_config=config).tolist())
    assert rows[0] != rows[1]


def test_rows_that_have_ended_leave_and_a_prompt_runs_once_for_its_group(model, config, prompts):
    group = {name: values.repeat_interleave(4, 0) for name, values in prompts.items()}
    config = GenerationConfig(**{**config.to_dict(), "eos_token_id": list(range(5, 300, 4))})
    rows, rollouts = {True: [], False: []}, {}
    for whole in rows:
        hook = model.register_forward_pre_hook(
            lambda _, __, named, whole=whole: rows[whole].append(len(named["input_ids"])), with_kwargs=True
        )
        with own_draws(model, config, list(range(8)), whole):
            rollouts[whole] = model.generate(**group, generation_config=config).tolist()
        hook.remove()
    assert rollouts[False] == rollouts[True]
    assert set(rows[True]) == {8}
    assert rows[False][0] == 2
    assert rows[False][-1] < 8


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


def test_run_step_problem_and_rollout_each_change_a_rollouts_seed_and_its_neighbours_do_not():
    runs = [rollout_seeds(run, step, ["a", "a", "b", "2/a"], [0, 1, 0, 0]) for run in (0, 1) for step in (1, 2, 12)]
    seeds = [seed for run in runs for seed in run]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert rollout_seeds(0, 1, ["b"], [0]) == runs[0][2:3]
    # Written down, since a change would change every rollout of every run.
    assert rollout_seeds(0, 3, ["a"], [0]) == [3942757702785726818]
