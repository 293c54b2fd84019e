"""A wrong name of an arm: the error names the arms, also of a study with hundreds."""

import pytest

from reward_ablation.config.arm_names import arms_here

MANY = [f"arm{number}" for number in range(300)]


@pytest.mark.parametrize(
    ("wrong", "arms", "message"),
    [
        ("no_fromat", ["full", "no_format"], "arms here: full, no_format"),
        ("arm_17", MANY, "did you mean arm17 or arm217 or arm197? there are 300 arms, such as arm0, arm1, arm2"),
        ("baseline", MANY, "there are 300 arms, such as arm0, arm1, arm2"),
    ],
)
def test_the_names_that_may_be_meant(wrong, arms, message):
    assert arms_here(wrong, arms) == message
