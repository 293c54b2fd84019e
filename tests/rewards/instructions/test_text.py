"""What counts as a sentence."""

import pytest

from reward_ablation.rewards.instructions.text import count_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", 0),
        ("...", 0),
        ("no mark", 1),
        ("One. Two! Three? Four", 4),
        ("all small. as some are asked to write. yes!", 3),
        ("Dr. Egg met Mr. Ham, i.e. J. Ham.", 1),
        ("It has 3.5 g of salt, pepper etc. and more. So it is.", 2),
        ("He lives in the U.S. today. She does not.", 2),
        ("1. Boil it.\n2. Eat it.", 2),  # the numbers are no sentences; in NLTK they are
        ("There were 12. Then more.", 2),
        ('"Why?" he asked. "Why not!" "Well."', 3),
        ("Wait... and see. Really?! Yes.", 3),
        ("**Bold.** (Brackets.) _Done._", 3),
        ("A heading\n\nThe text.", 1),  # as in NLTK
        ("鸡蛋很好。我喜欢！你呢？", 3),
        ("See https://example.org/a.b?c=d! Yes.", 2),
    ],
)
def test_sentences(text, sentences):
    assert count_sentences(text) == sentences
