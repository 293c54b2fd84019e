"""Effects of other weights, against explicit gradients and a policy with known expected scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.made_up import advantage_shares
from reward_ablation.analysis.gradients.what_if import read_measured_step, what_if
from reward_ablation.gram.similarity import SCHEMA
from reward_ablation.gram.store import GRAMS_FILE, ROWS_FILE, gram_table, row_table
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json, write_parquet
from specs import arm_spec

NAMES = ["correctness", "format", "length"]
OWN = {"correctness": 1.0, "format": 0.0, "length": 0.5}  # format is ablated
PROMPTS, ACTIONS = 4, 5


@dataclass
class Policy:
    """A softmax over a few answers to each of a few prompts, with an answer's own logit and one shared by prompts.

    Two layers: (PROMPTS, ACTIONS) own logits and (ACTIONS,) shared ones.
    """

    own: np.ndarray
    shared: np.ndarray
    scores: np.ndarray  # (PROMPTS, ACTIONS, K)

    def chances(self, own=0.0, shared=0.0) -> np.ndarray:
        """After a step of `own` and `shared`."""
        logits = np.exp(self.own + own + self.shared + shared)
        return logits / logits.sum(axis=1, keepdims=True)

    def expected_scores(self, *step) -> np.ndarray:
        return np.einsum("pa,pak->k", self.chances(*step), self.scores) / PROMPTS

    def log_gradient(self, prompt: int, action: int) -> tuple[np.ndarray, np.ndarray]:
        """Gradient of the log-probability of an answer, by layer."""
        gradient = np.zeros((PROMPTS, ACTIONS))
        gradient[prompt] = np.eye(ACTIONS)[action] - self.chances()[prompt]
        return gradient.ravel(), gradient[prompt]


@dataclass
class Run:
    """One sampled step of the policy, its files and its explicit gradients."""

    folder: Path
    policy: Policy
    gradients: list[np.ndarray]  # (N, P) of each layer: a row is -token_weight * gradient of the log-probability
    token_weights: np.ndarray
    scores: np.ndarray
    prompts: np.ndarray
    how: tuple[int, str, str]

    def direction(self, weights: dict[str, float]) -> list[np.ndarray]:
        """Minus the gradient of the loss under some weights, by layer."""
        shares = advantage_shares(self.scores, np.array([weights.get(name, 0.0) for name in NAMES]), *self.how)
        return [-shares.sum(axis=1) @ rows for rows in self.gradients]


def make_run(folder: Path, group: int = 8, blocks: int = 1, seed: int = 0, gaps: float = 0.0, **changes) -> Run:
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.0, 0.5, 1.0], size=(PROMPTS, ACTIONS, 3))
    # chances that are multiples of 1 / group, and every answer as often as its chance says: a sample without noise
    counts = 1 + rng.multinomial(group - ACTIONS, np.full(ACTIONS, 1 / ACTIONS), size=PROMPTS)
    shared = rng.normal(size=ACTIONS)
    policy = Policy(np.log(counts) - shared, shared, scores)
    prompts = np.repeat(np.arange(PROMPTS), group)
    actions = np.concatenate([np.repeat(np.arange(ACTIONS), of_prompt) for of_prompt in counts])
    size = len(prompts)
    token_weights = rng.uniform(0.5, 2, size) / size
    token_weights[changes.get("masked", [])] = 0
    layers = zip(*(policy.log_gradient(*where) for where in zip(prompts, actions, strict=True)), strict=True)
    gradients = [-token_weights[:, None] * np.array(rows) for rows in layers]
    given = scores[prompts, actions]
    given[rng.random(given.shape) < gaps] = np.nan
    training = {"scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize"}
    training |= changes.get("training", {})
    how = (group, training["scale_rewards"], training["multi_objective_aggregation"])
    shares = advantage_shares(given, np.array(list(OWN.values())), *how)
    rollouts = pd.DataFrame({"step": 7, "problem_id": [f"p{prompt}" for prompt in prompts]})
    rollouts["rollout"] = np.tile(np.arange(group), PROMPTS)
    rollouts = rollouts.assign(**{f"score_{name}": given[:, k] for k, name in enumerate(NAMES)})
    rollouts = rollouts.assign(**{f"advantage_{name}": shares[:, k] for k, name in enumerate(NAMES)})
    two_steps = pd.concat([rollouts, rollouts.assign(step=8)]).sample(frac=1, random_state=0)
    write_parquet(two_steps, folder / "rollouts.parquet")
    write_json({"spec": arm_spec(weights=OWN, training=training)}, folder / "run.json")
    tables = []
    order = rng.permutation(size)
    for block in range(blocks):
        here = order[block::blocks]
        grams = np.stack([rows[here] @ rows[here].T for rows in gradients])
        labels = rollouts.iloc[here]
        families = changes.get("families", ["all_tokens"] * size)
        ids = list(labels["problem_id"]), list(labels["rollout"])
        rows = row_table(7, block, [7] * len(here), *ids, families[: len(here)], token_weights[here])
        tables.append((gram_table(7, block, ["own", "shared"], grams), rows))
    for name, parts in zip((GRAMS_FILE, ROWS_FILE), zip(*tables, strict=True), strict=True):
        write_parquet(pa.concat_tables(parts).combine_chunks(), folder / name)
    return Run(folder, policy, gradients, token_weights, given, prompts, how)


OTHER = {"format": 1.0, "length": -0.3}  # on the ablated component, and none on correctness


@pytest.mark.parametrize(
    ("training", "gaps"),
    [
        ({"scale_rewards": "group"}, 0.2),
        ({"scale_rewards": "batch"}, 0.0),
        ({"scale_rewards": "none"}, 0.0),
        ({"multi_objective_aggregation": "normalize_then_sum"}, 0.2),
    ],
)
def test_similarity_under_other_weights_is_that_of_the_gradients(tmp_path, training, gaps):
    run = make_run(tmp_path, training=training, gaps=gaps)
    table = what_if(OTHER, read_measured_step(tmp_path, 7)).similarity
    assert list(table.columns) == SCHEMA.names
    rows = table.set_index(["layer", "component_a", "component_b"])
    shares = advantage_shares(run.scores, np.array([0.0, 1.0, -0.3]), *run.how)
    vectors = {name: [shares[:, k] @ rows for rows in run.gradients] for k, name in enumerate(NAMES)}
    vectors["total"] = [shares.sum(axis=1) @ rows for rows in run.gradients]
    for layer, some in (("all", (0, 1)), ("own", (0,)), ("shared", (1,))):
        for a, b in (("format", "length"), ("format", "total"), ("format", "format")):
            dot = sum(vectors[a][n] @ vectors[b][n] for n in some)
            norms = [sum(vectors[name][n] @ vectors[name][n] for n in some) ** 0.5 for name in (a, b)]
            row = rows.loc[(layer, a, b)]
            # half precision of the stored cosines
            assert row["dot"] == pytest.approx(dot, abs=2e-3 * norms[0] * norms[1])
            assert (row["norm_a"], row["norm_b"]) == pytest.approx(norms, rel=2e-3)
    assert np.isnan(rows.loc[("all", "correctness", "format"), "cosine"])  # weight 0: no share


@pytest.mark.parametrize("masked", [[], [0, 1, 2, 3, 4, 9]])
def test_intervals_of_effects_leave_out_a_prompt_at_a_time(tmp_path, masked):
    run = make_run(tmp_path, masked=masked)
    counted = run.token_weights > 0
    found = what_if(OTHER, read_measured_step(tmp_path, 7)).effect.set_index(["layer", "component"])
    shares = advantage_shares(run.scores, np.array([0.0, 1.0, -0.3]), *run.how).sum(axis=1)
    rows = np.concatenate(run.gradients, axis=1)
    others = [np.delete(np.flatnonzero(run.prompts == run.prompts[i]), i % 8) for i in range(len(rows))]
    for k, name in enumerate(NAMES):
        against = np.array([run.scores[i, k] - run.scores[others[i], k].mean() for i in range(len(rows))])
        inverse = np.divide(1, run.token_weights, out=np.zeros(len(rows)), where=counted)
        gradients = against[:, None] * -rows * inverse[:, None]
        estimates = []
        for kept in (run.prompts != prompt for prompt in range(PROMPTS)):
            step = -shares[kept] @ rows[kept]
            estimates.append(gradients[kept & counted].mean(axis=0) @ step / np.linalg.norm(step))
        error = (3 / 4 * np.sum((np.array(estimates) - np.mean(estimates)) ** 2)) ** 0.5
        row = found.loc[("all", name)]
        assert row["self"] + row["same_prompt"] + row["cross_prompt"] == pytest.approx(row["effect"])
        assert row["effect"] == pytest.approx(sum(found.loc[(layer, name), "effect"] for layer in ("own", "shared")))
        step = -shares @ rows
        mean = gradients[counted].mean(axis=0)
        assert row["effect"] == pytest.approx(mean @ step, abs=3e-3 * abs(found["effect"]).max())
        assert row["per_length"] == pytest.approx(row["effect"] / np.linalg.norm(step), rel=2e-3)
        margin = 3.182446 * error  # Student's t with 3 degrees of freedom, .975
        ends = row["per_length_high"] - row["per_length"], row["per_length"] - row["per_length_low"]
        assert ends == pytest.approx((margin, margin), rel=0.02)


@pytest.mark.parametrize("weights", [OWN, OTHER])
def test_effects_are_what_a_small_step_does_to_the_expected_scores(tmp_path, weights):
    """Finite differences of the expected scores, which are known for this policy, along the step.

    Every answer was drawn exactly as often as expected, so that only the baseline differs, which leaves out one of 20.
    """
    run = make_run(tmp_path, group=20, training={"scale_rewards": "none"})
    found = what_if(weights, read_measured_step(tmp_path, 7)).effect.set_index(["layer", "component"]).loc["all"]
    own, shared = run.direction(weights)
    after = run.policy.expected_scores(1e-4 * own.reshape(PROMPTS, ACTIONS), 1e-4 * shared)
    true = (after - run.policy.expected_scores()) / 1e-4
    assert list(found.loc[NAMES, "effect"] * 19 / 20) == pytest.approx(list(true), abs=2e-3 * np.abs(true).max())
    assert found.loc[max(weights, key=weights.get), "effect"] > 0


def test_a_step_of_a_larger_generation_batch_has_its_advantages(tmp_path):
    """Advantages use whole groups, also if the step took only some of their completions."""
    run = make_run(tmp_path, blocks=2)
    similarity = what_if(OWN, read_measured_step(tmp_path, 7)).similarity
    total = similarity.set_index(["layer", "component_a", "component_b"]).loc[("all", "total", "total")]
    whole = sum(part @ part for part in run.direction(OWN))
    assert total["across_blocks"] == 0  # terms between blocks are left out
    assert abs(total["dot"] - whole) > 0.01 * whole
    for name in (GRAMS_FILE, ROWS_FILE):
        path = tmp_path / name
        write_parquet(pd.read_parquet(path).query("block == 0"), path)
    # pandas loses the half precision of lists, which is of no account here
    measured = read_measured_step(tmp_path, 7)
    assert [len(block.rows) for block in measured.blocks] == [16]
    assert len(measured.completions) == 32
    assert np.isfinite(what_if(OWN, measured).effect["effect"]).all()
    found = what_if({}, measured)  # no step
    assert (found.effect["effect"] == 0).all()
    assert found.effect["per_length"].isna().all()
    assert found.similarity["cosine"].isna().all()


@pytest.mark.parametrize(
    ("weights", "step", "families", "change", "told"),
    [
        ({"fromat": 1.0}, 7, None, None, "unknown component 'fromat'; components here: correctness, format, length"),
        ({"format": float("nan")}, 7, None, None, "weights.format: nan is not a finite number"),
        (OWN, 6, None, None, "step 6 was not measured"),
        (OWN, 7, ["all_tokens", "last_token"] * 16, None, "has gradients of last_token; other weights"),
        (OWN, 7, None, lambda rows: rows.assign(advantage_length=9.0), "do not follow from its scores"),
        (OWN, 7, None, lambda rows: pd.concat([rows, rows]), "a problem occurs twice"),
    ],
)
def test_what_cannot_be_answered_is_refused(tmp_path, weights, step, families, change, told):
    make_run(tmp_path, **({"families": families} if families else {}))
    if change:
        path = tmp_path / "rollouts.parquet"
        write_parquet(change(pd.read_parquet(path)), path)
    with pytest.raises(StudyError, match=told) as error:
        what_if(weights, read_measured_step(tmp_path, step))
    assert "\n" not in str(error.value)
