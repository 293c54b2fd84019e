"""Each instruction of IFEval on texts made by hand, strict and loose following, shares, and hostile data."""

from itertools import product

import pytest

from reward_ablation.rewards.components.instructions import (
    CHECKS,
    instructions,
    number_sentences,
    share_followed,
    variants,
)
from reward_ablation.system.errors import StudyError

from .instruction_cases import CASES


@pytest.mark.parametrize(("name", "kwargs", "text", "followed"), CASES)
def test_an_instruction(name, kwargs, text, followed):
    assert CHECKS[name](text, **kwargs) is followed


def test_each_instruction_has_a_text_that_follows_it_and_one_that_does_not():
    assert {(name, followed) for name, _, _, followed in CASES} == {*product(CHECKS, (True, False))}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Egg met Mr. Ham, i.e. J. Ham.", 1),
        ("It has 3.5 g of salt, etc. and more… of it. So it is", 2),
        ("1. Boil it.\n2. Eat it.", 2),  # the numbers are no sentences; in NLTK they are
        ('"Why?" he asked. "Why not!" "Well."', 3),
        ("**Bold.** (Brackets.) _Done._", 3),
        ("鸡蛋很好。我喜欢！你呢？", 3),
        ("See https://example.org/a.b?c=d! Yes.", 2),
    ],
)
def test_sentences(text, sentences):
    counts = [number_sentences(text, number, "at least") for number in (sentences, sentences + 1)]
    assert counts == [True, False]


NO_COMMA = {"id": "punctuation:no_comma", "kwargs": {}}
QUOTED = {"id": "startend:quotation", "kwargs": {}}
LANGUAGE = {"id": "language:response_language", "kwargs": {"language": "de"}}


def test_the_eight_texts_of_the_loose_accuracy():
    kept = ["Sure!\n*Eggs*.\nBye.", "*Eggs*.\nBye.", "Sure!\n*Eggs*.", "*Eggs*."]
    assert variants(kept[0]) == [*kept, *(text.replace("*", "") for text in kept)]


@pytest.mark.parametrize(
    ("text", "strict", "loose"),
    [
        ('"Eggs"', 1.0, 1.0),
        ('Sure, here it is:\n"Eggs"', 0.0, 1.0),
        # each instruction by a variant of its own, as in the paper
        ('"Sure\nEggs, ham"', 0.5, 1.0),
        ("", 0.0, 0.0),  # an empty text follows nothing, although it has no comma
    ],
)
def test_strict_and_loose(text, strict, loose):
    assert share_followed(text, [NO_COMMA, QUOTED], strict=True) == strict
    assert share_followed(text, [NO_COMMA, QUOTED], strict=False) == loose


def test_all_or_a_share():
    asked = [[NO_COMMA, QUOTED]] * 3
    texts = ['"Eggs"', "Eggs", "Eggs, ham"]
    assert instructions(texts, instructions=asked) == [1.0, 0.0, 0.0]
    assert instructions(texts, partial=True, instructions=asked) == [1.0, 0.5, 0.0]
    assert instructions(texts[:1], column="mine", mine=[[QUOTED]], instructions=[None]) == [1.0]
    # tables that hold all keywords for all instructions have None, and floats for whole numbers
    kwargs = {"num_words": 2.0, "relation": "at least", "letter": None}
    assert share_followed("Two eggs", [{"id": "length_constraints:number_words", "kwargs": kwargs}], strict=True) == 1.0


def test_what_is_not_checked_has_no_score_and_is_told_once(capsys):
    unknown = {"id": "nobodys:\x1b[31m", "kwargs": {}}
    asked = [[NO_COMMA, LANGUAGE], [LANGUAGE], [unknown], [NO_COMMA], [], None]
    for _ in range(2):
        assert instructions(["Eggs"] * 6, instructions=asked) == [None, None, None, 1.0, None, None]
    told = [line.split(" is not checked")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["instructions: 'language:response_language'", r"instructions: 'nobodys:\x1b[31m'"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("no_comma", "instructions: the column holds a str; it must hold a list of"),
        ([{"id": "punctuation:no_comma", "kwargs": [1]}], "'punctuation:no_comma': kwargs must be an object"),
        ([{"id": "punctuation:no_comma", "kwargs": {"x\n": 1}}], r"punctuation:no_comma: 'x\n': Unexpected keyword"),
        ([{"id": "startend:end_checker"}], "startend:end_checker: 'end_phrase': Missing required"),
        ([{"id": "keywords:existence", "kwargs": {"keywords": [""]}}], "'keywords.0': String should have at least 1"),
    ],
)
def test_data_that_are_no_instructions_are_refused_in_one_line(asked, message):
    with pytest.raises(StudyError) as refusal:
        share_followed("Eggs", asked, strict=True)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
