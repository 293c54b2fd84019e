"""Real weights. The tests run if `python tests/real/smollm2.py` has made them."""

from __future__ import annotations

import pytest

from real.smollm2 import FOLDER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no weights; `python tests/real/smollm2.py` makes them (93 MB)"),
]


@pytest.fixture(scope="module")
def tokenizer():
    from reward_ablation.sampling.tokenizer import load_tokenizer

    return load_tokenizer(FOLDER)


def test_text_survives_the_tokenizer_with_a_token_for_each_digit(tokenizer):
    text = "  a\n\n12345 + 6 \\boxed{72} café ▁ 你好 ٣٤ tabs\tand  blanks "
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.tokenize("x 2026") == ["x", "Ġ", "2", "0", "2", "6"]


def test_a_chat_ends_where_the_model_ends_its_turn(tokenizer):
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_token == tokenizer.pad_token == "<|im_end|>"


def test_it_knows_a_capital(tokenizer):
    """Garbled weights know none."""
    from reward_ablation.config.study_config import Evaluation, Prompt
    from reward_ablation.evaluation.generate import find_end_tokens, generate_transformers
    from reward_ablation.evaluation.requests import list_requests
    from reward_ablation.models.load import load_model
    from reward_ablation.sampling.prompts import DATE, render_prompt, tokenize_prompts

    evaluation = Evaluation(answer_format="boxed", max_new_tokens=16)
    prompts = tokenize_prompts([render_prompt("What is the capital of France?", Prompt())], tokenizer, DATE)
    requests = list_requests(["france"], prompts, evaluation)
    end_tokens = find_end_tokens(FOLDER, tokenizer)
    (completion,) = generate_transformers(requests, load_model(FOLDER), end_tokens, tokenizer.pad_token_id, evaluation)
    assert "Paris" in tokenizer.decode(completion.ids)
    assert not completion.truncated
