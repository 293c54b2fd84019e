"""Rows that end leave the batch and others join it; each completion stays that of transformers' plain `generate`."""

import inspect

import pytest
import torch
import transformers

from reward_ablation.sampling.decode import Batch, decode
from reward_ablation.sampling.draws import SampleByRow, uniforms

PAD, ENDS, NEW = 0, [1, 2, 3, 4], 24
SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SMALL),
    "gpt2": transformers.GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64),
    "gemma3": transformers.Gemma3TextConfig(**SMALL, sliding_window=8, query_pre_attn_scalar=8),
    "mistral": transformers.MistralConfig(**SMALL, sliding_window=6),  # shorter than the text
    "openai-gpt": transformers.OpenAIGPTConfig(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64
    ),  # keeps no cache
    "mamba": transformers.MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4),
    "recurrent_gemma": transformers.RecurrentGemmaConfig(
        **SMALL, lru_width=16, attention_window_size=8, block_types=["recurrent", "attention"]
    ),
}
OPEN, CLOSED, WHOLE = ["llama", "gpt2"], ["gemma3", "mistral", "openai-gpt"], ["mamba", "recurrent_gemma"]


@pytest.fixture
def model(request):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[request.param], attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)  # logits must depend on the text
    return model


def prompts(lengths):
    """Padded prompts of these lengths; two in a row are equal where their lengths are."""
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        ids[row, -length:] = torch.randint(5, 40, (length,), generator=torch.Generator().manual_seed(length))
    return ids, (ids != PAD).long()


def start(model, lengths, seeds, custom_generate=None, processors=(), **settings):
    ids, mask = prompts(lengths)
    return model.generate(
        input_ids=ids,
        attention_mask=mask,
        generation_config=transformers.GenerationConfig(
            max_new_tokens=NEW, eos_token_id=ENDS, pad_token_id=PAD, **settings
        ),
        logits_processor=transformers.LogitsProcessorList([*processors, sample(seeds)]),
        custom_generate=custom_generate,
    )


def sample(seeds):
    return SampleByRow(torch.stack([torch.from_numpy(uniforms(seed, NEW)) for seed in seeds]))


def rows_per_call(model):
    """List that grows by the number of rows in each forward pass of the model."""
    rows = []
    model.register_forward_pre_hook(lambda _, __, named: rows.append(len(named["input_ids"])), with_kwargs=True)
    return rows


LENGTHS, SEEDS = [3, 9, 9, 5, 5, 5, 12, 1, 3, 7], range(10)


@pytest.mark.parametrize("model", CONFIGS, indirect=True)
def test_completions_are_those_of_plain_generate(model, request):
    plain = start(model, LENGTHS, SEEDS)
    assert len({tuple(row) for row in (plain[:, 12:] != PAD).tolist()}) > 3  # rows end at several places
    rows = rows_per_call(model)
    assert start(model, LENGTHS, SEEDS, decode).tolist() == plain.tolist()
    if request.node.callspec.params["model"] in WHOLE:  # it remembers outside the cache and keeps its rows
        assert set(rows) == {len(LENGTHS)}
    else:  # each prompt runs once, and rows that ended leave
        assert rows[:2] == [len(set(LENGTHS)), len(LENGTHS)]
        assert rows[-1] <= 3
        assert rows[1:] == sorted(rows[1:], reverse=True)


@pytest.mark.parametrize("model", OPEN, indirect=True)
def test_processors_hold_for_rows_that_outlast_others(model):
    settings = {"repetition_penalty": 1.5, "min_new_tokens": 6, "no_repeat_ngram_size": 2}
    plain = start(model, LENGTHS, SEEDS, **settings)
    assert plain.tolist() != start(model, LENGTHS, SEEDS).tolist()
    assert start(model, LENGTHS, SEEDS, decode, **settings).tolist() == plain.tolist()


@pytest.mark.parametrize("late", [[4, 4, 2], [15, 8, 20]], ids=["shorter", "longer"])
@pytest.mark.parametrize("model", OPEN, indirect=True)
def test_joined_rows_and_those_that_they_join_stay_as_they_were(model, late):
    processors = [transformers.RepetitionPenaltyLogitsProcessor(1.5), transformers.SuppressTokensLogitsProcessor([PAD])]
    expected = [
        start(model, [length], [seed], processors=processors)[0, length:].tolist()
        for length, seed in zip([*LENGTHS, *late], range(13), strict=True)
    ]
    batch = start(model, LENGTHS, SEEDS, Batch, processors)
    completions = {}
    while len(batch.ids) > 5:
        completions.update(batch.step())
    assert 0 < len(completions) < len(LENGTHS)
    ids, mask = prompts(late)
    other = batch.another(ids, mask, transformers.LogitsProcessorList([*processors, sample(range(10, 13))]))
    other.number += 10
    batch.join(other)
    while batch.running.any():
        completions.update(batch.step())
    assert [completions[number] for number in range(13)] == expected


@pytest.mark.parametrize(("names", "divisible", "joinable"), [(OPEN, 1, 1), (CLOSED, 1, 0), (WHOLE, 0, 0)])
def test_what_a_models_cache_permits(names, divisible, joinable):
    for name in names:
        batch = start(transformers.AutoModelForCausalLM.from_config(CONFIGS[name]), [3, 2], [0, 1], Batch)
        assert (batch.divisible, batch.open) == (divisible, joinable), name


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (transformers.GenerationMixin.generate, {"custom_generate", "logits_processor", "generation_config"}),
        (transformers.GenerationMixin.prepare_inputs_for_generation, {"next_sequence_length", "is_first_iteration"}),
        (transformers.GenerationMixin._update_model_kwargs_for_generation, {"outputs", "model_kwargs"}),
        (transformers.DynamicCache.__init__, {"config"}),
        (transformers.DynamicCache.batch_select_indices, {"indices"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_used_of_transformers_is_there(function, arguments):
    missing = arguments - inspect.signature(function).parameters.keys()
    assert not missing, f"sampling/decode.py passes {missing} to transformers' {function.__qualname__}"
    assert transformers.PreTrainedModel._is_stateful is False, (
        "sampling/decode.py reads _is_stateful of transformers' models"
    )
