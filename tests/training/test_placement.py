"""The place of an answer in characters and in tokens, and the weights of advantages there."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from reward_ablation.models.demo import build_tokenizer
from reward_ablation.rewards.grading.extraction import extract
from reward_ablation.training.core.placement import MARKED, answer_span, answer_tokens, token_weights


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (r"so $\boxed{72}$.", r"\boxed{72}"),
        (r"\boxed{1} or rather \boxed{\frac{1}{2}} it is", r"\boxed{\frac{1}{2}}"),  # the last box, braces and all
        (r"\boxed{9}. Hence \boxed{1}, \boxed{2} and \boxed{3}.", r"\boxed{1}, \boxed{2} and \boxed{3}"),  # one answer
        (r"thus \boxed 7 apples", r"\boxed 7"),  # a bare number
        ("#### 71\nno\n####  $72 \nso", "####  $72"),  # the rest of the line, less the blanks at its end
        ("<answer>1</answer> hm <answer> 2 </answer>.", "<answer> 2 </answer>"),
        ("Final: 1\nFinal: 12 apples\nbye", "Final: 12 apples"),
        ("#### 5\n" + r"\boxed{6}", r"\boxed{6}"),  # a box comes before a hash line, wherever it stands
        ("t</think>t\n#### 2", "#### 2"),  # the text after it begins as the tag goes on
        (r"\boxed{7" + "\n#### 8", "#### 8"),  # a box that is cut off holds no answer
        ("<think>#### 1", None),  # never done thinking
        ("it is 72", None),  # a number without a marker
        ("", None),
    ],
)
def test_answer_span(text, span):
    found = answer_span(text)
    assert (found and text[slice(*found)]) == span
    if span is not None:
        assert found == (text.rindex(span), text.rindex(span) + len(span))  # the last one of that text


PIECES = [*"}{1é, \n", "\\boxed{", "####", "Final:", "<answer>", "</answer>", "<think>", "</think>"]


@example("\\boxed{\\boxed{}}")
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_span_holds_the_answer_and_nothing_of_another_line(text):
    """Whatever the text, the span is inside it, and the answer read from the span alone is that of the text."""
    answers = [extract(text, name) for name in MARKED]
    span = answer_span(text)
    if not any(answers):
        assert span is None
    else:
        name, answer = next((name, answer) for name, answer in zip(MARKED, answers, strict=True) if answer)
        assert 0 <= span[0] < span[1] <= len(text)
        assert extract(text[slice(*span)], name) == answer


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """All 256 bytes, and merges learnt from text with characters of two to four bytes, so that tokens cut them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["\\boxed{12} #### 12 <answer>€5</answer> Final: 😀é 日本"] * 50, trainer)
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")


BYTES = byte_level_tokenizer()


#: Bytes of the first 256 characters of GPT-2's table.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(PRINTABLE)))}


def tokens_over_bytes(ids, tokenizer) -> list[int]:
    """The tokens that write a byte of the answer: by adding up the tokens' own bytes, without any decoding."""
    names = ["" if token in tokenizer.all_special_ids else tokenizer.convert_ids_to_tokens(token) for token in ids]
    written = [bytes(BYTE_OF[char] for char in name) for name in names]
    text = b"".join(written).decode()
    span = answer_span(text)
    if span is None:
        return [len(ids) - 1]
    start, end = (len(text[:place].encode()) for place in span)
    ends = torch.tensor([len(part) for part in written]).cumsum(0).tolist()
    return [i for i, stop in enumerate(ends) if written[i] and stop > start and stop - len(written[i]) < end]


ANSWERS = ["\\boxed{%s}", "#### %s", "<answer>%s</answer>", "Final: %s", "\n#### %s\n", "%s"]


@settings(max_examples=80, deadline=None)
@given(
    st.text("a 1é€日😀{", max_size=8),
    st.sampled_from(ANSWERS),
    st.text("a 1é€日😀", max_size=5),
    st.text("\na 1é€日😀", max_size=8),
    st.lists(st.integers(0, 40), max_size=4),
)
@example("", "#### %s", "😀", "", [0, 100])  # split over four tokens at the very end, and the end token after it
def test_tokens_of_the_answer(before, answer, value, after, specials):
    """Characters that are split over tokens, before, in and after the answer; special tokens anywhere."""
    ids = BYTES.encode(before + answer % value + after) or BYTES.encode(" ")
    for position in specials:
        ids.insert(min(position, len(ids)), BYTES.eos_token_id)
    assert answer_tokens(ids, BYTES) == tokens_over_bytes(ids, BYTES)


def test_byte_fallback_tokens():
    """Vocabularies such as Llama 2's write a character that they lack as its bytes, each alone a broken character."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁": 256, "####": 257, "7": 258, "a": 259}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, unk_token="a"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    smile = list("😀".encode())
    ids = [259, *smile, 257, 256, 258, *smile, 10, 259]  # a😀#### 7😀\na
    assert answer_tokens(ids, fast) == list(range(5, 12))


def test_weights_of_a_completion_have_mean_one():
    tokenizer = build_tokenizer()
    ids = [*tokenizer.encode("9 * 8 = 72\n#### 72"), tokenizer.eos_token_id]
    assert [tokenizer.decode([token]) for token in ids[6:]] == ["####", " 72", "<|end|>"]
    for placement, weights, of_cut in (
        ("all_tokens", [1.0] * 9, [1.0] * 3),
        ("last_token", [0.0] * 8 + [9.0], [0.0, 0.0, 3.0]),  # the end token
        ("answer_span", [0.0] * 6 + [4.5, 4.5, 0.0], [0.0, 0.0, 3.0]),
    ):
        rows = token_weights(placement, [ids, ids[:3]], 11, tokenizer)  # the second is cut off before its answer
        assert rows.tolist() == [[*weights, 0.0, 0.0], of_cut + [0.0] * 8]  # padding follows, and gets nothing
