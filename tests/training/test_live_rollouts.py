"""The rollouts of a run can be read while it trains, also after a kill, and are those of its result."""

import json

import pyarrow.parquet as pq
import pytest
from transformers import TrainerCallback

from reward_ablation.study.live_rollouts import FILE, read_live_rollouts
from reward_ablation.study.run_folder import WORK

from .interrupting import SAVING, StopAt, digests


class Reader(TrainerCallback):
    """Reads the rollouts at the end of each step, as somebody beside the run does; `seen` is by step."""

    def __init__(self, run):
        self.run = run
        self.seen = {}

    def on_step_end(self, args, state, control, **kwargs):
        self.seen[state.global_step] = list(read_live_rollouts(self.run))


def test_finished_steps_can_be_read_and_none_twice(train, trained, problems, tmp_path):
    training = {**SAVING, "num_iterations": 2}
    first, second = (Reader(tmp_path / "run/seed0") for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        train("run", training=training, callbacks=[first, StopAt(3)])
    with (tmp_path / "run/seed0" / WORK / FILE).open("a") as file:
        file.write('{"step": 4, "probl')
    run = train("run", training=training, callbacks=[second])
    whole = trained(training=training)
    assert digests(run) == digests(whole)
    rows = pq.read_table(run / "rollouts.parquet").to_pylist()
    given = pq.read_table(problems).to_pylist()
    texts = {problem["id"]: {"prompt": f"{problem['question']}\n", "gold": problem["answer"]} for problem in given}
    expected = [row | texts[row["problem_id"]] for row in rows]
    for step, seen in {**first.seen, **second.seen}.items():
        assert seen == [row for row in expected if row["step"] <= step]
    assert sorted(first.seen) + sorted(second.seen) == [1, 2, 3, 3, 4]
    assert not list(run.rglob(FILE))
    assert not any("jsonl" in name for name in json.loads((run / "run.json").read_text())["files"])
