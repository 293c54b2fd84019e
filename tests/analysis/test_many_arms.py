"""Tables of many arms are written and read part by part: memory does not grow with the table."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from analysis.all_tables import command
from analysis.made_up import MadeUpStudy
from reward_ablation.analysis import tables
from reward_ablation.analysis.statistics.contrasts import LACK_OF_FIT, MOST_CONTRASTS, regression
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, columns, write_tables
from reward_ablation.analysis.training.tables import SCHEMAS

SCHEMA = {"by_step": columns((TEXT, "arm"), (COUNT, "step"), (NUMBER, "value"))}


def parts(count: int, rows: int = 2000):
    for number in range(count):
        rng = np.random.default_rng(number)
        yield "by_step", pd.DataFrame({"arm": f"arm{number // 3}", "step": range(rows), "value": rng.normal(size=rows)})


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_OF_GROUP", 5000)


def test_parts_make_the_table_that_the_whole_makes(tmp_path, small_groups):
    write_tables(parts(8), SCHEMA, tmp_path / "parts")
    write_tables({"by_step": pd.concat([rows for _, rows in parts(8)])}, SCHEMA, tmp_path / "whole")
    for file in ("by_step.parquet", "by_step.csv"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert len(pd.read_csv(tmp_path / "parts" / "by_step.csv")) == 16_000


def test_what_waits_in_memory_does_not_grow_with_the_table(tmp_path, small_groups):
    peaks = []
    for count in (5, 5, 100):  # the first one imports and fills caches
        tracemalloc.start()
        write_tables(parts(count), SCHEMA, tmp_path / str(count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def test_a_rule_holds_one_arm_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_OF_GROUP", 2000)
    peaks = []
    for arms in (4, 4, 24):
        root = tmp_path / f"{arms}-{len(peaks)}"
        made = MadeUpStudy(
            {f"arm{n}": {"a": 1.0, "b": n / arms} for n in range(arms)}, steps=120, rollouts=32, layers=0
        )
        made.write(root)
        tracemalloc.start()
        command("training", root, root / "tables")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        written = pd.read_parquet(root / "tables" / "rewards_by_step.parquet")
        assert list(written) == SCHEMAS["rewards_by_step"].names
        assert len(written) == arms * 2 * 120 * 5
    assert peaks[2] < 1.7 * peaks[1]


def test_contrasts_of_lack_of_fit_are_bounded():
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 150)
    arms = {f"arm{n}": dict(zip("abc", map(float, row), strict=True)) for n, row in enumerate(weights)}
    missed = [effect.method for effect in regression(arms, ["a", "b", "c"]) if effect.component.startswith(LACK_OF_FIT)]
    assert {method: missed.count(method) for method in missed} == {
        "quadratic_regression": MOST_CONTRASTS,
    }
