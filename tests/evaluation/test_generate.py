import itertools

import pytest
import torch
from transformers import GenerationConfig, MistralConfig, MistralForCausalLM, TopPLogitsWarper

from reward_ablation.config.sections.data import Prompt
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.generate import choose_backend, find_end_tokens, generate_transformers
from reward_ablation.evaluation.requests import cut_at_end, list_requests, request_seed
from reward_ablation.sampling.draws import draw, uniforms
from reward_ablation.sampling.prompts import DATE, render_prompt, tokenize_prompts
from reward_ablation.system.errors import StudyError

EVALUATION = Evaluation(answer_format="hash", samples=3, max_new_tokens=24, batch_size=7)
CHAT, PLAIN = Prompt(chat=True, system="think"), Prompt(chat=False, template="{question}\n")


@pytest.fixture(scope="module")
def prompts(problems, tokenizer):
    """Chats and plain texts in turn."""
    chats = tokenize_prompts([render_prompt(text, CHAT) for text in problems["question"]], tokenizer, DATE)
    plain = tokenize_prompts([render_prompt(text, PLAIN) for text in problems["question"]], tokenizer, DATE)
    return [pair[number % 2] for number, pair in enumerate(zip(chats, plain, strict=True))]


@pytest.fixture(scope="module")
def generate(model, tokenizer, problems):
    def run(prompts, **changes):
        evaluation = EVALUATION.model_copy(update=changes)
        requests = list_requests(problems["id"], prompts, evaluation)
        return requests, generate_transformers(
            requests, model, [tokenizer.eos_token_id], tokenizer.pad_token_id, evaluation
        )

    return run


def answers(requests, completions):
    return {
        (request.problem_id, request.mode, request.sample): completion.ids
        for request, completion in zip(requests, completions, strict=True)
    }


# ---------------------------------------------------------------------------- draw


def test_draws_follow_the_distribution():
    logits = torch.tensor([[1.0, -2.0, -torch.inf, 0.0, 3.0]])
    points = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000  # every quantile once
    for temperature in (0.5, 1.0, 2.0):
        tokens = draw(logits.expand(10_000, -1), points, temperature, top_p=1.0)
        frequency = torch.bincount(tokens, minlength=5) / 10_000
        torch.testing.assert_close(frequency, torch.softmax(logits[0] / temperature, 0), atol=2e-4, rtol=0)
    logits = torch.full((1, 1000), -torch.inf)  # impossible tokens at both ends and between
    logits[0, 300:700:2] = 0.0
    for number in (0.0, 0.5, 1 - 2**-53):  # no number draws an impossible token
        (token,) = draw(logits, torch.tensor([number], dtype=torch.float64), 1.0, top_p=1.0)
        assert logits[0, token] == 0.0


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.99])
def test_top_p_keeps_the_tokens_that_transformers_keeps(top_p):
    logits = torch.randn(8, 30, generator=torch.Generator().manual_seed(0)) * 2
    kept = TopPLogitsWarper(top_p)(None, logits) > -torch.inf
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    for row in range(8):
        tokens = draw(logits[row].expand(20_000, -1), points, 1.0, top_p)
        assert set(tokens.tolist()) == set(kept[row].nonzero()[:, 0].tolist())


# ---------------------------------------------------------------------------- generate


def test_greedy_answers_are_those_of_each_prompt_alone(model_folder, prompts, tokenizer, generate):
    """The reference: transformers' own greedy search, one unpadded prompt at a time."""
    from reward_ablation.models.load import load_model

    reference = load_model(model_folder)
    reference.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, max_new_tokens=24)
    expected = [
        cut_at_end(reference.generate(torch.tensor([prompt]))[0, len(prompt) :].tolist(), [tokenizer.eos_token_id])
        for prompt in prompts
    ]
    _, completions = generate(prompts, samples=0, batch_size=3)
    assert completions == expected


def test_samples_are_those_of_a_plain_loop(model, prompts, tokenizer, generate):
    """The reference: the whole text through the model for each token, and a draw with the request's numbers."""
    requests, completions = generate(prompts, greedy=False, samples=1, temperature=0.8, top_p=0.9)
    for request, completion in zip(requests, completions, strict=True):
        ids = list(request.prompt)
        for number in torch.from_numpy(uniforms(request_seed(request, EVALUATION.seed), 24)):
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([ids])).logits[:, -1]
            ids.append(draw(logits, number[None], 0.8, 0.9).item())
        assert cut_at_end(ids[len(request.prompt) :], [tokenizer.eos_token_id]) == completion


