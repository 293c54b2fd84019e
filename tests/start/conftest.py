"""Shared by the tests of a start: a finished study."""

from __future__ import annotations

import pytest

from reward_ablation.study.resolve import resolve

from .left_behind import LeftBehind


@pytest.fixture
def left(config, tmp_path):
    """The finished study of the config on two GPUs, with a metric of its own."""
    config["launch"] = {"gpus": 2}
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    left.finish_all()
    return left
