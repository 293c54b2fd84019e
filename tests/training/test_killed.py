"""A kill between any two file operations, and a disk that gets full at any point: the same bytes in the end."""

import itertools
import shutil

import pytest

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around import run as run_module
from reward_ablation.training.around.finish import finish_run, finished
from storage import fill, small_disk

from .conftest import job_of, spec_with
from .interrupting import digests, killed_at

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


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=LONG)])
def test_between_two_operations_at_the_end_of_a_run(trained, whole, demo_model, problems, tmp_path, every):
    """Killed before each fifth file operation; in the long form before each one."""
    inputs = {"model": sha256(demo_model / "model.json"), "problems": sha256(problems)}
    owner = {"spec": SPEC, "code": "code", "inputs": inputs}
    run = tmp_path / "run"
    for operation in itertools.count(1, every):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(trained, run)
        if not killed_at(operation, run, lambda: finish_run(run)):
            break
        if (run / ".run.json").exists():  # the result is whole, whatever was deleted of the work
            assert finished(run, owner)
        else:
            assert (run / WORK).exists()
            assert not (run / "run.json").exists()
            finish_run(run)
        assert digests(run) == whole, f"killed before file operation {operation}"
        assert not (run / WORK).exists()
    assert operation > 30


@pytest.mark.parametrize("every", [pytest.param(16, marks=LONG), pytest.param(1, marks=LONG)])
def test_between_two_operations_of_a_whole_run(train_here, whole, tmp_path, every):
    """Killed before each 16th file operation; in the long form before each one."""
    run = tmp_path / "run"
    for operation in itertools.count(1, every):
        shutil.rmtree(run, ignore_errors=True)
        if not killed_at(operation, run, lambda: train_here(run)):
            break
        assert not (run / "run.json").exists() or digests(run) == whole
        train_here(run)
        assert digests(run) == whole, f"killed before file operation {operation}"
    assert operation > 80
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