def test_waiting_requests_take_the_places_of_those_that_have_ended(model, prompts, generate):
    shapes = []
    hook = model.register_forward_pre_hook(
        lambda _, __, named: shapes.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    requests, completions = generate(prompts, batch_size=8)
    hook.remove()
    assert max(rows for rows, _ in shapes) <= 8
    prefills = [number for number, (_, columns) in enumerate(shapes) if columns > 1]
    steps = [later - earlier for earlier, later in itertools.pairwise(prefills)]
    assert min(steps) < 23  # a batch that ran to its end would take 23 steps after its prefill
    whole = sum(
        8 * max(len(completion.ids) for completion in completions[start : start + 8])
        for start in range(0, len(requests), 8)
    )
    assert sum(rows for rows, columns in shapes if columns == 1) < 0.8 * whole


def test_samples_differ_from_each_other_and_with_the_seed(prompts, generate, tokenizer):
    everything = generate(prompts)
    for completion in everything[1]:
        assert completion.truncated == (tokenizer.eos_token_id not in completion.ids)
        assert len(completion.ids) == 24 if completion.truncated else completion.ids[-1] == tokenizer.eos_token_id
    # guards the other tests: both cases are among what they compare
    assert {completion.truncated for completion in everything[1]} == {True, False}
    first, second = answers(*everything), answers(*generate(prompts, seed=1))
    sampled = [key for key in first if key[1] == "sampled"]
    assert len({tuple(first[key]) for key in sampled}) == len(sampled)
    assert not any(first[key] == second[key] for key in sampled)
    assert all(first[key] == second[key] for key in first if key[1] == "greedy")


# ---------------------------------------------------------------------------- end tokens, backend


@pytest.mark.parametrize(("own", "expected"), [(None, [1]), (5, [1, 5]), ([7, 5], [1, 5, 7])])  # the tokenizer's is 1
@pytest.mark.parametrize("kind", [GenerationConfig, MistralConfig])
def test_end_tokens_are_the_model_s_and_the_tokenizer_s(tmp_path, tokenizer, kind, own, expected):
    kind(eos_token_id=own).save_pretrained(tmp_path)
    assert find_end_tokens(tmp_path, tokenizer) == expected
    # The end token of a model type ends nothing. Llama's is 2; TRL reads the folder's files alone.
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert find_end_tokens(tmp_path, tokenizer) == [1]


def test_vllm_is_not_chosen_where_it_cannot_run():
    assert choose_backend("auto", "cpu") == choose_backend("transformers", "cuda") == "transformers"
    with pytest.raises(StudyError, match=r"evaluation\.backend: vllm needs the package vllm and a GPU"):
        choose_backend("vllm", "cpu")


@pytest.mark.parametrize(
    ("window", "samples", "every", "batch_size"),
    [
        (None, 20, 12, 50),  # a completion may reach the limit beside one that joined late
        (6, 1, 8, 4),  # a windowed cache takes the next batch when the last request has ended
    ],
)
def test_batches_of_a_model_without_training_are_as_one_by_one(tokenizer, problems, window, samples, every, batch_size):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=len(tokenizer), num_key_value_heads=1, sliding_window=window, **sizes)
    model = MistralForCausalLM(config).eval()
    texts = tokenize_prompts([f"{question}\n" for question in problems["question"]], tokenizer, DATE)
    ends, completions = list(range(5, len(tokenizer), every)), []  # one in `every` tokens ends
    for size in (batch_size, 1):
        evaluation = EVALUATION.model_copy(update={"batch_size": size, "samples": samples})
        requests = list_requests(problems["id"], texts, evaluation)
        completions.append(generate_transformers(requests, model, ends, tokenizer.pad_token_id, evaluation))
    assert completions[0] == completions[1]
    assert window or {completion.truncated for completion in completions[0]} == {True, False}
    assert len({len(completion.ids) for completion in completions[0]}) > 2
