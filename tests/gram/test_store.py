"""Sample Gram matrices are the same after writing and reading, and their files stay small."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.gram.store import (
    GRAM_SCHEMA,
    GRAMS_FILE,
    ROW_SCHEMA,
    ROWS_FILE,
    StoredGrams,
    gram_table,
    row_table,
)
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet


def random_grams(seed: int, layers: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(layers, rows, 50)) * 10 ** rng.uniform(-6, 2, size=(layers, rows, 1))
    return gradients @ gradients.swapaxes(1, 2)


def labels(step: int, block: int, rows: int) -> pa.Table:
    ids = [f"gsm8k:{block}{n // 2}" for n in range(rows)]
    return row_table(
        step, block, [step] * rows, ids, [n % 2 for n in range(rows)], ["all_tokens"] * rows, [0.01] * rows
    )


def write_steps(folder, grams: dict[tuple[int, int], np.ndarray]) -> None:
    layers = ["embed_tokens", "layers.0", "norm"]
    tables = [gram_table(step, block, layers, of_block) for (step, block), of_block in grams.items()]
    write_parquet(pa.concat_tables(tables).combine_chunks(), folder / GRAMS_FILE)
    rows = [labels(step, block, of_block.shape[1]) for (step, block), of_block in grams.items()]
    write_parquet(pa.concat_tables(rows).combine_chunks(), folder / ROWS_FILE)


def test_the_triangle_is_row_by_row_without_the_diagonal():
    gradients = np.array([[3.0, 0.0], [0.0, 2.0], [4.0, 4.0]])
    table = gram_table(2, 1, ["x"], (gradients @ gradients.T)[None])
    assert table["norms"].to_pylist()[0] == pytest.approx([3, 2, 32**0.5])
    assert table["cosines"].to_pylist()[0] == pytest.approx([0, 2**-0.5, 2**-0.5], rel=1e-3)  # 01, 02, 12


def test_grams_come_back_to_half_precision(tmp_path):
    grams = {(step, block): random_grams(10 * step + block, 3, 4 + block) for step in (1, 2) for block in (0, 1)}
    write_steps(tmp_path, grams)
    blocks = StoredGrams(tmp_path, [2])[2]
    assert [len(block.rows) for block in blocks] == [4, 5]
    for number, block in enumerate(blocks):
        assert block.layers == ["embed_tokens", "layers.0", "norm"]
        expected = grams[2, number]
        scale = np.sqrt(np.diagonal(expected, axis1=1, axis2=2))
        error = np.abs(block.grams - expected) / scale[:, :, None] / scale[:, None, :]
        assert error.max() < 2**-11  # of a cosine in half precision
        assert list(block.rows["problem_id"])[:3] == [f"gsm8k:{number}0", f"gsm8k:{number}0", f"gsm8k:{number}1"]
        assert list(block.rows.columns) == ["generation_step", "problem_id", "rollout", "family", "token_weight"]


def test_zero_and_single_rows_come_back(tmp_path):
    grams = random_grams(3, 3, 4)
    grams[:, 1], grams[:, :, 1] = 0, 0
    write_steps(tmp_path, {(1, 0): grams, (2, 0): np.full((3, 1, 1), 4.0)})
    stored = StoredGrams(tmp_path, [1, 2])
    assert (stored[1][0].grams[:, 1] == 0).all()
    assert np.isfinite(stored[1][0].grams).all()
    np.testing.assert_array_equal(stored[2][0].grams, np.full((3, 1, 1), 4.0))


def test_what_is_not_there_is_told_in_one_line(tmp_path):
    with pytest.raises(StudyError, match="there is no such file"):
        StoredGrams(tmp_path, [1])
    write_steps(tmp_path, {(2, 0): random_grams(0, 3, 4)})
    with pytest.raises(StudyError, match="step 1 was not measured") as error:
        StoredGrams(tmp_path, [1, 2])[1]
    assert "\n" not in str(error.value)


def test_a_step_of_64_completions_and_30_layers_is_under_a_megabyte(tmp_path):
    """The figure that the documentation states: 200 kB, whatever the gradients are."""
    rng = np.random.default_rng(0)
    layers = [f"layers.{n}" for n in range(30)]
    gradients = rng.normal(size=(30, 64, 400))
    grams, rows = gram_table(1, 0, layers, gradients @ gradients.swapaxes(1, 2)), labels(1, 0, 64)
    assert (grams.schema, rows.schema) == (GRAM_SCHEMA, ROW_SCHEMA)
    write_parquet(grams, tmp_path / "grams.parquet")
    write_parquet(rows, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "grams.parquet").equals(grams)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 200_000
