"""Cosines of projected gradients against the gradients themselves."""

import numpy as np
import pytest

from reward_ablation.analysis.gradients.projections import cosine_of_layers, projected_cosine
from reward_ablation.gram.store import PROJECTIONS_FILE, projection_table
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet

LAYERS = ["embed_tokens", "layers.0"]
VECTORS = [("alone", "format"), ("share", "format"), ("alone", "length")]


def sketch(gradients: np.ndarray, size: int, seed: int = 0) -> np.ndarray:
    """(L, V, P) gradients to (L, V, size): each number with a random sign to a random place, the same in every run."""
    rng = np.random.default_rng(seed)
    projected = np.zeros((*gradients.shape[:2], size))
    for layer in range(len(gradients)):
        signs, places = rng.choice([-1, 1], gradients.shape[2]), rng.integers(size, size=gradients.shape[2])
        for vector in range(gradients.shape[1]):
            np.add.at(projected[layer, vector], places, signs * gradients[layer, vector])
    return projected


def write(folder, step: int, gradients: np.ndarray, size: int = 509, vectors=VECTORS) -> None:
    table = projection_table(step, LAYERS, vectors, sketch(gradients, size))
    write_parquet(table, folder / PROJECTIONS_FILE)


def alike(rng, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Two steps' gradients with a part in common; the second layer is ten times the first."""
    scale = np.array([1.0, 10.0])[:, None, None]
    common = rng.normal(size=(2, 3, 8000))
    return tuple(scale * (share * common + rng.normal(size=(2, 3, 8000))) for _ in range(2))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b))


def test_cosines_of_two_runs_are_those_of_the_whole_gradients(tmp_path):
    first, second = alike(np.random.default_rng(1), 1.5)
    for name, step, gradients in (("one", 50, first), ("two", 60, second)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, step, gradients)
    table = projected_cosine(tmp_path / "one", 50, tmp_path / "two", 60)
    assert list(table.columns) == ["definition", "component", "layer", "cosine", "standard_error"]
    assert list(table["layer"]) == ["all", *LAYERS] * 3
    rows = table.set_index(["definition", "component", "layer"]).sort_index()
    for place, vector in enumerate(VECTORS):
        for layer, some in (("all", slice(None)), (LAYERS[0], 0), (LAYERS[1], 1)):
            row = rows.loc[(*vector, layer)]
            assert abs(row["cosine"] - cosine(first[some, place], second[some, place])) < 4 * row["standard_error"]
            assert 0.005 < row["standard_error"] < 0.03


def test_a_step_with_itself(tmp_path):
    write(tmp_path, 3, alike(np.random.default_rng(2), 1)[0])
    table = projected_cosine(tmp_path, 3, tmp_path, 3)
    assert list(table["cosine"]) == pytest.approx([1] * 9)
    assert list(table["standard_error"]) == pytest.approx([0] * 9, abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.7, 2.0])
def test_the_standard_error_is_that_of_many_projections(share):
    first, second = alike(np.random.default_rng(3), share)
    first, second = first[:, :1, :2000], second[:, :1, :2000]
    found, errors = [], []
    for seed in range(250):
        a, b = (sketch(gradients, 101, seed)[:, 0] for gradients in (first, second))
        cosine_, error = cosine_of_layers(np.stack([a * b, a**2, b**2]).sum(axis=2), 101)
        found.append(cosine_)
        errors.append(error)
    assert np.mean(found) == pytest.approx(cosine(first[:, 0], second[:, 0]), abs=0.03)
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.15)


def test_the_standard_error_in_one_layer_is_that_of_a_correlation():
    # gradients of squared lengths 4 and 9 and inner product 3: cosine .5, (1 - .25) / sqrt(100)
    found = cosine_of_layers(np.array([[3.0], [4.0], [9.0]]), 100)
    assert found == pytest.approx((0.5, 0.075))


def test_layers_of_like_size_share_the_error():
    # two layers alike have twice the numbers: .75 / sqrt(200)
    found = cosine_of_layers(np.array([[3.0, 3.0], [4.0, 4.0], [9.0, 9.0]]), 100)
    assert found == pytest.approx((0.5, 0.75 / 200**0.5))


def test_a_zero_gradient_has_no_cosine(tmp_path):
    first, second = alike(np.random.default_rng(4), 1)
    second[0, 0] = 0  # in one layer: over all layers there still is a cosine
    second[:, 1] = 0
    for name, gradients in (("one", first), ("two", second)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 1, gradients)
    rows = (
        projected_cosine(tmp_path / "one", 1, tmp_path / "two", 1)
        .set_index(["definition", "component", "layer"])
        .sort_index()
    )
    assert np.isnan(rows.loc[("alone", "format", "embed_tokens"), "cosine"])
    assert np.isfinite(rows.loc[("alone", "format", "all"), "cosine"])
    assert rows.loc[("share", "format")].isna().all(axis=None)


def test_only_what_both_have_is_compared(tmp_path):
    first, second = alike(np.random.default_rng(5), 1)
    for name, gradients, vectors in (("one", first, VECTORS), ("two", second[:, :1], VECTORS[2:])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 1, gradients, vectors=vectors)
    table = projected_cosine(tmp_path / "one", 1, tmp_path / "two", 1)
    assert set(zip(table["definition"], table["component"], strict=True)) == {("alone", "length")}


def test_projections_of_two_sizes_are_refused(tmp_path):
    first, second = alike(np.random.default_rng(6), 1)
    for name, gradients, size in (("one", first, 509), ("two", second, 101)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 1, gradients, size)
    with pytest.raises(StudyError, match="projections of 101 and of 509 numbers; compare runs of one study"):
        projected_cosine(tmp_path / "one", 1, tmp_path / "two", 1)
