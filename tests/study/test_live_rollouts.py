"""`rollouts.jsonl` of an unfinished run: whole rows can be read at any time, and no step appears twice."""

import math
import shutil

import pyarrow as pa
import pytest

from reward_ablation.study.live_rollouts import (
    FILE,
    append_rollouts,
    continue_rollouts,
    drop_rollouts_after,
    read_live_rollouts,
    save_rollouts,
)
from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError


@pytest.fixture
def work(tmp_path):
    """Work folder of a run in `tmp_path`, with two rows of each of three steps."""
    folder = tmp_path / WORK
    folder.mkdir()
    for step in (1, 2, 3):
        append_rollouts(folder, [{"step": step, "rollout": number, "completion": "π\n\u2028"} for number in (0, 1)])
    return folder


def steps(run):
    return [row["step"] for row in read_live_rollouts(run)]


def test_what_was_appended_is_read(work, tmp_path):
    drop_rollouts_after(tmp_path, 0)  # of a run without the file, which has no rows
    assert steps(tmp_path / "other") == []
    assert steps(tmp_path) == [1, 1, 2, 2, 3, 3]
    append_rollouts(work, [{"step": 4, "a": math.nan, "b": -math.inf, "c": None, "d": 0.1, "e": True}])
    *before, last = read_live_rollouts(tmp_path)
    assert last == {"step": 4, "a": None, "b": None, "c": None, "d": 0.1, "e": True}
    assert before[0] == {"step": 1, "rollout": 0, "completion": "π\n\u2028"}


@pytest.mark.parametrize("missing", [1, 20])
def test_a_torn_end_is_no_row_and_goes_at_the_next_start(work, tmp_path, missing):
    line = (work / FILE).read_bytes().splitlines(keepends=True)[-1]
    with (work / FILE).open("ab") as file:
        file.write(line[:-missing])
    assert steps(tmp_path) == [1, 1, 2, 2, 3, 3]
    drop_rollouts_after(work, 3)
    append_rollouts(work, [{"step": 4}])
    assert steps(tmp_path) == [1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(("step", "kept"), [(0, []), (2, [1, 1, 2, 2]), (3, [1, 1, 2, 2, 3, 3])])
def test_rows_after_a_checkpoint_are_dropped(work, tmp_path, step, kept):
    drop_rollouts_after(work, step)
    assert steps(tmp_path) == kept


def test_the_last_bytes_have_whole_rows_only(work, tmp_path):
    lines = (work / FILE).read_bytes().splitlines(keepends=True)
    sizes = [sum(map(len, lines[number:])) for number in range(len(lines))]
    for most in (1, sizes[-1] - 1, sizes[-1], sizes[-1] + 1, sizes[2], sizes[0], sizes[0] + 9):
        assert len(list(read_live_rollouts(tmp_path, most))) == sum(size <= most for size in sizes)


def test_a_finished_run_that_goes_on_has_its_rows_again(work, tmp_path):
    schema = pa.schema([("step", pa.int64()), ("rollout", pa.int64()), ("completion", pa.string())])
    save_rollouts(tmp_path, schema)
    shutil.rmtree(work)
    with pytest.raises(StudyError, match=f"{WORK}: is gone, with the rows so far"):  # and the table stays
        save_rollouts(tmp_path, schema)
    cut = tmp_path / f"{WORK}.tmp"  # of a process that was killed while it made the rows again
    cut.mkdir()
    append_rollouts(cut, [{"step": 1}])
    continue_rollouts(tmp_path, 2)
    assert steps(tmp_path) == [1, 1, 2, 2]
    assert not cut.exists()
