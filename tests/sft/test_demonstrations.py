"""Demonstrations have the same prompts as rollouts, and end like rollouts."""

import pytest

from reward_ablation.config.sections.data import Prompt
from reward_ablation.sampling.prompts import DATE, render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.sft.demonstrations import completions_of, tokenized
from reward_ablation.system.errors import StudyError

ROWS = [{"id": f"r{n}", "answer": str(n), "solution": f"it is {n}"} for n in range(4)]
#: As Qwen's: a line end after the token that ends a turn.
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if shy is defined %}...{% endif %}{% endif %}"
)


def test_rows_take_the_templates_in_turn():
    templates = ["{solution}", r"\boxed{{answer}}", "{solution}: {answer}"]
    assert completions_of(ROWS, templates) == ["it is 0", r"\boxed{1}", "it is 2: 2", "it is 3"]


@pytest.mark.parametrize(
    ("solution", "template", "shown"),
    [
        ("She has 9*8=<<9*8=72>>72 eggs.\r\n#### 1,200 ", "<{working}>", "<She has 9*8=72 eggs.>"),
        ("#### 72", "<{working}>", "<>"),
        ("#### in the midst\nthen more", "<{working}>", "<#### in the midst\nthen more>"),
        ("write {answer} or {solution}", "{solution}", "write {answer} or {solution}"),
    ],
)
def test_a_solution_is_shown_whole_or_without_its_answer_and_has_no_placeholders(solution, template, shown):
    assert completions_of([{"id": "a", "answer": "72", "solution": solution}], [template]) == [shown]


@pytest.mark.parametrize("solution", [None, " \n"])
def test_a_row_without_a_solution_is_told_by_its_id(solution):
    rows = [ROWS[0], {"id": "mine/7", "answer": "7", "solution": solution}]
    for template in ("{solution}", "{working}: {answer}"):
        with pytest.raises(StudyError, match="mine/7 has no solution"):
            completions_of(rows, [template])
    assert completions_of(rows, ["{solution}", "{answer}"]) == ["it is 0", "7"]


@pytest.fixture
def tokenizer(tiny_model):
    tokenizer = load_tokenizer(tiny_model)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.mark.parametrize("prompt", [Prompt(chat=False, template="{question}\n12"), Prompt(system="Think.")])
@pytest.mark.parametrize("completion", ["34 is it", "34 is it<end>"])
def test_prompts_are_grpos_and_the_end_token_comes_once(tokenizer, prompt, completion):
    r"""Also where prompt and completion would share a token: 12 and 34 as one text are the number 1234."""
    prompts = [render_prompt(question, prompt) for question in ("What is 12?", "And 345, then?")]
    rows = tokenized(prompts, [completion] * 2, tokenizer, DATE, {"shy": True})
    expected = tokenize_prompts(prompts, tokenizer, DATE, {"shy": True})
    for row, ids in zip(rows, expected, strict=True):
        assert row["input_ids"][: len(ids)] == ids
        assert row["completion_mask"] == [0] * len(ids) + [1] * (len(row["input_ids"]) - len(ids))
        assert tokenizer.decode(row["input_ids"][len(ids) :]) == completion.removesuffix("<end>") + "<end>"
        assert row["input_ids"][-1] == tokenizer.eos_token_id


def test_a_model_without_an_end_token_is_told(tokenizer):
    tokenizer.eos_token = None
    with pytest.raises(StudyError, match="no eos_token"):
        tokenized(["a"], ["b"], tokenizer, DATE)
