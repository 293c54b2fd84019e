"""`reward-ablation power` and `budget` without Snakemake: refused values, their output, and their files."""

import pandas as pd
import pytest
import yaml

from analysis.made_up import MadeUpStudy
from configs import changed
from reward_ablation.start.budget import HEADER, budget
from reward_ablation.start.decide import PresentInputs
from reward_ablation.start.power import number, power, questions_of
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

#: Simulated studies: enough for words and shapes, too few for numbers.
FEW = 60


@pytest.fixture
def study(config, tmp_path):
    return resolve(config, "study.yaml", tmp_path)


def test_numbers_are_short_and_no_power_of_ten():
    assert [number(value) for value in (0, 0.0001, 0.02, -99.6)] == ["0.000", "0.0001", "0.020", "-100"]


def test_before_any_run_stated_values_count(study, tmp_path):
    text = power(study, {"seed_sd": 0.02, "effect": [0.1, 0.2]}, FEW)
    assert "variances: stated (seed_sd 0.02), usual values of mean, answer_sd, question_sd" in text
    assert "standard deviation 0.020 (stated, and taken as certain)" in text
    assert "fewest seeds for +0.2 with a power of 0.8: " in text
    assert "with twice the questions" in text
    assert "twice the samples" not in text  # greedy answers have one
    folder = tmp_path / "results" / "study" / "design"
    assert {path.name for path in folder.iterdir()} == {"power.csv", "power.pdf", "power.png"}
    table = pd.read_csv(folder / "power.csv")
    assert set(table["effect"]) == {0.1, 0.2}
    assert set(table["questions"]) == {10, 20}


def test_the_marked_row_has_the_seeds_of_the_two_arms(config, tmp_path):
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    config["arms"]["seeds"] = {"a": [*range(7)], "b": [*range(5)]}
    text = power(resolve(config, "study.yaml", tmp_path), {"seed_sd": 0.02, "effect": [0.1]}, FEW)
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("*  ")] == [["*", "5"], ["*", "2"]]
    assert "length with 5 seeds: " in text
    assert "*: the seeds of the two arms, the fewer where they differ" in text


def test_of_a_study_with_looks_the_row_of_the_last_look_is_marked(config, tmp_path):
    config["seeds"] = {"looks": [2, 4, 5]}
    text = power(resolve(config, "study.yaml", tmp_path), {"seed_sd": 0.02, "effect": [0.1]}, FEW)
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("*  ")] == [["*", "5"]]
    assert "The looks at 2, 4, 5 seeds are not counted" in " ".join(text.split())


def test_another_study_is_a_pilot(config, tmp_path):
    name = "pi\x1b[31mlot"
    MadeUpStudy(steps=1, rollouts=2, datasets={"test": 30}).write(tmp_path / name)
    text = power(resolve(config, "study.yaml", tmp_path), {"pilot": name}, FEW)
    assert "variances: pi\\x1b[31mlot\n" in text  # nothing reaches the terminal raw
    assert "two seeds say little" in text.replace("\n   ", "")
    assert "10 questions" in text  # this study's, not the pilot's


def test_a_pilot_of_one_arm_says_nothing_of_how_differences_vary(config, tmp_path):
    arms = {"alone": {"right": 1.0}}
    MadeUpStudy(arms=arms, steps=1, rollouts=2, datasets={"test": 30}).write(tmp_path / "pilot")
    study = resolve(config, "study.yaml", tmp_path)
    with pytest.raises(StudyError, match=r"two compared arms have finished runs, .* state --question-sd"):
        power(study, {"pilot": "pilot"}, FEW)
    assert "of a difference between questions: 0.300" in power(study, {"pilot": "pilot", "question_sd": 0.3}, FEW)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "no arm has two finished seeds.*add --pilot FOLDER"),
        ({"seed_sd": -0.1}, "--seed-sd: -0.1 is not a number above 0; state a number, such as --seed-sd 0.02"),
        ({"seed_sd": 0.02, "effect": [1.0]}, "--effect: state one to three effects, each below 1"),
        ({"seed_sd": 0.02, "mean": 1.2}, "mean: state a mean of the metric between 0 and 1"),
        ({"seed_sd": 0.02, "questions": 1.5}, r"questions: 1\.5 is not a number of questions"),
        ({"pilot": "nowhere"}, "pilot: nowhere: not a study's results folder"),
    ],
)
def test_bad_values_are_refused_in_a_line(study, keys, says):
    with pytest.raises(StudyError, match=says) as error:
        power(study, keys, FEW)
    assert "\n" not in str(error.value)


def test_the_size_of_a_data_set_is_stated_prepared_or_configured(study, config, tmp_path):
    assert questions_of(study, {"questions": 300}) == 300
    assert questions_of(study, {}) == 10
    [dataset] = study.datasets
    prepared = tmp_path / "results" / "study" / "data" / "evaluation" / f"{dataset}.parquet"
    prepared.parent.mkdir(parents=True)
    pd.DataFrame({"id": range(7)}).to_parquet(prepared)
    assert questions_of(study, {}) == 7
    changed(config, "data/evaluation/test", {"source": "gsm8k", "split": "test"})
    assert questions_of(resolve(config, "study.yaml", tmp_path), {}) is None


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


def test_the_chosen_seeds_are_written_and_make_a_study(three_arms, tmp_path):
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
def test_bad_values_of_a_budget_are_refused_in_a_line(three_arms, tmp_path, keys, says):
    (tmp_path / "study.yaml").write_text("name: study\n")
    with pytest.raises(StudyError, match=says) as error:
        asked(three_arms, tmp_path, **keys)
    assert "\n" not in str(error.value)


def test_looks_decide_the_seeds_of_a_sequential_study(three_arms, tmp_path):
    three_arms["seeds"] = {"looks": [2, 3, 5]}
    with pytest.raises(StudyError, match=r"^budget: seeds\.looks decide .* write seeds as a list$"):
        asked(three_arms, tmp_path, write="budget.yaml")
