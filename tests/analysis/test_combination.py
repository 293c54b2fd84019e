"""Tables of methods of combination: of a made-up study, and sizes of advantages and weights by hand."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.combination import MOST_STEPS, RANGE, advantage_size, mean_squares, method_weights
from reward_ablation.combination.load import load_method
from reward_ablation.system.errors import StudyError
from reward_ablation.system.started_in import VARIABLE

ARMS = {name: {"a": 1.0, "b": 0.5} for name in ("static", "gradients", "limits")} | {"limits": {"a": 1.0, "b": 0.0}}
METHODS = {
    "gradients": {"method": "upgrad", "gram": "previous"},
    "limits": {"method": "schedule", "parameters": {"b": {"0": 0.0, "5": 1.0}}, "components": ["b"]},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    MadeUpStudy(arms=ARMS, methods=METHODS, steps=6, rollouts=16, problems=4, sample_grams=True).write(folder)
    return folder


@pytest.fixture(scope="module")
def tables(root):
    return made_tables(root, "combination")


def test_weights_are_those_of_the_arms_with_a_method_and_sizes_of_all_arms(tables):
    sizes = tables["advantage_size"].set_index("arm")
    assert sizes.index.tolist() == list(ARMS)
    assert (sizes["low"] <= sizes["estimate"]).all()
    weights = tables["method_weights"]
    assert weights["arm"].unique().tolist() == ["gradients", "limits"]
    of_b = weights[(weights["arm"] == "limits") & (weights["component"] == "b")].sort_values("step")
    assert of_b["weight"].tolist()[:6] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_the_baseline_would_have_done_what_it_did(tables):
    offline = tables["methods_offline"]
    assert offline["arm"].unique().tolist() == ["static"]
    cosines = offline[offline["quantity"] == "cosine"].set_index("method")["estimate"]
    assert cosines["static"] == pytest.approx(1.0, abs=1e-6)
    assert -1 <= cosines["gradients"] < 0.9999
    alone = offline[offline["method"] == "limits"].set_index(["quantity", "component"])["by_weights"]
    assert alone.loc["gain"].to_dict() == pytest.approx({"a": 1 / 3, "b": -1 / 3})
    assert alone["cosine"].isna().all()


def test_an_own_method_is_found_where_a_preview_was_typed(tmp_path, monkeypatch):
    """The tables of a preview are made in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def doubled(scores, groups, weights, state):\n    return 2 * scores, state\n")
    arms = dict.fromkeys(("static", "own"), ARMS["static"])
    methods = {"own": {"method": "mine.py:doubled"}}
    MadeUpStudy(arms=arms, methods=methods, steps=2, problems=2, sample_grams=True).write(tmp_path)
    there = made_tables(tmp_path, "combination")["methods_offline"]
    assert there["method"].unique().tolist() == ["static", "own"]
    Path("preview").mkdir()
    monkeypatch.chdir("preview")
    load_method.cache_clear()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert made_tables(tmp_path, "combination")["methods_offline"].equals(there)


def test_arms_that_cannot_be_asked_about_are_named_and_a_changed_log_of_weights_is_refused(tmp_path, capsys):
    arms = {"static": (1.0, 1.0, 0.0), "none": (0.0, 0.0, 0.0), "more": (1.0, 1.0, 1.0)}
    arms = {arm: dict(zip("abc", weights, strict=True)) for arm, weights in arms.items()}
    methods = {"more": METHODS["gradients"]}
    MadeUpStudy(arms=arms, methods=methods, problems=2, steps=2, where_trained=("c",)).write(tmp_path)
    tables = made_tables(tmp_path, "combination")
    log = capsys.readouterr().out
    assert "methods_offline: none left out: it trains on no component, as all of its weights are 0\n" in log
    assert "methods_offline: more left out: it has components that do not score the runs of static\n" in log
    assert tables["methods_offline"].empty  # no Gram matrices of single completions are stored
    changed = next(tmp_path.glob("runs/more-*/seed0/weights.parquet"))
    changed.write_bytes(b"no Parquet")
    with pytest.raises(StudyError, match=r"weights.parquet: truncated or changed"):
        made_tables(tmp_path, "combination")


def test_a_size_is_the_mean_of_the_seeds_with_an_interval_over_them():
    def squares(*values: float) -> pd.Series:
        return pd.Series(values, index=pd.RangeIndex(1, len(values) + 1))

    rollouts = pd.DataFrame({"seed": [7, 7, 7, 7, 0], "step": [1, 1, 2, 2, 2], "advantage": [1.0, -1.0, 3.0, 0.0, 2.0]})
    found = {seed: of_seed.to_dict() for seed, of_seed in mean_squares(rollouts).items()}
    assert found == {7: {1: 1.0, 2: 4.5}, 0: {2: 4.0}}
    # sizes 1 and 3 in the arm, 1 and 1 in the baseline, none in the last one
    of_arms = {"base": {0: squares(1, 1), 1: squares(1, 1)}, "arm": {0: squares(1, 1), 1: squares(9, 9)}}
    table = advantage_size(of_arms | {"none": {0: squares(0, 0)}}, "base", 0.95).set_index("arm")
    assert table.loc["none", "estimate"] == 0.0
    assert np.isnan(table.loc["none", "ratio"])
    arm = table.loc["arm"]
    t_of_two_seeds = 12.706204736  # Student's t of one degree of freedom at 97.5 %
    assert arm["estimate"] == pytest.approx(2.0)
    assert arm["high"] == pytest.approx(2 + t_of_two_seeds)  # the standard error is 1
    assert arm["low"] == 0.0  # a size is not below 0
    assert arm["ratio"] == pytest.approx(math.sqrt(3))  # geometric mean of 1 and 3
    assert math.log(arm["ratio_high"]) == pytest.approx(math.log(3) / 2 * (1 + t_of_two_seeds))
    assert (arm["seeds"], arm["steps"], arm["interval"]) == (2, 2, "seeds")


def test_steps_have_the_range_of_the_seeds_and_the_run_an_interval():
    def log(weights: list[float]) -> pd.DataFrame:
        """A run's log of one component."""
        columns = {"step": range(1, len(weights) + 1), "component": "a", "weight": weights, "conflicts": np.nan}
        return pd.DataFrame(columns).assign(dead=0.25, advantage_rms=0.5)

    of_four = pd.concat([log([value, 7.0]) for value in (1.0, 2.0, 3.0, 6.0)])  # generations of a step
    assert method_weights({0: of_four}, "arm", 0.95)["weight"].tolist() == [3.0, 7.0, 5.0]
    many = method_weights({0: log([*range(1, 2 * MOST_STEPS + 1)])}, "arm", 0.95)
    assert len(many) == MOST_STEPS + 1  # and one of the run
    assert many[["step", "weight"]].iloc[0].tolist() == [2, 1.5]
    table = method_weights({0: log([1.0, 2.0]), 1: log([3.0, 4.0])}, "arm", 0.95)
    weights = table[["step", "weight", "weight_low", "weight_high", "interval"]]
    assert weights.iloc[:2].to_numpy().tolist() == [[1, 2.0, 1.0, 3.0, RANGE], [2, 3.0, 2.0, 4.0, RANGE]]
    whole = table.iloc[2]
    assert pd.isna(whole["step"])
    assert whole["interval"] == "seeds"
    # means over steps 1.5 and 3.5, standard error 1, Student's t of one degree of freedom 12.706
    assert [whole["weight"], whole["weight_low"], whole["weight_high"]] == pytest.approx(
        [2.5, -10.206, 15.206], abs=1e-3
    )
    assert table["dead"].tolist() == [0.25] * 3
