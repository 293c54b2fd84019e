"""Inner products of the gradients that a step's completions can make, against explicit gradients."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.gradients.test_what_if import NAMES, OTHER, OWN, make_run
from reward_ablation.analysis.gradients.measured_steps import (
    MeasuredRun,
    effects_on_other_prompts,
    leave_one_out_scores,
    read_step,
    spread_steps,
)
from reward_ablation.gram.store import GRAMS_FILE
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet


def shares_of(measured, weights) -> np.ndarray:
    return measured.shares(np.array([[weights.get(name, 0.0) for name in NAMES]]))[0]


def test_effects_on_other_prompts_are_those_of_the_definition(tmp_path):
    run = make_run(tmp_path)
    measured = read_step(MeasuredRun(tmp_path, [7], NAMES), 7)
    found = effects_on_other_prompts(measured, [shares_of(measured, OTHER), shares_of(measured, {})])
    rows = np.concatenate(run.gradients, axis=1)
    shares = shares_of(measured, OTHER).sum(axis=1)
    length = np.linalg.norm(shares @ rows)
    prompts = run.prompts
    for k in range(len(NAMES)):
        effect = 0.0
        for prompt in range(4):
            here = prompts == prompt
            gradient = 0.0
            for i in np.flatnonzero(here):
                others = [j for j in np.flatnonzero(here) if j != i]
                against = run.scores[i, k] - run.scores[others, k].mean()
                gradient = gradient + against * -rows[i] / run.token_weights[i] / len(rows)
            effect += gradient @ -(shares[~here] @ rows[~here])
        # three of four pairs of prompts differ
        assert found[0, k] == pytest.approx(effect / (3 / 4) / length, abs=2e-3 * np.abs(found[0]).max())
    assert np.isnan(found[1]).all()  # weights of 0 make no step
    np.testing.assert_allclose(measured.own_shares, shares_of(measured, OWN))
    backward = read_step(MeasuredRun(tmp_path, [7], NAMES[::-1]), 7)
    [forth], [back] = (effects_on_other_prompts(of, [of.own_shares]) for of in (measured, backward))
    assert forth == pytest.approx(back[::-1])
    assert spread_steps(list(range(1, 101)), 4) == [1, 34, 67, 100]
    alone = [replace(block, prompts=0 * block.prompts) for block in measured.alone]
    vars(measured)["alone"] = alone  # blocks of one prompt each say nothing of other prompts
    assert np.isnan(effects_on_other_prompts(measured, [shares_of(measured, OWN)])).all()


def test_the_length_of_a_step_of_several_blocks_is_as_stored(tmp_path):
    rows = np.concatenate(make_run(tmp_path, blocks=2).gradients, axis=1)
    measured = read_step(MeasuredRun(tmp_path, [7], NAMES), 7)
    of_components = measured.own_shares.T @ rows
    dots = of_components @ of_components.T
    labels = [(7, "all", "share"), (8, "all", "share"), (7, "0", "share"), (7, "all", "alone")]
    pairs = [(NAMES[i], NAMES[j], dots[i, j]) for i in range(3) for j in range(i, 3)]
    columns = ["step", "layer", "definition", "component_a", "component_b", "dot"]
    stored = pd.DataFrame([(*label, *pair) for label in labels for pair in pairs], columns=columns)
    write_parquet(stored, tmp_path / "gradients.parquet")
    whole = np.linalg.norm(measured.own_shares.sum(axis=1) @ rows)
    assert measured.square == pytest.approx(whole**2)
    by_blocks = replace(measured, run=None)
    own = measured.own_shares.sum(axis=1)
    within = np.linalg.norm([own[of_block] @ rows[of_block] for of_block in measured.places])
    assert abs(whole / within - 1) > 0.05
    of_own = [measured.own_shares]
    expected = effects_on_other_prompts(by_blocks, of_own) * within / whole
    assert effects_on_other_prompts(measured, of_own) == pytest.approx(expected, rel=2e-3)


def test_parts_that_cancel_as_earlier_versions_stored_them_are_no_contradiction(tmp_path):
    make_run(tmp_path)
    path = tmp_path / "rollouts.parquet"
    rollouts = pd.read_parquet(path)
    cancelling = rollouts["problem_id"] == "p0"
    rollouts.loc[cancelling, [f"score_{name}" for name in NAMES]] = 0.5
    for name, part in zip(NAMES, (4321.0, -4321.0, 0.0), strict=True):
        rollouts.loc[cancelling, f"advantage_{name}"] = part
    write_parquet(rollouts, path)
    assert not isinstance(read_step(MeasuredRun(tmp_path, [7], NAMES), 7), str)
    rollouts.loc[cancelling, f"advantage_{NAMES[0]}"] = 4000.0
    write_parquet(rollouts, path)
    assert read_step(MeasuredRun(tmp_path, [7], NAMES), 7).startswith("the advantages of a step do not follow from its")


def test_a_damaged_file_is_refused_and_missing_completions_are_a_reason(tmp_path):
    make_run(tmp_path)
    path = tmp_path / "rollouts.parquet"
    rollouts = pd.read_parquet(path)
    write_parquet(rollouts[rollouts["problem_id"] != "p1"], path)
    assert read_step(MeasuredRun(tmp_path, [7], NAMES), 7) == "some of its completions are not in rollouts.parquet"
    path = tmp_path / GRAMS_FILE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StudyError, match=r"its stored Gram matrices cannot be read .* run the workflow again"):
        read_step(MeasuredRun(tmp_path, [7], NAMES), 7)


def test_scores_against_the_others_of_their_group():
    nan = float("nan")
    scores = np.array([[1.0], [0.0], [5.0], [2.0], [nan], [4.0], [nan], [nan], [7.0]])
    against = leave_one_out_scores(scores, 3)
    # 1 - (0 + 5) / 2 and so on; 2 - 4; one score alone has nothing to stand against
    assert list(against[:, 0]) == pytest.approx([-1.5, -3.0, 4.5, -2.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    assert leave_one_out_scores(np.array([[1.0], [0.0], [5.0], [2.0]]), 2)[:, 0].tolist() == [1, -1, 3, -3]
    # Groups of one stand against the batch: 1 - (0 + 5) / 2 and so on; 0 - 4 and 4 - 0.
    single = np.array([[1.0, 0.0], [0.0, 4.0], [5.0, nan]])
    np.testing.assert_allclose(leave_one_out_scores(single, 1), [[-1.5, -4.0], [-3.0, 4.0], [4.5, 0.0]])
