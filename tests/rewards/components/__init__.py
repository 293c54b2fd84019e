"""Tests of the components."""

from pathlib import Path

JUDGE_TEMPLATE = str(Path(__file__).parents[3] / "config" / "templates" / "judge.txt")

#: For components with parameters that have no default.
EXAMPLE_PARAMETERS = {
    "token_length": {"target": 40, "width": 20},
    "cosine_length": {"max_len": 100},
    "soft_overlong": {"max_completion_len": 100, "soft_punish_cache": 20},
    "judge": {"model": "judge", "template": JUDGE_TEMPLATE, "endpoint": "http://127.0.0.1:9/v1"},
}
