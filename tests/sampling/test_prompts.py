from pathlib import Path

import pytest
import trl
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from reward_ablation.config.sections.data import Prompt
from reward_ablation.sampling.prompts import DATE, render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError


@pytest.fixture
def tokenizer(tiny_model) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes whose chat template shows its roles."""
    tokenizer = load_tokenizer(tiny_model)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] + '=' + message['content'] + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant=' }}{% endif %}"
    )
    return tokenizer


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (Prompt(system="s"), [{"role": "system", "content": "s"}, {"role": "user", "content": "1 {question}?"}]),
        (Prompt(chat=False), "1 {question}?"),
        # braces of the template and of the question are text
        (Prompt(chat=False, template=r"{question} \boxed{} {x}"), r"1 {question}? \boxed{} {x}"),
    ],
)
def test_a_question_becomes_a_prompt(prompt, expected):
    assert render_prompt("1 {question}?", prompt) == expected


@pytest.mark.parametrize("kwargs", [None, {}, {"enable_thinking": True}, {"enable_thinking": False}], ids=str)
def test_a_real_template_gets_the_study_s_kwargs_as_trl_gives_them(tokenizer, kwargs):
    """Qwen3's own template, as TRL ships it: without thinking, it opens the turn with an empty thought."""
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    messages = render_prompt("how many", Prompt(system="be brief"))
    [ids] = tokenize_prompts([messages], tokenizer, DATE, kwargs)
    expected = trl.apply_chat_template({"prompt": messages}, tokenizer, **(kwargs or {}))["prompt"]
    assert ids == tokenizer(expected)["input_ids"]
    assert ("<think>" in expected) == (kwargs == {"enable_thinking": False})


@pytest.mark.parametrize(("date", "shown"), [(DATE, "26 Jul 2024"), ("2025-01-02", "02 Jan 2025")])
def test_a_template_that_asks_for_today_gets_the_study_s_date(tokenizer, date, shown):
    """Llama 3.2's own template, as TRL ships it: it writes today's date."""
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "llama3_2.jinja").read_text()
    tokenizer.bos_token = "<end>"
    messages = render_prompt("how many", Prompt(date=date))
    expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, date_string=shown)
    assert f"Today Date: {shown}\n" in expected
    assert tokenize_prompts([messages], tokenizer, date) == [tokenizer.encode(expected, add_special_tokens=False)]


def test_a_plain_prompt_begins_as_the_tokenizer_begins_and_ends_as_it_is_written(tokenizer):
    plain = tokenize_prompts(["ab?", "1"], tokenizer, DATE)
    assert tokenizer.batch_decode(plain) == ["ab?", "1"]
    processor = TemplateProcessing(single="<end> $A <end>", special_tokens=[("<end>", 0)])
    tokenizer.backend_tokenizer.post_processor = processor
    assert tokenizer("1")["input_ids"][-1] == 0
    assert tokenize_prompts(["ab?", "1"], tokenizer, DATE) == [[0, *ids] for ids in plain]
    with pytest.raises(StudyError, match=r"a prompt begins with '<end>', which the tokenizer puts before each prompt"):
        tokenize_prompts(["<end>ab?"], tokenizer, DATE)


def test_prompts_that_cannot_be_tokenized_are_refused(tokenizer):
    assert tokenize_prompts([], tokenizer, DATE) == []
    with pytest.raises(StudyError, match="the question '' became an empty prompt"):
        tokenize_prompts(["a", ""], tokenizer, DATE)
    with pytest.raises(StudyError, match="the question mine/7 became an empty prompt"):
        tokenize_prompts(["a", ""], tokenizer, DATE, ids=["mine/6", "mine/7"])
    tokenizer.chat_template = None
    with pytest.raises(StudyError, match=r"prompt\.chat: .* has no chat template; set chat: false"):
        tokenize_prompts([render_prompt("1", Prompt())], tokenizer, DATE)
