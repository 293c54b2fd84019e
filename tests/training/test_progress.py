"""Progress of training: one line per step in the log, and the run's heartbeat."""

from types import SimpleNamespace

from reward_ablation.study.heartbeat import SAVING, TRAINING, read_heartbeat
from reward_ablation.training.around.progress import ProgressCallback


def test_each_step_has_a_line_and_the_heartbeat_the_first_of_them(capsys, tmp_path):
    state = SimpleNamespace(max_steps=40, global_step=20, is_world_process_zero=True)
    callback = ProgressCallback(["correctness"], tmp_path)
    callback.on_train_begin(None, state, None)
    assert capsys.readouterr().out == "train: 40 steps, from step 21\n"
    found = read_heartbeat(tmp_path)
    assert (found.doing, found.step, found.steps, found.reward) == (TRAINING, 20, 40, None)
    state.global_step = 21
    callback.on_log(None, state, None, {"loss": 0.1, "reward": -0.25, "rewards/correctness/mean": 0.5})
    found = read_heartbeat(tmp_path)
    assert (found.step, found.steps, found.reward) == (21, 40, -0.25)
    assert found.seconds_per_step > 0
    callback.on_log(None, state, None, {"loss": 0.1})  # a step on the same rollouts
    line, other = capsys.readouterr().out.splitlines()
    assert line.startswith("step 21/40: reward -0.250 (correctness 0.500), nan tokens, ")
    assert other == "step 21/40: loss 0.1000"
    state.global_step = 22
    callback.on_log(None, state, None, {"loss": 0.1, "reward": 1.0})
    assert read_heartbeat(tmp_path).step == 21  # no second file within some seconds
    callback.on_step_end(None, state, SimpleNamespace(should_save=True))
    assert (read_heartbeat(tmp_path).doing, read_heartbeat(tmp_path).step) == (SAVING, 22)
    callback.on_save(None, state, None)
    assert read_heartbeat(tmp_path).doing == TRAINING


def test_of_several_processes_the_first_one_tells(capsys, tmp_path):
    state = SimpleNamespace(max_steps=40, global_step=1, is_world_process_zero=False)
    callback = ProgressCallback(["correctness"], tmp_path)
    callback.on_train_begin(None, state, None)
    callback.on_log(None, state, None, {"loss": 0.1, "reward": 1.0})
    assert (capsys.readouterr().out, read_heartbeat(tmp_path)) == ("", None)
