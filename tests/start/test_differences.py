"""Differences between two specs, in the words of a config."""

import pytest

from reward_ablation.start.differences import differences

SPEC = {
    "model": {"source": "hub", "id": "a/b", "revision": "7ae557604adf67be50417f59c2c2f167def9a775"},
    "data": {"source": {"source": "file", "path": "x.jsonl", "limit": None, "content": "0" * 64}, "overlap": "refuse"},
    "prompt": {"chat": True, "system": None},
    "components": {
        "format": {"function": "answer_format", "parameters": {"format": "hash"}, "placement": "all_tokens"},
        "mine": {"function": "mine.py:f", "parameters": {}, "placement": "all_tokens", "code": "0" * 16},
    },
    "training": {"max_steps": 100, "learning_rate": 1e-06},
    "lora": None,
    "gradients": {"every": 1},
    "gpus": 1,
    "weights": {"format": 0.33, "mine": 1},
}


def changed(path, value):
    *parents, last = path.split("/")
    spec = section = dict(SPEC)
    for key in parents:
        section[key] = dict(section[key])
        section = section[key]
    section[last] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("weights/format", 0.5, "format 0.33 → 0.5"),
        ("weights/new", 1, "new 0 → 1"),
        ("training/learning_rate", 2e-06, "learning_rate 1e-06 → 2e-06"),
        ("training/beta", 0.1, "beta (default) → 0.1"),
        ("components/format/parameters/format", "boxed", "component format: format hash → boxed"),
        ("components/format/placement", "last_token", "component format: placement all_tokens → last_token"),
        ("components/mine/code", "1" * 16, "component mine: its code changed"),
        ("components/new", {"function": "constant"}, "component new is new"),
        ("model/revision", "0" * 40, "model: revision 7ae55760 → 00000000"),
        ("data/source/limit", 10, "data: limit none → 10"),
        ("data/source/content", "1" * 64, "the training set changed"),
        ("data/overlap", "drop", "data: overlap refuse → drop"),
        ("prompt/chat", False, "prompt: chat true → false"),
        ("prompt/system", "Think. " * 20, "prompt: system none → Think. Think. Think. Think. Think. Thin…"),
        ("lora", {"r": 16}, "lora none → {'r': 16}"),
        ("gpus", 4, "gpus 1 → 4"),
    ],
)
def test_a_difference_in_words(path, value, words):
    assert differences(SPEC, changed(path, value)) == [words]


def test_equal_specs_have_no_difference():
    assert differences(SPEC, changed("gpus", 1.0)) == []


def test_weights_are_told_first():
    before, after = changed("training/beta", 0), changed("weights/mine", 0)
    assert differences(before, after) == ["mine 1 → 0", "beta 0 → (default)"]
