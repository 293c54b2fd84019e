"""Means and rows from files that a run writes, replaces or removes while they are read."""

import shutil

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD, WORK
from reward_ablation.watch import rollout_files
from reward_ablation.watch.rollout_files import RunRollouts

from .made_up_watch import lines_of, live_file, rows_of

COLUMNS = ["total", "score_correctness", "tokens"]
#: Means of a step of `rows_of`; one of the four has no score.
MEANS = [0.375, 5 / 3, 11.5]


@pytest.fixture
def finished(tmp_path):
    """Folder of a finished run."""
    plan = MadeUpStudy(seeds=(0,))
    plan.write(tmp_path)
    return tmp_path / plan.plan()["runs"][0]["folder"]


def test_a_finished_run_has_its_means_and_rows(finished):
    run = RunRollouts(finished, [*COLUMNS, "score_missing"])
    assert run.look() == (False, [1, 2, 3, 4, 5, 6], False)
    table = pd.read_parquet(finished / "rollouts.parquet")
    for step, of_step in table.groupby("step"):
        assert run.means[step][:3] == pytest.approx(of_step[COLUMNS].mean().tolist())
        assert pd.isna(run.means[step][3])
        assert [row["tokens"] for row in run.rows(step)] == of_step["tokens"].tolist()
    assert (run.look(), run.count, run.rows(99)) == ((False, [], False), 48, [])


def test_a_growing_file_is_read_as_it_grows_wherever_a_line_is_torn(tmp_path):
    path = live_file(tmp_path)
    written = lines_of([*rows_of(1), *rows_of(2)])
    for cut in range(0, len(written), 61):
        path.write_bytes(written[:cut])
        run = RunRollouts(tmp_path, COLUMNS)
        run.look()
        with path.open("ab") as file:
            file.write(written[cut:])
        void, _, more = run.look()
        assert (void, more, run.count) == (False, False, 8)
        assert run.means == {1: pytest.approx(MEANS), 2: pytest.approx(MEANS)}
    assert [row["completion"] for row in run.rows(2)] == ["text 0", "text 1", "text 2", "text 3"]
    assert run.look() == (False, [], False)


@pytest.mark.parametrize("again", [[], [4, 5, 6, 7, 8]])
def test_a_run_that_goes_on_from_an_earlier_step_makes_its_curve_anew(tmp_path, monkeypatch, again):
    path = live_file(tmp_path)
    path.write_bytes(lines_of(row for step in (1, 2, 3) for row in rows_of(step)))
    monkeypatch.setattr(rollout_files, "AT_ONCE", 700)  # a large file is read in several looks
    run, looks = RunRollouts(tmp_path, COLUMNS), 1
    while run.look()[2]:
        looks += 1
    assert looks > 2
    assert run.means == dict.fromkeys([1, 2, 3], pytest.approx(MEANS))
    monkeypatch.undo()
    path.write_bytes(lines_of(row for step in (1, *again) for row in rows_of(step)))
    assert run.look() == (True, [1, *again], False)
    assert [*run.means] == [1, *again]


def test_lines_that_are_no_rows_are_left_out(tmp_path):
    strange = b'null\n[]\n{"step": "a"}\n{"step": true}\n{"a": 1}\n\xff\n\n{"step": 2, "total": "x", "tokens": NaN}\n'
    live_file(tmp_path).write_bytes(strange + lines_of(rows_of(1)))
    run = RunRollouts(tmp_path, COLUMNS)
    assert run.look() == (False, [1, 2], False)
    assert run.means[1] == pytest.approx(MEANS)
    assert all(pd.isna(run.means[2]))


def test_from_training_to_the_result_no_look_fails(finished):
    live_file(finished).write_bytes(lines_of(rows_of(1)))
    record = (finished / RECORD).rename(finished / "aside")
    run = RunRollouts(finished, COLUMNS)
    assert run.look() == (False, [1], False)
    shutil.rmtree(finished / WORK)
    assert (run.look(), run.rows(1)) == ((False, [], False), [])  # of an earlier result, as far as is known
    record.rename(finished / HIDDEN_RECORD)
    whole = (finished / "rollouts.parquet").read_bytes()
    (finished / "rollouts.parquet").write_bytes(whole[:-50])
    assert run.look() == (False, [], False)
    (finished / "rollouts.parquet").write_bytes(whole)
    assert run.look() == (True, [1, 2, 3, 4, 5, 6], False)
    (finished / "rollouts.parquet").unlink()
    assert (run.look(), run.rows(1)) == ((False, [], False), [])


def test_nothing_is_written(finished):
    live_file(finished).write_bytes(lines_of(rows_of(1)) + b'{"step": 2')

    def stamps():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in finished.rglob("*")}

    before, run = stamps(), RunRollouts(finished, COLUMNS)
    run.look()
    run.rows(1)
    assert stamps() == before
