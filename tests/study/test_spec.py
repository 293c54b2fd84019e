"""Canonical JSON, and the typed specs."""

import json

import pytest
from pydantic import Field

from reward_ablation.spec.canonical import canonical, key_of
from reward_ablation.spec.parts import PromptSpec
from reward_ablation.spec.run import Layout, RunSpec
from reward_ablation.system.errors import StudyError
from specs import arm_spec


def test_equal_values_have_one_spelling():
    assert canonical({"b": 1.0, "a": [0.5, True, None]}) == canonical({"a": (0.5, True, None), "b": 1})
    assert canonical({"b": 1.0, "a": 1e22}) == '{"a":10000000000000000000000,"b":1}'
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical({"a": float("inf")})


def test_key_is_eight_hex_digits():
    assert key_of({"a": 1}) == "015abd7f"  # python -c 'hashlib.sha256(b"{\"a\":1}")'


SPEC = arm_spec(components={"a": {"function": "correctness"}}, weights={"a": 0.5}, seed=3)


def test_a_later_field_at_its_default_moves_no_key():
    class LaterPrompt(PromptSpec):
        suffix: str = ""

    class Later(RunSpec):
        prompt: LaterPrompt
        warm_up: dict[str, int] = Field(default_factory=dict)
        rewind: int | None = None

    text = RunSpec.read(SPEC).text
    assert Later.parse(text).text == text
    assert Later.parse(text).key == RunSpec.parse(text).key
    assert Later.read(SPEC | {"rewind": 2}).content() == RunSpec.parse(text).content() | {"rewind": 2}
    assert json.loads(Later.read(SPEC | {"prompt": SPEC["prompt"] | {"suffix": "!"}}).text)["prompt"]["suffix"] == "!"


def test_what_is_set_to_its_default_is_left_out_and_first_fields_are_always_written():
    spec = SPEC | {"processes": 1, "strategy": "ddp", "vllm": None, "keep_models": 0, "sft": None}
    spec["gradients"] = {"every": 1, "whole": [], "backward": "by_completion"}
    assert RunSpec.read(spec).text == RunSpec.read(SPEC).text
    assert RunSpec.read(SPEC).content() == SPEC  # the null of lora and of prompt.system included


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradients": {"every": 1, "whole": [], "each": 2}}, "--spec: gradients: unknown key 'each'; allowed: every"),
        ({"strategy": "fsdp"}, "--spec: strategy: fsdp: "),
    ],
)
def test_what_a_spec_does_not_have_is_refused_in_one_line(changes, message):
    with pytest.raises(StudyError, match=f"^{message}") as caught:
        RunSpec.read(SPEC | changes)
    assert "\n" not in str(caught.value)


def test_processes_gpus_and_packages_of_a_layout():
    server = {"mode": "server", "tensor_parallel_size": 2, "gpus": 2}
    served = Layout.read({"gpus": 4, "strategy": "zero2", "vllm": server})
    assert (served.process_count, served.server_gpus, served.has_server) == (4, 2, True)
    assert served.packages == ["vllm", "deepspeed"]
    assert (Layout.read({"gpus": 0, "processes": 3}).process_count, Layout.read({"gpus": 0}).packages) == (3, [])
