"""Runs with a method of combination that TRL does not have."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors.numpy import load_file

from reward_ablation.combination.methods.upgrad import upgrad
from reward_ablation.combination.of_run import products
from reward_ablation.system.files import sha256

from .conftest import SPEC
from .given import assert_shares_are_the_training_gradient
from .interrupting import SAVING, StopAt, digests

LENGTHS = {"function": "character_length", "parameters": {"target": 30}}
#: The model of these tests gives no right answer.
COMPONENTS = {"correctness": LENGTHS}

#: Methods with a state, and those that go by Gram matrices, which are a state of the run.
STATES = {
    "lagrangian": {"parameters": {"at_least": {"length": 0.9}, "step_size": 0.5}, "components": ["length"]},
    "ctwa": {"parameters": {"step_size": 0.5}},
    "drw": {"gram": "previous", "parameters": {"mu": 1e-3}},
    "upgrad": {"gram": "averaged"},
    "mgda": {"gram": "unbiased"},
    "pcgrad": {"gram": "same_step"},
}


def combine(method: str, **own) -> dict:
    return {"components": COMPONENTS, "combine": {"method": method, "parameters": {}, **own}}


def weights_of(run) -> pd.DataFrame:
    return pd.read_parquet(run / "weights.parquet")


TWICE = {"num_iterations": 2, "gradient_accumulation_steps": 2}


#: A method's own state with a Gram matrix, one beside buffered batches, and the state of the same step.
SHORT = [("drw", {}), ("lagrangian", TWICE), ("pcgrad", {})]
LONG = [("ctwa", {}), ("upgrad", {}), ("mgda", TWICE)]


@pytest.mark.parametrize(
    ("method", "training"),
    [*SHORT, *(pytest.param(*case, marks=[pytest.mark.slow, pytest.mark.long]) for case in LONG)],
    ids=str,
)
def test_an_interrupted_run_ends_in_the_same_bytes(train, trained, method, training):
    changes = {**combine(method, **STATES[method]), "training": {**SAVING, **training}}
    whole = trained(**changes)
    with pytest.raises(KeyboardInterrupt):
        train("stopped", callbacks=[StopAt(3)], **changes)
    stopped = train("stopped", **changes)
    assert digests(stopped) == digests(whole)
    assert weights_of(whole).groupby("component").weight.nunique().max() > 1


@pytest.mark.parametrize("placement", ["all_tokens", "last_token"])
def test_the_same_step_is_measured_before_its_weights_are_decided(train, placement):
    training = {"gradient_accumulation_steps": 2, "max_steps": 2}
    own = combine("upgrad", gram="same_step")
    own["components"] = {"correctness": {**LENGTHS, "placement": placement}}
    run = train("run", **own, training=training)
    rows = pd.read_parquet(run / "gradients.parquet")
    weights = weights_of(run)
    assert (weights.gram_step == weights.step).all()
    names = weights.component[: weights.component.nunique()].tolist()
    for step, own in weights.groupby("step"):
        total, _ = products(pa.Table.from_pandas(rows[rows.step == step]), tuple(names))
        preferences = np.array([SPEC["weights"][name] for name in names])
        expected = upgrad(np.zeros((8, 3)), np.arange(8) // 4, preferences, {}, gram=total).weights
        expected *= preferences.sum() / expected.sum()
        assert own.weight.to_numpy() == pytest.approx(expected, rel=1e-4)
        assert_shares_are_the_training_gradient(run, step)
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert (rollouts.advantage != 0).any()
    assert rollouts.advantage.to_numpy() == pytest.approx(rollouts.filter(like="advantage_").sum(axis=1), abs=1e-6)


def test_a_component_of_weight_0_takes_part_where_a_parameter_names_it(train):
    weights = {"correctness": 1, "format": 0, "length": 0}
    own = combine("schedule", parameters={"length": {"0": 0.0, "3": 1.0}}, components=["length"])
    run = train("run", weights=weights, **own)
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert (rollouts.advantage_length[rollouts.step == 1] == 0).all()
    assert (rollouts.advantage_length[rollouts.step == 4] != 0).any()
    assert (rollouts.advantage_format == 0).all()
    assert set(weights_of(run).component) == {"correctness", "length"}


def test_a_tracked_component_changes_nothing(train):
    weights, own = {"format": 0, "length": 1}, combine("upgrad", gram="averaged")
    with_it = {**own, "components": {**COMPONENTS, "tracked": {"function": "keyword_steps", "parameters": {}}}}
    runs = train("without", weights=weights, **own), train("with", weights={**weights, "tracked": 0}, **with_it)
    assert len({sha256(run / "model/model.safetensors") for run in runs}) == 1
    pd.testing.assert_frame_equal(*map(weights_of, runs))


def test_a_constant_schedule_trains_as_trl_does(train):
    ours = train("ours", **combine("schedule", parameters={"length": {"0": 0.3}}, components=["length"]))
    theirs = train("theirs", components=COMPONENTS)
    assert not (theirs / "weights.parquet").exists()
    first, second = (pd.read_parquet(run / "rollouts.parquet") for run in (ours, theirs))
    assert first.advantage[first.step == 1].to_numpy() == pytest.approx(second.advantage[second.step == 1], abs=1e-5)
    one, other = (load_file(run / "model/model.safetensors") for run in (ours, theirs))
    assert all(np.abs(one[name] - other[name]).max() < 1e-4 for name in one)


OWN = """
def mine(scores, groups, weights, state, *, step, names, keep=0.5, **more):
    return (scores - scores.mean(axis=0)) * weights, {"seen": state.get("seen", 0) + 1}
"""


def test_a_users_own_method(train, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    run = train("run", **combine(f"{tmp_path}/own.py:mine", parameters={"keep": 0.1}))
    rows = weights_of(run)
    assert rows.weight.isna().all()
    assert (rows.advantage_rms > 0).any()
    assert "combine" in json.loads((run / "run.json").read_text())["spec"]
