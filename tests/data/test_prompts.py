from pathlib import Path

import pytest
import trl
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from reward_ablation.config.sections.data import Prompt
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.system.errors import StudyError


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    """Characters, and a chat template that shows its roles."""
    vocabulary = {token: index for index, token in enumerate(["<unk>", "<end>", *"abcdefghijklmnopqrstuvwxyz12=?\n"])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()  # without it, a blank between any two tokens
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] + '=' + message['content'] + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant=' }}{% endif %}"
    )
    return tokenizer


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (Prompt(), [{"role": "user", "content": "1 {a}?"}]),
        (Prompt(system="s"), [{"role": "system", "content": "s"}, {"role": "user", "content": "1 {a}?"}]),
        (Prompt(chat=False), "1 {a}?"),
        # braces of the template and of the question are text
        (Prompt(chat=False, template=r"{question} \boxed{} {x}"), r"1 {a}? \boxed{} {x}"),
        (Prompt(chat=False, template="Q: {question}\nA:"), "Q: 1 {a}?\nA:"),
    ],
)
def test_a_question_becomes_a_prompt(prompt, expected):
    assert render_prompt("1 {a}?", prompt) == expected


def test_a_question_about_the_placeholder_is_not_expanded():
    assert render_prompt("what is {question}?", Prompt(chat=False, template="> {question}")) == "> what is {question}?"


def test_a_chat_goes_through_the_template_up_to_the_assistant_s_turn(tokenizer):
    prompts = [render_prompt(question, Prompt(system="s")) for question in ("1", "1 2?")]
    texts = tokenizer.batch_decode(tokenize_prompts(prompts, tokenizer))
    assert texts[0] == "system=s\nuser=1\nassistant="
    assert len(set(map(len, tokenize_prompts(prompts, tokenizer)))) == 2  # no padding


def test_plain_text_is_tokenized_as_it_is(tokenizer):
    assert tokenizer.batch_decode(tokenize_prompts(["ab?", "1"], tokenizer)) == ["ab?", "1"]
    assert tokenize_prompts([], tokenizer) == []


def test_a_chat_needs_a_chat_template(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(StudyError, match=r"prompt\.chat: .* has no chat template; set chat: false"):
        tokenize_prompts([render_prompt("1", Prompt())], tokenizer)


def test_a_prompt_without_a_token_is_refused(tokenizer):
    with pytest.raises(StudyError, match="empty prompt"):
        tokenize_prompts(["a", ""], tokenizer)


@pytest.mark.parametrize("kwargs", [None, {}, {"enable_thinking": True}, {"enable_thinking": False}], ids=str)
def test_a_real_template_gets_the_study_s_kwargs_as_trl_gives_them(tokenizer, kwargs):
    """Qwen3's own template, as TRL ships it: without thinking, it opens the turn with an empty thought."""
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    messages = render_prompt("how many", Prompt(system="be brief"))
    [ids] = tokenize_prompts([messages], tokenizer, kwargs)
    expected = trl.apply_chat_template({"prompt": messages}, tokenizer, **(kwargs or {}))["prompt"]
    assert ids == tokenizer(expected)["input_ids"]
    assert ("<think>" in expected) == (kwargs == {"enable_thinking": False})
