"""`reward-ablation budget` without Snakemake: its output, its file, and refused values."""

import pytest
import yaml

from configs import changed
from reward_ablation.start.budget import HEADER, budget
from reward_ablation.start.decide import PresentInputs
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

STATED = {"hours": 20, "run_hours": 1.0, "seed_sd": 0.02, "questions": 200}


@pytest.fixture
def three_arms(config):
    """Arms a, b and c without GPUs, compared with a."""
    config["launch"] = {"gpus": 0}
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    return config


def asked(config, root, **keys):
    """The text; a key of None is not stated."""
    study = resolve(config, "study.yaml", root)
    stated = {name: value for name, value in {**STATED, **keys}.items() if value is not None}
    return budget(study, PresentInputs(study), stated)


def seeds_in(text):
    return yaml.safe_load(text[text.index(HEADER) :])["arms"]["seeds"]


def test_before_any_run_stated_values_count(three_arms, tmp_path):
    text = asked(three_arms, tmp_path, write="plans/budget.yaml")
    assert "20 hours for 2 primary contrasts, so that the widest is narrowest" in text
    assert "variances: stated (seed_sd 0.02)" in text
    assert "hours: stated: 1 for each run with its evaluations" in text
    assert "b against a" in text
    assert "ten more hours: the widest interval ±" in text
    assert "which would borrow no variance from them" in " ".join(text.split())
    written = (tmp_path / "plans" / "budget.yaml").read_text()
    assert written.rstrip() in text
    seeds = yaml.safe_load(written)["arms"]["seeds"]
    assert sum(map(len, seeds.values())) == 20
    assert seeds["a"] == list(range(len(seeds["a"])))
    three_arms["arms"] |= yaml.safe_load(written)["arms"]  # as Snakemake merges several files
    assert len(resolve(three_arms, "study.yaml", tmp_path).runs) == 20


def test_what_the_hours_do_not_pay_for_is_left_out(three_arms, tmp_path):
    text = asked(three_arms, tmp_path, hours=5)
    assert "the hours do not pay for two seeds of all arms" in text
    assert sorted(map(len, seeds_in(text).values())) == [0, 2, 3]


def test_arms_in_no_declared_contrast_are_left_out(three_arms, tmp_path):
    three_arms["statistics"] = {"seed_variance": "per_arm"}
    changed(three_arms, "primary", {"contrasts": [{"arm": "b", "against": "a"}]})
    text = " ".join(asked(three_arms, tmp_path, seed_sd=None).split())
    assert "left out: c: in no primary contrast" in text
    assert "seed_sd is a default, since nothing says how much seeds differ" in text
    assert "which would borrow no variance from them" not in text


def test_arms_of_one_spec_share_their_runs(three_arms, tmp_path):
    three_arms["arms"]["arms"]["again"] = three_arms["arms"]["arms"]["b"]
    text = asked(three_arms, tmp_path, hours=12)
    assert "the runs of b" in text
    seeds = seeds_in(text)
    assert seeds["again"] == seeds["b"]
    assert len(seeds["a"] + seeds["b"] + seeds["c"]) == 12


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"hours": None}, "hours"),
        ({"run_hours": None}, "run_hours"),
        ({"hours": 3}, "hours: 3 hours do not pay for two seeds of each arm that is needed; the least is 4"),
        ({"gpu_hours": 3}, "--gpu-hours: the study has no GPU: launch.gpus is 0; state --hours 40"),
        ({"weights": 3}, "weights: write a number for each arm"),
        ({"weights": {"a": 3}}, "weights: 'a' is not an arm of a primary contrast; arms: b, c"),
        ({"write": "../budget.yaml"}, "write: .* is not a YAML file below this folder"),
        ({"write": "study.yaml"}, "--write: study.yaml exists, and this command did not write it"),
    ],
)
def test_bad_values_are_refused_in_a_line(three_arms, tmp_path, keys, says):
    (tmp_path / "study.yaml").write_text("name: study\n")
    with pytest.raises(StudyError, match=says) as error:
        asked(three_arms, tmp_path, **keys)
    assert "\n" not in str(error.value)


def test_looks_decide_the_seeds_of_a_sequential_study(three_arms, tmp_path):
    three_arms["seeds"] = {"looks": [2, 3, 5]}
    with pytest.raises(StudyError, match=r"^budget: seeds\.looks decide .* write seeds as a list$"):
        asked(three_arms, tmp_path, write="budget.yaml")
