"""Files that are damaged while a run is interrupted are noticed, named and set aside, and the result is the same."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from transformers import TrainerCallback

from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD, SEAL, WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.training.around import run as run_module
from reward_ablation.training.around.checkpoints import SET_ASIDE, claim
from reward_ablation.training.around.finish import FINAL, finished

from .conftest import job_of, spec_with
from .interrupting import StopAt, attempts, digests

#: A checkpoint and a kept model at each step.
KEEPING = {"training": {"save_strategy": "steps", "save_steps": 1}, "keep_models": 1}


@pytest.fixture(scope="module")
def unfinished(demo_model, problems, tmp_path_factory):
    """Folders of a run that was killed in its fourth step, and of one whose steps are all trained, and nothing else."""
    folder = tmp_path_factory.mktemp("unfinished")
    jobs = (job_of(spec_with(**KEEPING), folder / name, demo_model, problems) for name in ("killed", "trained"))
    with pytest.raises(KeyboardInterrupt):
        run_module.train_run(next(jobs), [StopAt(4)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "finish_run", lambda *arguments: None)
        run_module.train_run(next(jobs))
    return folder


@pytest.fixture
def interrupted(unfinished, tmp_path):
    """Work of a run that was killed in its fourth step: it has the checkpoints of the second and the third."""
    return shutil.copytree(unfinished / "killed", tmp_path / "run" / "seed0") / WORK


@pytest.fixture
def without_end(unfinished, tmp_path):
    return shutil.copytree(unfinished / "trained", tmp_path / "run" / "seed0")


def cut(path):
    """Keep half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class MoveAway(TrainerCallback):
    """Moves the run after its third step, before its checkpoint."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            run = Path(args.output_dir).parent
            run.rename(run.parents[1] / "moved")


def test_a_run_whose_rows_go_while_it_trains_does_not_end_without_them(train, trained, tmp_path):
    run, moved = tmp_path / "run" / "seed0", tmp_path / "moved"
    with pytest.raises(StudyError, match=r"run/seed0/.work/parts/.*: was moved or deleted during the training; put b"):
        train("run", callbacks=[MoveAway()], **KEEPING)
    shutil.rmtree(run)
    moved.rename(run)
    assert digests(train("run", **KEEPING)) == digests(trained(**KEEPING))


@pytest.mark.parametrize(
    ("file", "damage", "goes_on_from", "aside"),
    [
        ("checkpoint-3/resumed_state_0.pt", cut, 2, ["checkpoint-3"]),
        (f"checkpoint-3/{SEAL}", flip, 2, ["checkpoint-3"]),
        (f"checkpoint-3/{SEAL}", Path.unlink, 2, []),  # as of a checkpoint that was being written
        ("parts/rollouts-00000002-0000.parquet", flip, 0, ["checkpoint-2", "checkpoint-3"]),
        ("parts/model-step3/model.safetensors", cut, 2, ["checkpoint-3"]),
    ],
)
def test_what_is_damaged_is_set_aside_and_the_run_goes_on_from_before_it(
    train, trained, interrupted, capsys, file, damage, goes_on_from, aside
):
    damage(interrupted / file)
    with pytest.raises(KeyboardInterrupt):  # the folder of what is set aside goes with the finished run
        train("run", callbacks=[StopAt(3)], **KEEPING)
    told = f"{interrupted / file} is not what was written there: checkpoint-3 is set aside in {interrupted / SET_ASIDE}"
    assert (told in capsys.readouterr().out) == bool(aside)
    assert sorted(path.name for path in (interrupted / SET_ASIDE).glob("checkpoint*")) == aside
    run = train("run", **KEEPING)
    assert [attempt[0] for attempt in attempts(run)] == [0, goes_on_from, 2]
    assert digests(run) == digests(trained(**KEEPING))


def test_a_damaged_end_gives_way_to_the_last_checkpoint(train, trained, without_end):
    flip(without_end / WORK / FINAL / "model.safetensors")
    run = train("run", **KEEPING)
    assert attempts(run)[-1] == (3, 4, "done")
    assert digests(run) == digests(trained(**KEEPING))


@pytest.mark.parametrize("left", ["no end", "nothing"])
def test_a_run_that_was_killed_when_it_was_trained_has_its_attempts(train, without_end, left):
    file = without_end / WORK / "attempts.json"
    [record] = json.loads(file.read_text())
    del record["ended"]
    file.write_text(json.dumps([{**record, "to_step": 1}]) if left == "no end" else "[{")
    [attempt] = json.loads((train("run", **KEEPING) / "run.json").read_text())["attempts"]
    assert (attempt["from_step"], attempt["to_step"], attempt["ended"]) == (0, 4, "killed")


def test_without_its_owner_work_is_not_taken_for_anybodys(train, interrupted):
    cut(interrupted / "owner.json")
    told = r"owner\.json: truncated or changed; it said which run this work belongs to; delete"
    with pytest.raises(StudyError, match=told):
        train("run", **KEEPING)
    assert (interrupted / "checkpoint-3" / SEAL).is_file()


def test_a_damaged_training_set_is_refused(train, problems, tmp_path):
    data = Path(shutil.copytree(problems.parent, tmp_path / "data")) / problems.name
    flip(data)
    with pytest.raises(StudyError, match=r"train\.parquet: truncated or changed .* delete .* prepares it again"):
        train("run", problems=data)


def test_a_finished_run_is_given_back_and_a_damaged_one_or_one_of_other_data_is_trained_again(
    train, interrupted, problems, tmp_path, capsys
):
    other = tmp_path / "other.parquet"
    pd.read_parquet(problems).iloc[::-1].to_parquet(other)
    run = train("run", problems=other, **KEEPING)
    assert attempts(run) == [(0, 4, "done")]  # without the checkpoints of the interrupted run
    before = digests(run)
    (run / "run.json").unlink()  # as Snakemake does where it did not see the job end
    train("run", problems=shutil.copy(other, tmp_path / "moved.parquet"), **KEEPING)
    assert "is trained already" in capsys.readouterr().out
    assert digests(run) == before
    cut(run / "rollouts.parquet")
    train("run", problems=other, **KEEPING)
    assert f"{run / 'rollouts.parquet'} is not what was written there" in capsys.readouterr().out
    assert digests(run) == before
    train("run", **KEEPING)
    assert digests(run) != before


@pytest.mark.parametrize(
    ("changed", "seed", "is_kept"),
    [
        ("around.run", 0, True),
        ("around.run", 1, False),
        ("around.saving_trainer", 0, False),
        ("core.trainer", 0, False),
    ],
)
def test_checkpoints_of_another_spec_or_of_code_that_writes_them_otherwise_are_left_behind(
    tmp_path, changed, seed, is_kept
):
    modules = dict.fromkeys(map("reward_ablation.training.{}".format, ("around.run", changed)), "0")
    owner = {"spec": {"seed": 0}, "code": "the first of an equivalent class", "inputs": {}}
    claim(tmp_path / "work", owner, modules)
    (tmp_path / "work" / "checkpoint-1").mkdir()
    other = {**modules, f"reward_ablation.training.{changed}": "1"}
    claim(tmp_path / "work", {**owner, "spec": {"seed": seed}}, other)
    assert (tmp_path / "work" / "checkpoint-1").exists() == is_kept


def test_a_whole_result_of_other_code_gets_its_record_back_on_request(tmp_path):
    (tmp_path / "rollouts.parquet").write_text("rollouts")
    made = {"spec": {"steps": 3}, "seed": 0, "code": "old", "inputs": {"problems": "old"}}
    write_json({**made, "files": {"rollouts.parquet": sha256(tmp_path / "rollouts.parquet")}}, tmp_path / HIDDEN_RECORD)
    owner = {"spec": {"steps": 3, "seed": 0}, "code": "new", "inputs": {"problems": "new"}}
    assert not finished(tmp_path, owner)
    assert not finished(tmp_path, {**owner, "spec": {"steps": 4, "seed": 0}}, any_code=True)
    assert finished(tmp_path, owner, any_code=True)
    assert json.loads((tmp_path / RECORD).read_text())["code"] == "old"
    (tmp_path / "rollouts.parquet").write_text("damaged")
    assert not finished(tmp_path, owner, any_code=True)
