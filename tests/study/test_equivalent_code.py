"""Code whose digest is declared equivalent still makes the bytes of its class."""

import hashlib
import json

import pytest

from reward_ablation.data.word_problems import generate
from reward_ablation.models.demo import build_tokenizer
from reward_ablation.models.demo_teacher import examples
from reward_ablation.study.core_digest import equivalents, first_of_class, present_digest


def sha(value) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


#: SHA-256 of what the first code of each class makes.
MADE = {
    "word_problems": (
        lambda: [generate(300, 7, split) for split in ("train", "test", "warm_start")],
        "23afa3b79881f8280617881bb8223ad53d12c5d014f1ac9b8007aad92612a7a0",
    ),
    "demo_model": (lambda: list(examples(300, 7)), "f65743d581449e4506874b338f01361c01090798ec3e47d808193f11cfd7f347"),
    "demo_model: tokenizer": (
        lambda: json.loads(build_tokenizer().backend_tokenizer.to_str()),
        "a46fb2e6cf0955a0b2db082db19f47498eaf7eb5d356cc640bb506ad492231c6",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_the_code_of_a_class_makes_the_same_bytes(name):
    make, digest = MADE[name]
    assert sha(make()) == digest


@pytest.mark.parametrize("name", sorted(equivalents()))
def test_the_present_code_is_in_a_class(name):
    now = present_digest(name)
    assert first_of_class(name, now) != now, (
        f"{name}: the code has the digest {now}, which is in no class of study/equivalent_code.json. Where the code"
        " makes the same bytes as before, show so and add the digest to the class. Where it does not, studies are "
        "made again: say so in CHANGELOG.md, and remove the old class and its row of this table"
    )
