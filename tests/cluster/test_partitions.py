import pytest

from reward_ablation.cluster.slurm import gpus_of, minutes_of


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1-00:00:00", 1440),
        ("00:05:00", 5),
        ("7-12:30:00", 7 * 1440 + 750),
        ("UNLIMITED", None),
        ("100:00:00", 6000),
    ],
)
def test_limits_in_minutes(text, minutes):
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", {}),
        ("gpu:4", {"": 4}),
        ("gpu:h200:2", {"h200": 2}),
        ("gpu:a100:4(S:0-1),gpu:v100:2(S:1)", {"a100": 4, "v100": 2}),
        ("shard:h100:16,gpu:h100:1", {"h100": 1}),
        ("gpu:nvidia_a100-sxm4-80gb:8", {"nvidia_a100-sxm4-80gb": 8}),
        ("gpu:1g.10gb:7", {"1g.10gb": 7}),
        ("craynetwork:4,gpu:2", {"": 2}),
        ("mygpu:3", {}),
    ],
)
def test_gpus_of_a_node(gres, gpus):
    assert gpus_of(gres) == gpus
