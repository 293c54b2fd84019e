"""Similarities from Gram matrices against plain loops over explicit gradients, and on hand-worked values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from reward_ablation.gram.similarity import PARTS, SCHEMA, Block, gradient_rows

THREE = [("alone", "a"), ("alone", "b"), ("alone", "c")]
LAYERS = ["embed_tokens", "layers.0"]


@dataclass(frozen=True)
class Rows:
    """Row gradients of one step, whole.

    gradients : (L, R, P); coefficients : (V, R); completions, prompts, blocks : (R,) int.
    """

    gradients: np.ndarray
    coefficients: np.ndarray
    completions: np.ndarray
    prompts: np.ndarray
    blocks: np.ndarray

    def vectors(self, rows=slice(None)) -> np.ndarray:
        """(L, V, P) gradients of the vectors, from some of the rows."""
        return np.einsum("vr,lrp->lvp", self.coefficients[:, rows], self.gradients[:, rows])

    def known(self) -> list[Block]:
        """The blocks as a run has them: with inner products inside blocks only."""
        found = []
        for here in (self.blocks == block for block in np.unique(self.blocks)):
            grams = np.einsum("lrp,lsp->lrs", self.gradients[:, here], self.gradients[:, here])
            found.append(Block(grams, self.coefficients[:, here], self.completions[here], self.prompts[here]))
        return found

    def across(self) -> np.ndarray:
        """(L, V, V) products over the pairs of different blocks: products of the sums minus products inside blocks."""
        whole = self.vectors()
        inside = [self.vectors(self.blocks == block) for block in np.unique(self.blocks)]
        return whole @ whole.swapaxes(1, 2) - sum(part @ part.swapaxes(1, 2) for part in inside)

    def part(self, layer: int, a: int, b: int) -> dict[str, float]:
        """Each part of the inner product of two vectors, pair by pair."""
        sums = dict.fromkeys(("self", "same_prompt", "cross_prompt", "across_blocks"), 0.0)
        for r in range(len(self.prompts)):
            for s in range(len(self.prompts)):
                kind = "same_prompt" if self.prompts[r] == self.prompts[s] else "cross_prompt"
                if self.completions[r] == self.completions[s]:
                    kind = "self"
                if self.blocks[r] != self.blocks[s]:
                    kind = "across_blocks"
                product = self.gradients[layer, r] @ self.gradients[layer, s]
                sums[kind] += self.coefficients[a, r] * self.coefficients[b, s] * float(product)
        return sums


def made_up_rows(seed=0, prompts=4, group=3, vectors=3, families=1, blocks=1) -> Rows:
    """Random row gradients with a common part. A group may span several blocks, a family lies within one block."""
    rng = np.random.default_rng(seed)
    completions = np.repeat(np.arange(prompts * group), families)
    return Rows(
        gradients=rng.normal(size=(2, len(completions), 7)) + 0.5 * rng.normal(size=(2, 1, 7)),
        coefficients=rng.normal(size=(vectors, len(completions))),
        completions=completions,
        prompts=completions // group + 10,
        blocks=completions % blocks,
    )


def table_of(rows: Rows, vectors=THREE, step: int = 3) -> pd.DataFrame:
    across = rows.across() if len(np.unique(rows.blocks)) > 1 else None
    table = gradient_rows(step, LAYERS, vectors, rows.known(), across)
    assert table.schema == SCHEMA
    return table.to_pandas()


def pair(table: pd.DataFrame, layer: str, a: str, b: str) -> pd.Series:
    return table.set_index(["layer", "component_a", "component_b"]).loc[(layer, a, b)]


@pytest.mark.parametrize("families", [1, 2])
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_number_is_that_of_the_explicit_gradients(families, blocks):
    rows = made_up_rows(families=families, blocks=blocks)
    table = table_of(rows)
    gradients = rows.vectors()
    # over all layers gradients are laid end to end, and parts add up
    whole = np.concatenate(list(gradients), axis=1)
    for layer, vectors, places in [("all", whole, [0, 1]), (LAYERS[1], gradients[1], [1])]:
        for a, b in [(0, 0), (0, 1), (1, 2)]:
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


def test_a_row_per_layer_definition_and_pair_in_order():
    vectors = [("alone", "b"), ("alone", "a"), ("share", "a"), ("share", "kl")]
    table = table_of(made_up_rows(vectors=4), vectors)
    pairs = [("alone", "b", "b"), ("alone", "b", "a"), ("alone", "a", "a")]
    pairs += [("share", "a", "a"), ("share", "a", "kl"), ("share", "kl", "kl")]
    found = list(table[["layer", "definition", "component_a", "component_b"]].itertuples(index=False, name=None))
    assert found == [(layer, *names) for layer in ["all", *LAYERS] for names in pairs]
    assert set(table["step"]) == {3}
    itself = pair(table, "all", "b", "b")  # is sure
    assert (itself["cosine"], itself["cosine_low"], itself["cosine_high"]) == pytest.approx((1, 1, 1))
    one_prompt = table_of(made_up_rows(prompts=1))  # has no interval
    assert one_prompt[[name for name in SCHEMA.names if name.endswith(("_low", "_high"))]].isna().all(axis=None)
    assert one_prompt["cosine"].notna().all()


def jackknife_by_hand(rows: Rows, layer: int, a: int, b: int, name: str) -> tuple[float, float]:
    """Interval from leaving out one prompt at a time and computing all anew, with `across` held fixed."""
    across = rows.across()
    estimates = []
    for left_out in [None, *np.unique(rows.prompts)]:
        kept = rows.prompts != left_out
        fewer = replace(rows, coefficients=rows.coefficients * kept)
        of_pairs = [(a, b), (a, a), (b, b)]
        parts = {(x, y): fewer.part(layer, x, y) | {"across_blocks": across[layer, x, y]} for x, y in of_pairs}
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
    row = pair(table_of(rows), LAYERS[1], "b", "c")
    low, high = jackknife_by_hand(rows, 1, 1, 2, name)
    assert high - low > 0.01
    limit = 1.0 if name == "cosine" else np.inf
    assert row[f"{name}_low"] == pytest.approx(max(low, -limit), abs=1e-6)
    assert row[f"{name}_high"] == pytest.approx(min(high, limit), abs=1e-6)


def test_a_zero_gradient_has_nulls_and_spoils_no_other():
    rows = made_up_rows()
    rows.coefficients[1] = 0
    table = table_of(rows)
    zero = (table["component_a"] == "b") | (table["component_b"] == "b")
    empty = [name for name in SCHEMA.names[6:] if not name.startswith("norm")]
    assert table.loc[zero, empty].isna().all(axis=None)
    assert (table.loc[zero, "dot"] == 0).all()
    assert table.loc[~zero].notna().all(axis=None)
    assert gradient_rows(3, LAYERS, THREE, rows.known()).column("cosine").null_count == zero.sum()  # null, not NaN


@pytest.mark.parametrize("elsewhere", [0.0, 1e-8])
def test_a_gradient_of_a_single_prompt_has_no_interval(elsewhere):
    """Without that prompt only rounding errors remain, so that its influence on the cosine cannot be known."""
    rows = made_up_rows()
    rows.coefficients[1] *= np.where(rows.prompts == 11, 1.0, elsewhere)
    row = pair(table_of(rows), "all", "a", "b")
    assert np.isfinite(row["cosine"])
    assert np.isnan(row["cosine_low"])
    assert np.isfinite(pair(table_of(rows), "all", "a", "c")["cosine_low"])
