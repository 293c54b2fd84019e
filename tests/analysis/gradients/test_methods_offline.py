"""Steps that methods would have taken at a run's completions, against numbers by hand and explicit gradients."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from analysis.gradients.test_what_if import NAMES, OTHER, OWN, make_run
from analysis.made_up import MadeUpStudy, advantage_shares
from reward_ablation.analysis.gradients.measured_steps import MeasuredRun, effects_on_other_prompts, read_step
from reward_ablation.analysis.gradients.methods_offline import (
    MethodSettings,
    OfflineComparison,
    Replayed,
    answers_at_step,
    method_of_arm,
    methods_offline,
    read_history,
    replay,
)
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json
from specs import arm_spec

#: Student's t of one degree of freedom at 97.5 %.
T_OF_TWO_SEEDS = 12.706204736
ARMS = {"static": {"a": 1.0, "b": 1.0, "c": 0.0}, "gradients": {"a": 1.0, "b": 1.0, "c": 0.0}}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    methods = {"gradients": {"method": "upgrad", "gram": "averaged"}}
    MadeUpStudy(arms=ARMS, methods=methods, steps=8, rollouts=16, problems=4, sample_grams=True).write(folder)
    return folder


def folders(root, arm: str) -> list:
    return sorted(root.glob(f"runs/{arm}-*/seed*"))


def answers(products: list, effects: list) -> OfflineComparison:
    """Answers of one method to steps of one component; `products` and `effects` by seed and step."""
    shape = np.shape(effects)
    return OfflineComparison(
        ["m"], ["a"], [*range(shape[1])], np.array(products, dtype=float), np.array(effects, dtype=float)[..., None],
        np.ones((*shape[:2], 1, 1)), Counter(), 0.95,
    )  # fmt: skip


def test_estimates_by_hand():
    # cosines 0.6 and 0.8, lengths 1 and 2 of own steps of length 1; effects 3 and 5 against own 1 and 2
    found = answers([[[[1, 0.6], [0.6, 1]]], [[[4, 1.6], [1.6, 1]]]], [[[3, 1]], [[5, 2]]]).estimates
    table = found.set_index("quantity")
    assert table["estimate"].to_dict() == pytest.approx(
        {"cosine": 0.7, "length": 1.5, "weight": 1.0, "effect": 4.0, "gain": 2.5}
    )
    assert table.loc["cosine", ["low", "high"]].tolist() == pytest.approx([0.7 - 0.1 * T_OF_TWO_SEEDS, 1.0])
    assert table.loc["length", ["low", "high"]].tolist() == pytest.approx([0.0, 1.5 + 0.5 * T_OF_TWO_SEEDS])
    assert table.loc["gain", "high"] == pytest.approx(2.5 + 0.5 * T_OF_TWO_SEEDS)  # of 2 and 3
    assert set(table["interval"]) == {"seeds"}


def test_a_cosine_weighs_steps_by_their_size():
    # a step of length 3 along the own one of length 3, and one of length 1 across: (9 + 0) / sqrt(10 * 10)
    found = answers([[[[9, 9], [9, 9]], [[1, 0], [0, 1]]]], [[[1, 1], [1, 1]]]).estimates
    assert found.set_index("quantity").loc["cosine", "estimate"] == pytest.approx(0.9)
    assert found[["seeds", "steps"]].drop_duplicates().to_numpy().tolist() == [[1, 2]]

    # a method that makes no step
    none = answers([[[[0, 0], [0, 1]]]], [[[math.nan, 1]]]).estimates.set_index("quantity")["estimate"]
    assert none["length"] == 0.0
    assert np.isnan(none[["cosine", "effect", "gain"]].to_numpy(dtype=float)).all()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("run.json", None, "there is no such file; name the folder of a finished run"),
        ("run.json", b"{", "truncated or changed: it is not JSON; delete "),
        ("rollouts.parquet", None, "there is no such file; run the workflow again, it makes what is missing"),
        ("metrics.parquet", b"x", "truncated or changed"),
    ],
)
def test_missing_and_damaged_files_of_a_run_are_refused_in_one_line(root, tmp_path, name, content, told):
    run = shutil.copytree(folders(root, "static")[0], tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    if content is not None:
        (run / name).write_bytes(content)
    with pytest.raises(StudyError) as error:
        read_history(run)
    assert str(error.value).startswith(f"{run / name}: {told}")
    assert "\n" not in str(error.value)


def test_what_cannot_be_answered_is_refused(root, tmp_path):
    run, gdpo = folders(root, "static")[0], {"gdpo": MethodSettings("gdpo", {"a": 1.0})}
    several = shutil.copytree(run, tmp_path / "run")
    content = json.loads((several / "run.json").read_text())
    content["spec"]["training"] |= {"gradient_accumulation_steps": 4, "steps_per_generation": 2}
    write_json(content, several / "run.json")
    unknown = {"x": MethodSettings("gdpo", {"z": 1.0})}
    for runs, asked, told in (
        ([], gdpo, "no runs"),
        (run, {}, "no methods"),
        (run, unknown, "z does not score its completions"),
        (several, gdpo, "several generations each"),
    ):
        with pytest.raises(StudyError, match=told):
            methods_offline(runs, asked)


def test_answers_at_a_step_are_those_of_explicit_gradients(tmp_path):
    run = make_run(tmp_path, blocks=1)
    measured = read_step(MeasuredRun(tmp_path, [7], NAMES), 7)
    vectors = [np.array([weights.get(name, 0.0) for name in NAMES]) for weights in (OTHER, OWN)]
    shares = [advantage_shares(run.scores, vector, *run.how) for vector in vectors]
    inner, effects, weights = answers_at_step(measured, [Replayed({7: shares[0]}, {7: vectors[0]})])
    rows = np.concatenate(run.gradients, axis=1)
    steps = [-of_method.sum(axis=1) @ rows for of_method in shares]
    np.testing.assert_allclose(inner, [[a @ b for b in steps] for a in steps], rtol=5e-3)
    np.testing.assert_allclose(effects, effects_on_other_prompts(measured, shares))
    np.testing.assert_array_equal(weights, [vectors[0]])


def test_the_step_of_a_runs_own_method_is_its_own(root):
    for arm in ARMS:
        history = read_history(folders(root, arm)[0])
        found = methods_offline(folders(root, arm), {"own": method_of_arm(history.spec)}).estimates
        own = found.set_index("quantity")["estimate"]
        assert own[["cosine", "length"]].tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
        assert own["gain"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-6)


def test_a_replay_gives_the_weights_and_advantages_that_the_run_logged(root):
    folder = folders(root, "gradients")[0]
    history = read_history(folder)
    replayed = replay(history, method_of_arm(history.spec))
    logged = pd.read_parquet(folder / "weights.parquet").pivot(index="step", columns="component", values="weight")
    rollouts = pd.read_parquet(folder / "rollouts.parquet").sort_values(["step", "problem_id", "rollout"])
    for step, weights in logged[["a", "b"]].iterrows():
        np.testing.assert_allclose(replayed.weights[step][:2], weights, rtol=1e-6)
        stored = rollouts.loc[rollouts["step"] == step, ["advantage_a", "advantage_b", "advantage_c"]]
        np.testing.assert_allclose(replayed.shares[step], stored, atol=1e-9)
    assert np.isnan(replayed.weights[1][2])
    assert logged["a"].nunique() > 1


def test_parameters_of_a_method_and_fewer_steps(root):
    asked = {"late": MethodSettings("schedule", {"a": 1.0, "c": 0.0}, {"c": {0: 0.0, 4: 2.0}})}
    found, of_two = (methods_offline(folders(root, "static")[0], asked, most_steps=most) for most in (None, 2))
    weights = found.estimates.set_index(["quantity", "component"])["estimate"]
    assert weights["weight", "c"] == pytest.approx(np.mean([0, 0.5, 1, 1.5, 2, 2, 2, 2]))
    assert ("weight", "b") not in weights.index
    assert of_two.steps == [1, 8]


def test_the_method_of_an_arm_of_trl():
    for training, method, parameters in (
        ({}, "weighted_sum", {"scale_rewards": "group"}),
        ({"scale_rewards": False}, "weighted_sum", {"scale_rewards": "none"}),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "gdpo", {}),
    ):
        spec = ArmSpec.read(arm_spec(weights={"a": 1, "b": 0}, training=training), "spec")
        assert method_of_arm(spec) == MethodSettings(method, {"a": 1.0}, parameters)
