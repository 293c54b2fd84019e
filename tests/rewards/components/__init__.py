"""Tests of the components."""

from pathlib import Path

from .instruction_cases import CASES

JUDGE_TEMPLATE = str(Path(__file__).parents[3] / "config" / "templates" / "judge.txt")

#: For components with parameters that have no default.
EXAMPLE_PARAMETERS = {
    "reward_model": {"model": "models/taste"},
    "token_length": {"target": 40, "width": 20},
    "cosine_length": {"max_len": 100},
    "soft_overlong": {"max_completion_len": 100, "soft_punish_cache": 20},
    "judge": {"model": "judge", "template": JUDGE_TEMPLATE, "endpoint": "http://127.0.0.1:9/v1"},
}

#: A value of each further column of the data that a component asks for: all instructions that a text can follow.
FURTHER_COLUMNS = {
    "unit_tests": ["assert f(9, 8) == 72"],
    "instructions": [
        *({"id": name, "kwargs": kwargs} for name, kwargs, _, followed in CASES if followed),
        {"id": "keywords:forbidden_words", "kwargs": {"forbidden_words": ["a" * 40, "\\boxed{", "(a+)+$", "<"]}},
        {"id": "detectable_content:postscript", "kwargs": {"postscript_marker": "a" * 40 + "!"}},
    ],
}
