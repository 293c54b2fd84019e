"""Files that are damaged while a run is interrupted are noticed, named and set aside, and the result is the same."""

import json
import shutil

import pandas as pd
import pytest

from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD, SEAL, WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.training.around import run as run_module
from reward_ablation.training.around.checkpoints import SET_ASIDE, claim
from reward_ablation.training.around.finish import FINAL, finished

from .conftest import job_of, spec_with
from .interrupting import StopAt, attempts, digests

#: A checkpoint at each step.
SAVING = {"save_strategy": "steps", "save_steps": 1}


@pytest.fixture
def whole(trained):
    return digests(trained(training=SAVING))


@pytest.fixture(scope="module")
def killed(demo_model, problems, tmp_path_factory):
    """Folder of a run that was killed in its fourth step."""
    folder = tmp_path_factory.mktemp("killed") / "seed0"
    job = job_of(spec_with(training=SAVING), folder, demo_model, problems)
    with pytest.raises(KeyboardInterrupt):
        run_module.train_run(job, [StopAt(4)])
    return folder


@pytest.fixture
def interrupted(killed, tmp_path):
    """Work of a run that was killed in its fourth step: it has the checkpoints of the second and the third."""
    work = shutil.copytree(killed, tmp_path / "run" / "seed0") / WORK
    assert sorted(path.name for path in work.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3"]
    return work


def cut(path):
    """Keep half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("file", "damage"), [("resumed_state_0.pt", cut), ("optimizer.pt", flip), (SEAL, flip)])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(train, interrupted, whole, capsys, damage, file):
    damage(interrupted / "checkpoint-3" / file)
    with pytest.raises(KeyboardInterrupt):  # the folder of what is set aside goes with the finished run
        train("run", training=SAVING, callbacks=[StopAt(3)])
    assert f"{interrupted / 'checkpoint-3' / file} is not what was written there" in capsys.readouterr().out
    assert [path.name for path in (interrupted / SET_ASIDE).iterdir()] == ["checkpoint-3"]
    run = train("run", training=SAVING)
    assert attempts(run)[-1] == (2, 4, "done")
    assert digests(run) == whole


@pytest.mark.parametrize(("damage", "step", "goes_on_from"), [(flip, 2, 0), (lambda path: path.unlink(), 3, 2)])
def test_a_damaged_part_of_a_table_takes_its_checkpoints_with_it(
    train, interrupted, whole, capsys, damage, step, goes_on_from
):
    part = interrupted / "parts" / f"rollouts-{step:08d}-0000.parquet"
    damage(part)
    run = train("run", training=SAVING)
    assert f"{part} is not what was written there" in capsys.readouterr().out
    assert attempts(run)[-1] == (goes_on_from, 4, "done")
    assert digests(run) == whole


def test_a_checkpoint_that_was_being_written_counts_for_nothing(train, interrupted, whole):
    (interrupted / "checkpoint-3" / SEAL).unlink()
    run = train("run", training=SAVING)
    assert attempts(run)[-1] == (2, 4, "done")
    assert digests(run) == whole


def test_a_damaged_end_gives_way_to_the_last_checkpoint(train, whole, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "finish_run", lambda *arguments: None)
        work = train("run", training=SAVING) / WORK
    flip(work / FINAL / "model.safetensors")
    run = train("run", training=SAVING)
    assert attempts(run)[-1] == (3, 4, "done")
    assert digests(run) == whole


def test_without_its_owner_work_is_not_taken_for_anybodys(train, interrupted, whole):
    cut(interrupted / "owner.json")
    with pytest.raises(
        StudyError, match=r"owner\.json: truncated or changed; it said which run this work belongs to; delete"
    ):
        train("run", training=SAVING)
    assert (interrupted / "checkpoint-3" / SEAL).is_file()
    shutil.rmtree(interrupted)
    assert digests(train("run", training=SAVING)) == whole


def test_a_damaged_training_set_is_refused_and_nothing_is_lost(train, problems, tmp_path):
    data = tmp_path / "train.parquet"
    for ending in (".parquet", ".json"):
        shutil.copy(problems.with_suffix(ending), data.with_suffix(ending))
    recorded = json.loads(data.with_suffix(".json").read_text())
    assert recorded["sha256"] == sha256(data)
    run = train("run", problems=data)
    before = digests(run)
    flip(data)
    with pytest.raises(StudyError, match=r"train\.parquet: truncated or changed .* delete .* prepares it again"):
        train("run", problems=data)
    assert digests(run) == before


def test_an_interrupted_run_does_not_go_on_with_other_data(train, interrupted, problems, tmp_path):
    other = tmp_path / "other.parquet"
    pd.read_parquet(problems).iloc[::-1].to_parquet(other)
    run = train("run", training=SAVING, problems=other)
    assert attempts(run) == [(0, 4, "done")]


@pytest.mark.parametrize("left", ["no end", "nothing"])
def test_a_run_that_was_killed_when_it_was_trained_has_its_attempts(train, monkeypatch, left):
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "finish_run", lambda *arguments: None)
        work = train("run") / WORK
    record = json.loads((work / "attempts.json").read_text())[0]
    del record["ended"]
    (work / "attempts.json").write_text(json.dumps([{**record, "to_step": 1}]) if left == "no end" else "[{")
    [attempt] = json.loads((train("run") / "run.json").read_text())["attempts"]
    assert (attempt["from_step"], attempt["to_step"], attempt["ended"]) == (0, 4, "killed")


def test_a_finished_run_is_given_back_and_a_damaged_one_is_trained_again(train, whole, capsys):
    run = train("run", training=SAVING)
    (run / "run.json").unlink()  # as Snakemake does where it did not see the job end
    train("run", training=SAVING)
    assert "is trained already" in capsys.readouterr().out
    assert digests(run) == whole
    cut(run / "rollouts.parquet")
    train("run", training=SAVING)
    assert f"{run / 'rollouts.parquet'} is not what was written there" in capsys.readouterr().out
    assert digests(run) == whole


def test_a_finished_run_of_other_data_is_trained_again(train, problems, tmp_path):
    run = train("run")
    before = digests(run)
    moved = shutil.copy(problems, tmp_path / "moved.parquet")
    assert digests(train("run", problems=moved)) == before
    other = tmp_path / "other.parquet"
    pd.read_parquet(problems).iloc[::-1].to_parquet(other)
    assert digests(train("run", problems=other)) != before


@pytest.mark.parametrize(
    ("changed", "is_kept"),
    [("around.run", True), ("around.saving_trainer", False), ("around.resumed_state", False), ("core.trainer", False)],
)
def test_checkpoints_of_a_code_that_writes_them_otherwise_are_left_behind(tmp_path, changed, is_kept):
    names = ("around.run", "around.saving_trainer", "around.resumed_state", "core.trainer")
    modules = {f"reward_ablation.training.{name}": "0" for name in names}
    owner = {"spec": {"seed": 0}, "code": "the first of an equivalent class", "inputs": {}}
    claim(tmp_path / "work", owner, modules)
    (tmp_path / "work" / "checkpoint-1").mkdir()
    claim(tmp_path / "work", owner, {**modules, f"reward_ablation.training.{changed}": "1"})
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
