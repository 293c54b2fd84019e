"""Effects of components in made-up studies with known effects."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.evaluation.effects import (
    LACK_OF_FIT,
    Effect,
    arms_with_equal_settings,
    effects,
    effects_of,
    reach,
)
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import BASE, StudyFile

SUBSETS = [subset for size in (1, 2) for subset in combinations(("correctness", "format"), size)]
FACTORIAL = {"_".join(on): {name: float(name in on) for name in ("correctness", "format")} for on in SUBSETS}


def tables(root, arms, **changes) -> dict[str, pd.DataFrame]:
    usual = {"seeds": (0, 1, 2), "datasets": {"gsm8k_test": 200}, "steps": 1, "layers": 0}
    MadeUpStudy(arms, **usual | changes).write(root)
    return made_tables(root, "evaluation")


def arms_of(weights: dict[str, tuple[float, ...]], components="abc") -> dict[str, dict[str, float]]:
    return {arm: dict(zip(components, map(float, of), strict=False)) for arm, of in weights.items()}


def study_of(arms, **changes) -> StudyFile:
    return StudyFile.model_validate(MadeUpStudy(arms, layers=0, **changes).plan())


@pytest.fixture(scope="module")
def factorial(tmp_path_factory) -> dict[str, pd.DataFrame]:
    return tables(tmp_path_factory.mktemp("study"), FACTORIAL, datasets={"gsm8k_test": 400}, design="factorial")


def test_effects_that_were_made_up_are_found(factorial):
    rows = factorial["component_effects"].query("mode == 'greedy' and metric == 'accuracy_lenient'")
    rows = rows.set_index(["method", "component"])
    # A weight of 1 on correctness adds .3 to the chance of a right answer, cut off at 1; on format nothing.
    right, nothing = rows.loc[("main_effect", "correctness")], rows.loc[("main_effect", "format")]
    assert right["low"] < 0.28 < right["high"]
    assert right["p_holm"] < 0.05
    assert nothing["low"] < 0 < nothing["high"]
    assert nothing["p"] > 0.05
    assert sorted(rows["p_holm"]) == pytest.approx(sorted(holm(rows["p"].to_numpy())))
    assert rows[["seeds", "questions"]].to_numpy().tolist() == [[3, 400]] * 2


def test_an_effect_that_is_a_difference_of_two_arms_has_its_estimate_and_interval(factorial):
    paired = factorial["paired_differences"].query("arm == 'correctness_format' and mode == 'sampled'")
    effect = factorial["component_effects"].query("component == 'format'")
    effect = effect.query("mode == 'sampled'").set_index("metric")
    for row in paired.to_dict("records"):  # the baseline is the arm with correctness alone
        found = effect.loc[row["metric"]]
        columns = ["estimate", "low", "high"]
        assert found[columns].tolist() == pytest.approx([row[column] for column in columns], abs=1e-5)


@pytest.mark.parametrize(("changed", "without"), [("control", "control"), ("others", "full, control")])
def test_a_control_with_other_settings_is_no_control(tmp_path, capsys, changed, without):
    arms = arms_of({"full": (1, 1, 0), "a": (1, 0, 0), "b": (0, 1, 0), "control": (0, 0, 1)})
    made = MadeUpStudy(arms, steps=2, layers=0, design="one_at_a_time", control="control", where_trained=("c",))
    content = made.plan()
    expected = [("over_control", "a"), ("over_control", "b")]
    found = effects_of(StudyFile.model_validate(content))
    assert [(effect.method, effect.component) for effect in found] == expected
    assert "without" not in capsys.readouterr().out
    for run in content["runs"]:
        if (run["arm"] == "control") if changed == "control" else run["arm"] in ("a", "b"):
            run["spec"]["training"]["max_steps"] = 500
    assert effects_of(StudyFile.model_validate(content)) == []
    told = capsys.readouterr().out
    assert f"component_effects: without {without}, whose settings differ in more than weights" in told
    assert "component_effects: none" in told


#: Arms of all sets of three components.
SETS = {
    "".join(on): {name: float(name in on) for name in "abc"} for size in (3, 2, 1) for on in combinations("abc", size)
}


def test_a_component_that_is_scored_where_it_is_trained_has_an_effect():
    study = study_of(SETS, design="leave_one_out", where_trained=("c",))
    assert [effect.component for effect in effects_of(study)] == [*"abc"]
    # Another definition of the component is another setting, in the arms that are trained on it.
    content = MadeUpStudy(SETS, layers=0).plan()
    for run in content["runs"]:
        if run["arm"] in ("c", "a"):
            run["spec"]["components"]["c"]["parameters"] = {"other": 1}
    specs = {run.arm: run.spec for run in StudyFile.model_validate(content).runs}
    assert set(specs) - set(arms_with_equal_settings(specs)) == {"c"}


@pytest.mark.parametrize(("design", "fixed"), [("simplex", 0), ("list", 4)])
def test_a_regression_on_weights_has_no_arm_whose_components_a_method_combines(capsys, design, fixed):
    arms = {f"mix{n}": {"a": n / 8, "b": 1 - n / 8} for n in range(9)}
    methods = {arm: {"method": "dvao"} for arm in [*arms][fixed:]}
    found = effects_of(study_of(arms, design=design, methods=methods))
    assert bool(found) == bool(fixed)
    assert all(effect.coefficients.keys() == {*arms} - {*methods} for effect in found)
    told = capsys.readouterr().out
    assert f"without {', '.join(methods)}, whose components TRL does not combine\n" in told
    assert "differ in more than weights" not in told
    of_one_method = study_of(FACTORIAL, design="factorial", methods={arm: {"method": "dvao"} for arm in FACTORIAL})
    assert [effect.component for effect in effects_of(of_one_method)] == ["correctness", "format"]


@pytest.mark.parametrize(
    ("design", "weights", "extra"),
    [
        ("leave_one_out", {"full": (1, 0.5, 0), "no_a": (0, 0.5, 0), "no_b": (1, 0, 0)}, (2, 0.5, 0)),
        ("factorial", {"a": (1, 0, 0), "b": (0, 1, 0), "a_b": (1, 1, 0)}, (0, 0, 1)),
        ("simplex", {"first": (1, 0, 0), "second": (0, 1, 0), "half": (0.5, 0.5, 0)}, (0, 0, 1)),
    ],
)
def test_an_arm_beside_the_design_changes_no_effect(capsys, design, weights, extra):
    def found(**more):
        plan = MadeUpStudy(arms_of(weights | more), design=design, layers=0, where_trained=("c",)).plan()
        plan["arms"] = [arm | {"extra": arm["name"] in more} for arm in plan["arms"]]
        return effects_of(StudyFile.model_validate(plan))

    assert {effect.component for effect in found()} >= {"a", "b"}
    assert found() == found(beside=extra)
    assert f"without beside, which the design {design} does not make\n" in capsys.readouterr().out
    if design == "simplex":  # a regression has a point more
        assert {*found(beside=(0.25, 0.75, 0))[0].coefficients} == {*weights, "beside"}


def test_holm_is_over_the_declared_comparisons_and_all_others_are_exploratory(tmp_path):
    weights = {"full": (1, 1), "no_format": (1, 0), "no_correctness": (0, 1), "control": (0.2, 0.2)}
    arms = arms_of(weights, ("correctness", "format"))
    MadeUpStudy(arms, datasets={"gsm8k_test": 60, "other": 60}, steps=1, layers=0).write(tmp_path)
    asked = {"dataset": "other", "mode": "sampled", "metric": "accuracy_strict"}
    contrasts = [{"arm": "no_format", "against": "full"}, {"arm": "no_format", "against": "no_correctness"}]
    written = json.loads((tmp_path / "study.json").read_text())
    written |= {"control": "control", "primary": {**asked, "contrasts": contrasts}, "equivalence_margin": 0.5}
    (tmp_path / "study.json").write_text(json.dumps(written))
    made = made_tables(tmp_path, "evaluation")
    rows = made["paired_differences"]
    primary = rows[rows["family"] == "primary"].set_index(["arm", "baseline"])
    assert sorted(primary.index) == [("no_format", "full"), ("no_format", "no_correctness")]
    assert (primary[["dataset", "mode", "metric"]] == list(asked.values())).all(axis=None)
    np.testing.assert_allclose(np.sort(primary["p_holm"]), np.sort(holm(primary["p"].to_numpy())))
    assert set(rows["family"]) == {"primary", "exploratory"}
    exploratory = "dataset == 'gsm8k_test' and mode == 'greedy' and metric == 'format'"
    of_control = rows.query(f"baseline == 'control' and {exploratory}")
    assert of_control["arm"].tolist() == ["full", "no_format", "no_correctness"]
    np.testing.assert_allclose(of_control["p_holm"], holm(of_control["p"].to_numpy()))
    means = made["evaluation_by_arm"].query(exploratory).set_index("arm")["estimate"]
    expected = [means[arm] - means["control"] for arm in of_control["arm"]]
    np.testing.assert_allclose(of_control["estimate"], expected, atol=1e-12)
    assert set(made["component_effects"]["method"]) == {"leave_one_out"}
    assert (rows["p_equivalent"].isna() == (rows["metric"] == "tokens")).all()


def test_two_seeds_of_arms_that_borrow_have_shorter_intervals_about_the_same_means(tmp_path):
    shared = tables(tmp_path, FACTORIAL, seeds=(0, 1), design="factorial")["evaluation_by_arm"]
    written = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(written | {"seed_variance": "per_arm"}))
    alone = made_tables(tmp_path, "evaluation")["evaluation_by_arm"]
    both = alone.merge(shared, on=["arm", "dataset", "mode", "metric"], suffixes=("", "_shared"))
    both = both[(both["arm"] != "base") & (both["metric"] == "accuracy_lenient")]
    np.testing.assert_allclose(both["estimate"], both["estimate_shared"])
    lengths = (both["high_shared"] - both["low_shared"]) / (both["high"] - both["low"])
    assert lengths.median() < 0.8


def test_a_mixture_that_is_no_straight_line_has_no_coefficients(tmp_path):
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.5, 0, 0.5)]
    arms = arms_of({f"arm{n}": of for n, of in enumerate(weights)}, ("correctness", "format", "length"))
    rows = tables(tmp_path, arms, design="simplex")["component_effects"].query("mode == 'greedy'")
    fails = rows["note"].notna()
    assert fails.any()
    assert (rows.loc[fails, ["estimate", "low", "high", "p"]].isna()).all(axis=None)
    assert rows.loc[fails, "note"].str.startswith("the model does not fit the arms (lack of fit p = ").all()
    assert rows.loc[~fails, "estimate"].notna().all()
    assert rows["component"].value_counts().to_dict() == dict.fromkeys([*arms["arm0"]], rows["metric"].nunique())


@pytest.mark.parametrize("design", ["leave_one_out", "one_at_a_time", "factorial", "simplex"])
def test_an_arm_under_a_second_name_changes_no_effect(design):
    """Arms of equal weights share their runs."""
    found = effects(SETS, [*"abc"], design, "control")
    assert {effect.component for effect in found} >= {*"abc"}
    twice = SETS | {f"again_{name}": weights for name, weights in SETS.items()}
    assert effects(twice, [*"abc"], design, "control") == found


def test_arms_of_equal_weights_with_runs_of_their_own_and_arms_without_weights_have_no_part(capsys):
    """Imported arms of equal weights do not share their runs, and none of them is the right one."""
    kept = {"first": (1, 0), "second": (0, 1), "most": (0.8, 0.2)}
    found = effects_of(study_of(arms_of({"both": (1, 1), **kept, "again": (1, 1), "none": (0, 0)}), design="simplex"))
    assert found == effects_of(study_of(arms_of(kept), design="simplex")) != []
    told = capsys.readouterr().out
    assert "component_effects: without both, again, which have equal weights and runs of their own" in told
    assert "component_effects: without none, whose weights are all 0" in told


def all_sets(names: str) -> dict[str, dict[str, float]]:
    subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]
    return {"".join(subset): {name: float(name in subset) for name in names} for subset in subsets}


def values(found: list[Effect], method: str, results: dict[str, float]) -> dict[str, float]:
    return {
        effect.component: sum(c * results[arm] for arm, c in effect.coefficients.items())
        for effect in found
        if effect.method == method
    }


# a alone 14, b alone 12, both 19, the control 11; by hand.
RESULTS = {"a": 14.0, "b": 12.0, "ab": 19.0, "random": 11.0}


@pytest.mark.parametrize(
    ("design", "control", "method", "expected"),
    [
        ("factorial", None, "main_effect", {"a": 7, "b": 5}),  # beside the other component
        ("factorial", "random", "main_effect", {"a": 5, "b": 3}),  # the means of 7 and 14 - 11, and of 5 and 12 - 11
        ("leave_one_out", "random", "leave_one_out", {"a": 7, "b": 5}),
        ("one_at_a_time", "random", "over_control", {"a": 3, "b": 1}),
        ("list", None, "leave_one_out", {"a": 7, "b": 5}),
    ],
)
def test_a_study_has_the_effects_of_its_design_and_no_others(design, control, method, expected):
    found = effects(all_sets("ab"), ["a", "b"], design, control)
    assert {effect.method for effect in found} == {method}
    assert values(found, method, RESULTS) == pytest.approx(expected)
    assert not any(BASE in effect.coefficients for effect in found)


@pytest.mark.parametrize(
    ("design", "control", "arms", "components"),
    [
        ("one_at_a_time", None, {"a": (1, 0), "b": (0, 1)}, ""),  # alone, without a control
        ("one_at_a_time", "random", {"one": (1, 0), "two": (2, 0), "other": (0, 1)}, "b"),  # a at two weights
        ("one_at_a_time", "random", {"a": (1, 0)}, "a"),  # no arm is trained on b
        ("leave_one_out", None, {"full": (1, 2), "no_a": (0, 1), "no_b": (1, 0)}, "b"),  # no_a has another b
        ("factorial", None, {"a": (1, 0), "b": (0, 1)}, ""),  # a subset is missing
        ("simplex", None, {"one": (1.2, -0.2), "two": (0.8, 0.2), "three": (1, 0)}, ""),  # a negative weight
        ("simplex", None, {"one": (1, 0.5), "two": (1, 2)}, ""),  # a line through two points fits whatever comes
    ],
)
def test_components_without_an_effect_of_their_own(design, control, arms, components):
    weights = {arm: dict(zip("ab", map(float, of_arm), strict=True)) for arm, of_arm in arms.items()}
    assert "".join(effect.component for effect in effects(weights, ["a", "b"], design, control)) == components


def test_a_list_has_the_effects_that_its_arms_allow():
    arms = all_sets("abc")
    del arms["bc"]
    assert effects(arms, list("abc"), "factorial") == []
    assert [effect.component for effect in effects(arms, list("abc"), "list")] == ["b", "c"]  # no arm without a


def test_main_effects_are_means_over_the_sets_of_other_components():
    results = {"a": 1.0, "b": 2.0, "c": 3.0, "ab": 5.0, "ac": 6.0, "bc": 7.0, "abc": 11.0}
    found = values(effects(all_sets("abc"), list("abc"), "factorial"), "main_effect", results)
    assert found["a"] == pytest.approx(((5 - 2) + (6 - 3) + (11 - 7)) / 3)


def test_contrasts_of_lack_of_fit_are_0_where_the_model_holds():
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.4, 0.3, 0.3)]
    arms = {str(w): dict(zip("abc", map(float, w), strict=True)) for w in weights}
    found = [*effects(arms, list("abc"), "simplex"), *effects(dict([*arms.items()][:6]), list("abc"), "simplex")]
    straight = {arm: 6 * w["a"] + 3 * w["b"] for arm, w in arms.items()}
    bent = {arm: straight[arm] + 4 * w["a"] * w["b"] for arm, w in arms.items()}

    def lack(method, results):
        return [value for name, value in values(found, method, results).items() if name.startswith(LACK_OF_FIT)]

    assert len(lack("regression", straight)) == 3  # six arms, three coefficients
    assert len(lack("quadratic_regression", straight)) == 1
    assert max(map(abs, lack("regression", straight))) < 1e-12
    assert max(map(abs, lack("regression", bent))) > 0.1
    assert max(map(abs, lack("quadratic_regression", bent))) < 1e-12
    # Scheffé's model with coefficients 6, 3, 0: effects 6 - 1.5, 3 - 3, 0 - 4.5; with the product those of a and b too.
    linear = values(found, "regression", straight)
    assert [linear[name] for name in "abc"] == pytest.approx([4.5, 0, -4.5])
    quadratic = values(found, "quadratic_regression", bent)
    assert (quadratic["a"], quadratic["b"]) == (pytest.approx(4.5), pytest.approx(0))


def test_a_common_factor_of_an_arms_weights_does_not_count():
    # Least squares on shares (1, 0), (0, 1), (1/2, 1/2) of .6, .2, .5: the middle is .1 high, .0333 of it for each end.
    arms = {"c": {"c": 1.0, "f": 0.0}, "f": {"c": 0.0, "f": 1.0}, "both": {"c": 4.0, "f": 4.0}}
    found = values(effects(arms, ["c", "f"], "simplex"), "regression", {"c": 0.6, "f": 0.2, "both": 0.5})
    assert {name: found[name] for name in "cf"} == pytest.approx({"c": 0.4, "f": -0.4})


def test_an_arm_without_a_part_in_an_effect_has_no_rest_of_rounding():
    arms = {f"m{n}": {"a": n / 4, "b": 1 - n / 4} for n in range(5)}
    assert effects(arms, ["a", "b"], "simplex")[0].coefficients["m2"] == 0


def test_reach_of_an_effect_on_a_share():
    assert reach(Effect("main_effect", "a", {"x": 0.5, "y": -0.5, "z": 0.25})) == (-0.5, 0.75)
