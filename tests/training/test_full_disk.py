"""A disk that gets full at any point of a run: one line, and with space again, the result is the same."""

import itertools

import pytest

from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.run import train_run
from storage import fill, small_disk

from .conftest import job_of, spec_with
from .interrupting import digests

SPEC = spec_with(training={"max_steps": 3, "save_strategy": "steps", "save_steps": 1})


#: Bytes by which the disk holds more with each try, and how many tries that makes at least.
@pytest.mark.parametrize(
    ("more", "tries"), [(1_600_000, 1), pytest.param(400_000, 5, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_a_full_disk_costs_nothing_but_the_wait(demo_model, problems, tmp_path, more, tries):
    def refusal(run):
        try:
            train_run(job_of(SPEC, run, demo_model, problems))
        except StudyError as error:
            return str(error)
        return None

    assert refusal(tmp_path / "whole") is None
    for number in itertools.count():
        with small_disk(tmp_path / f"disk{number}", "32m") as disk:
            filler = fill(disk, leave=number * more)
            run = disk / "run"
            told = refusal(run)
            if told is None:
                break
            assert "No space left on device; what is done is kept: free space there" in told
            assert "\n" not in told
            assert not (run / "run.json").exists()
            filler.unlink()
            assert refusal(run) is None
            assert digests(run) == digests(tmp_path / "whole")
    assert number > tries
