"""A kill between any two file operations, and a disk that gets full at any point: the same bytes in the end."""

import itertools
import shutil

import pytest

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around import run as run_module
from reward_ablation.training.around.finish import finish_run
from storage import fill, small_disk

from .conftest import job_of, spec_with
from .interrupting import attempts, digests, killed_at

LONG = [pytest.mark.slow, pytest.mark.long]
#: A checkpoint at each step, whole gradients and a kept model at the first.
SPEC = spec_with(
    training={"max_steps": 2, "save_strategy": "steps", "save_steps": 1}, gradients={"whole": [1]}, keep_models=1
)


@pytest.fixture
def train_here(demo_model, problems):
    """`train_here(folder)` trains `SPEC` in this process."""
    return lambda folder: run_module.train_run(job_of(SPEC, folder, demo_model, problems))


@pytest.fixture
def trained(train_here, tmp_path, monkeypatch):
    """A run whose steps are all trained, and nothing else."""
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "finish_run", lambda *arguments: None)
        train_here(tmp_path / "trained")
    return tmp_path / "trained"


@pytest.fixture
def whole(trained, tmp_path):
    finish_run(shutil.copytree(trained, tmp_path / "whole"))
    return digests(tmp_path / "whole")


@pytest.mark.parametrize(
    ("at_the_end", "every"),
    [(True, 5), *(pytest.param(*case, marks=LONG) for case in ((True, 1), (False, 16), (False, 1)))],
)
def test_between_two_operations(train_here, trained, whole, tmp_path, at_the_end, every):
    """Killed before each n-th file operation of a whole run, or of its end, after which no step is trained again."""
    run = tmp_path / "run"
    for operation in itertools.count(1, every):
        shutil.rmtree(run, ignore_errors=True)
        if at_the_end:
            shutil.copytree(trained, run)
        if not killed_at(operation, run, lambda: finish_run(run) if at_the_end else train_here(run)):
            break
        assert not (run / "run.json").exists() or digests(run) == whole
        assert (run / ".run.json").exists() or not at_the_end or (run / WORK).exists()
        train_here(run)
        assert digests(run) == whole, f"killed before file operation {operation}"
        assert len(attempts(run)) == 1 or not at_the_end
        assert not (run / WORK).exists()
    assert operation > (30 if at_the_end else 80)
    assert sha256(run / "run.json") == sha256(run / ".run.json")


#: Bytes by which the disk holds more with each try, and how many tries that makes at least.
@pytest.mark.parametrize(("more", "tries"), [(1_600_000, 1), pytest.param(400_000, 5, marks=LONG)])
def test_a_full_disk_costs_nothing_but_the_wait(train_here, tmp_path, more, tries):
    def refusal(run):
        try:
            train_here(run)
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
