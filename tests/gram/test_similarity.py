"""Similarities from Gram matrices against plain loops over explicit gradients, and on hand-worked values."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from gram.made_up_rows import Rows, made_up_rows
from reward_ablation.gram.similarity import PARTS, SCHEMA, Block, gradient_rows, inverse_norms

THREE = [("alone", "a"), ("alone", "b"), ("alone", "c")]
LAYERS = ["embed_tokens", "layers.0"]


def table_of(rows: Rows, vectors=THREE, step: int = 3) -> pd.DataFrame:
    across = rows.across() if len(np.unique(rows.blocks)) > 1 else None
    table = gradient_rows(step, LAYERS, vectors, rows.known(), across)
    assert table.schema == SCHEMA
    return table.to_pandas()


def pair(table: pd.DataFrame, layer: str, a: str, b: str) -> pd.Series:
    return table.set_index(["layer", "component_a", "component_b"]).loc[(layer, a, b)]


def test_cosines_of_hand_worked_gradients():
    gradients = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0]])
    gram = gradients @ gradients.T
    cosine = gram * inverse_norms(gram)
    assert cosine[0, 1] == pytest.approx(2**-0.5)
    assert cosine[0, 2] == -1
    assert np.isnan(cosine[3]).all()
    assert np.isnan(cosine[:, 3]).all()
    assert np.isfinite(cosine[:3, :3]).all()  # a zero gradient spoils no other pair


@pytest.mark.parametrize("families", [1, 2])
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_number_is_that_of_the_explicit_gradients(families, blocks):
    rows = made_up_rows(families=families, blocks=blocks)
    table = table_of(rows)
    gradients = rows.vectors()
    # over all layers gradients are laid end to end, and parts add up
    whole = np.concatenate(list(gradients), axis=1)
    for layer, vectors, places in [
        ("all", whole, [0, 1]),
        (LAYERS[0], gradients[0], [0]),
        (LAYERS[1], gradients[1], [1]),
    ]:
        for a, b in [(0, 0), (0, 1), (0, 2), (1, 2)]:
            row = pair(table, layer, "abc"[a], "abc"[b])
            norms = np.linalg.norm(vectors[a]), np.linalg.norm(vectors[b])
            assert row["dot"] == pytest.approx(vectors[a] @ vectors[b], rel=1e-12)
            # stored in single precision
            assert row["cosine"] == pytest.approx(vectors[a] @ vectors[b] / norms[0] / norms[1], abs=1e-7)
            assert (row["norm_a"], row["norm_b"]) == pytest.approx(norms, rel=1e-6)
            parts = [rows.part(place, a, b) for place in places]
            for name in parts[0]:
                expected = sum(part[name] for part in parts) / norms[0] / norms[1]
                assert row[name] == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize("blocks", [1, 3])
def test_dots_are_right_to_the_last_digits(blocks):
    rows = made_up_rows(seed=5, blocks=blocks, group=5)
    gradients = rows.vectors()
    expected = np.stack([vectors @ vectors.T for vectors in gradients])
    stored = table_of(rows).set_index(["layer", "component_a", "component_b"])["dot"]
    for place, layer in enumerate(LAYERS):
        for a, b in [(0, 0), (0, 1), (1, 2)]:
            assert stored[layer, "abc"[a], "abc"[b]] == pytest.approx(expected[place, a, b], rel=1e-12)


def test_a_row_per_layer_definition_and_pair_in_order():
    vectors = [("alone", "b"), ("alone", "a"), ("share", "a"), ("share", "kl")]
    table = table_of(made_up_rows(vectors=4), vectors)
    pairs = [("alone", "b", "b"), ("alone", "b", "a"), ("alone", "a", "a")]
    pairs += [("share", "a", "a"), ("share", "a", "kl"), ("share", "kl", "kl")]
    found = list(table[["layer", "definition", "component_a", "component_b"]].itertuples(index=False, name=None))
    assert found == [(layer, *names) for layer in ["all", *LAYERS] for names in pairs]
    assert set(table["step"]) == {3}


def jackknife_by_hand(rows: Rows, layer: int, a: int, b: int, name: str) -> tuple[float, float]:
    """Interval from leaving out one prompt at a time and computing all anew, with `across` held fixed."""
    across = rows.across()
    estimates = []
    for left_out in [None, *np.unique(rows.prompts)]:
        kept = rows.prompts != left_out
        fewer = replace(rows, coefficients=rows.coefficients * kept)
        parts = {
            (x, y): fewer.part(layer, x, y) | {"across_blocks": across[layer, x, y]}
            for x, y in [(a, b), (a, a), (b, b)]
        }
        scale = (sum(parts[a, a].values()) * sum(parts[b, b].values())) ** 0.5
        value = sum(parts[a, b].values()) if name == "cosine" else parts[a, b][name]
        estimates.append(np.clip(value / scale, -1, 1) if name == "cosine" else value / scale)
    whole, units = estimates[0], np.array(estimates[1:])
    error = ((len(units) - 1) / len(units) * np.sum((units - units.mean()) ** 2)) ** 0.5
    margin = student.ppf(0.975, len(units) - 1) * error
    return whole - margin, whole + margin


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("name", ["cosine", *PARTS])
def test_intervals_are_those_of_one_prompt_left_out_at_a_time(name, blocks):
    rows = made_up_rows(seed=1, prompts=6, blocks=blocks)
    for layer in (0, 1):
        for a, b in [(0, 1), (1, 2)]:
            row = pair(table_of(rows), LAYERS[layer], "abc"[a], "abc"[b])
            low, high = jackknife_by_hand(rows, layer, a, b, name)
            assert high - low > 0.01
            limit = 1.0 if name == "cosine" else np.inf
            assert row[f"{name}_low"] == pytest.approx(max(low, -limit), abs=1e-6)
            assert row[f"{name}_high"] == pytest.approx(min(high, limit), abs=1e-6)


def test_an_interval_worked_by_hand():
    # Three prompts of one completion, gradients 1, 2 and 2 along axes of their own, so that nothing but `self` is
    # left; a = (1, 1, 1), b = (1, 1, -1). Dots: aa = bb = 9, ab = 1 + 4 - 4 = 1, so the cosine is 1/9; without the
    # first 0/8, the second -3/5, the third 5/5. Mean 2/15, squared deviations .017778 + .537778 + .751111 = 1.306667,
    # times 2/3 .871111, root .933333; times Student's 4.302653 with 2 degrees 4.01581: all of [-1, 1] for the cosine.
    gram = np.diag([1.0, 4.0, 4.0])[None]
    coefficients = np.array([[1.0, 1, 1], [1, 1, -1]])
    block = Block(gram, coefficients, np.arange(3), np.arange(3))
    row = gradient_rows(1, ["x"], THREE[:2], [block]).to_pandas().set_index(["layer", "component_a", "component_b"])
    row = row.loc[("x", "a", "b")]
    assert row["cosine"] == row["self"] == pytest.approx(1 / 9)
    assert (row["cosine_low"], row["cosine_high"]) == (-1, 1)
    assert (row["self_low"], row["self_high"]) == pytest.approx((1 / 9 - 4.01581, 1 / 9 + 4.01581), abs=1e-5)
    assert (row["same_prompt"], row["cross_prompt"], row["across_blocks"]) == (0, 0, 0)
    assert (row["cross_prompt_low"], row["cross_prompt_high"]) == (0, 0)


def test_a_zero_gradient_has_nulls_and_spoils_no_other():
    rows = made_up_rows()
    rows.coefficients[1] = 0
    table = table_of(rows)
    zero = (table["component_a"] == "b") | (table["component_b"] == "b")
    empty = [name for name in SCHEMA.names[6:] if not name.startswith("norm")]
    assert table.loc[zero, empty].isna().all(axis=None)
    assert (table.loc[zero, "dot"] == 0).all()
    assert (pair(table, "all", "b", "b")[["norm_a", "norm_b"]] == 0).all()
    assert table.loc[~zero].notna().all(axis=None)
    assert gradient_rows(3, LAYERS, THREE, rows.known()).column("cosine").null_count == zero.sum()  # null, not NaN


def test_one_prompt_has_no_interval():
    table = table_of(made_up_rows(prompts=1))
    assert table[[name for name in SCHEMA.names if name.endswith(("_low", "_high"))]].isna().all(axis=None)
    assert table["cosine"].notna().all()
    assert (table["cross_prompt"] == 0).all()


@pytest.mark.parametrize("elsewhere", [0.0, 1e-8])
def test_a_gradient_of_a_single_prompt_has_no_interval(elsewhere):
    """Without that prompt only rounding errors remain, so that its influence on the cosine cannot be known."""
    rows = made_up_rows()
    rows.coefficients[1] *= np.where(rows.prompts == 11, 1.0, elsewhere)
    row = pair(table_of(rows), "all", "a", "b")
    assert np.isfinite(row["cosine"])
    assert np.isnan(row["cosine_low"])
    assert np.isfinite(pair(table_of(rows), "all", "a", "c")["cosine_low"])


def test_a_component_with_itself_is_sure():
    row = pair(table_of(made_up_rows()), "all", "b", "b")
    assert (row["cosine"], row["cosine_low"], row["cosine_high"]) == pytest.approx((1, 1, 1))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=st.integers(1, 5),
    group=st.integers(1, 4),
    families=st.integers(1, 2),
    blocks=st.integers(1, 3),
)
def test_the_order_of_rows_means_nothing_and_parts_add_up(seed, prompts, group, families, blocks):
    rows = made_up_rows(seed, prompts=prompts, group=group, families=families, blocks=blocks)
    table = table_of(rows)
    order = np.random.default_rng(seed).permutation(len(rows.prompts))
    shuffled = Rows(
        rows.gradients[:, order],
        rows.coefficients[:, order],
        rows.completions[order],
        rows.prompts[order],
        (rows.blocks[order] + 1) % blocks,  # blocks in another order, too
    )
    numbers = SCHEMA.names[5:]
    np.testing.assert_allclose(table_of(shuffled)[numbers], table[numbers], rtol=2e-4, atol=2e-5)
    known = table[table["cosine"].notna()]
    added = known[[*PARTS, "across_blocks"]].astype(float).sum(axis=1)
    np.testing.assert_allclose(added, known["cosine"], atol=1e-5)
    assert known["cosine"].between(-1, 1).all()
    assert (known["cosine_low"].fillna(-1) <= known["cosine_high"].fillna(1)).all()


def test_intervals_cover_the_truth():
    """300 simulated steps of 16 prompts. The true value is the cosine for very many completions.

    Rows are independent with expected square length 7 and advantages correlated by .5: the true cosine is .5.
    """
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(300):
        gradients = rng.normal(size=(1, 64, 200))
        advantages = np.linalg.cholesky([[1, 0.5], [0.5, 1]]) @ rng.normal(size=(2, 64))
        block = Block(gradients @ gradients.swapaxes(1, 2), advantages, np.arange(64), np.arange(64) // 4)
        row = gradient_rows(1, ["x"], THREE[:2], [block]).slice(1, 1).to_pylist()[0]
        covered += row["self_low"] <= 0.5 <= row["self_high"]
    assert 0.9 <= covered / 300 <= 0.985


@pytest.mark.parametrize(("vectors", "seconds"), [(6, 0.1), (60, 1.0)])
def test_a_step_of_64_completions_costs_little(vectors, seconds):
    """Some 4 and 55 ms here; the bounds leave room for a busy machine."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(31, 64, 80))
    block = Block(rows @ rows.swapaxes(1, 2), rng.normal(size=(vectors, 64)), np.arange(64), np.arange(64) // 8)
    names = [("alone" if n % 2 else "share", f"c{n}") for n in range(vectors)]
    took = []
    for _ in range(3):
        start = perf_counter()
        gradient_rows(1, [f"layers.{n}" for n in range(31)], names, [block])
        took.append(perf_counter() - start)
    assert min(took) < seconds
