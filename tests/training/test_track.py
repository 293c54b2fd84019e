"""`track` on TRL's own trainer: the same weights to the byte, and the files of a run, also after a kill."""

import json
import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from reward_ablation.study.live_rollouts import read_live_rollouts
from reward_ablation.study.run_folder import OWNER, WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.system.locks import take
from reward_ablation.training.core.rollouts import rollout_schema
from reward_ablation.trl import Tracker, text_of, track
from workflow.starting import forking_python

from .interrupting import StopAt


def digits(completions, **columns):
    return [float(sum(map(str.isdigit, text_of(completion)))) for completion in completions]


def short(completions, **columns):
    """No score for completions with a 3."""
    texts = map(text_of, completions)
    return [None if "3" in text else 1 / (1 + len(text)) for text in texts]


WEIGHTS = {"digits": 1.0, "short": -2.1}


def make_trainer(model, problems, output, kind=GRPOTrainer, rewards=(digits, short), rows=None, **settings):
    """A trainer as a user of TRL makes it."""
    given = pq.read_table(problems).to_pylist()
    rows = rows or [{"prompt": f"{row['question']}\n", "id": row["id"]} for row in given]
    own = {"learning_rate": 1e-3, "max_steps": 4, "per_device_train_batch_size": 8, "num_generations": 4}
    own |= {"max_completion_length": 16, "logging_steps": 1, "save_steps": 2, "reward_weights": [*WEIGHTS.values()]}
    own |= {"bf16": False, "use_cpu": True, "report_to": "none", "disable_tqdm": True, **settings}
    return kind(
        model=str(model),
        reward_funcs=list(rewards),
        args=GRPOConfig(output_dir=str(output), **own),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:2]),
        processing_class=PreTrainedTokenizerFast.from_pretrained(model),
    )


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def make(demo_model, problems, tmp_path, run):
    """`make(name)` is a trainer of TRL that saves in a folder of this name, and is tracked into `run`."""

    def make(name, tracked=True, **settings):
        trainer = make_trainer(demo_model, problems, tmp_path / name, **settings)
        if tracked:
            track(trainer, run)
        return trainer

    return make


@pytest.fixture
def killed(make):
    """`killed(name, step)` is killed after a step."""

    def killed(name, step, **settings):
        trainer = make(name, **settings)
        trainer.add_callback(StopAt(step))
        with pytest.raises(KeyboardInterrupt):
            trainer.train()

    return killed


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows_of(run):
    return pq.read_table(run / "rollouts.parquet").to_pylist()


def record_of(run):
    return json.loads((run / "run.json").read_text())


def assert_same_weights(folder, step):
    files = (folder / f"{name}/checkpoint-{step}/model.safetensors" for name in ("plain", "tracked"))
    assert len(set(map(sha256, files))) == 1


def test_tracking_changes_no_byte_of_the_training_and_writes_a_run(make, run, tmp_path, problems):
    settings = {"multi_objective_aggregation": "normalize_then_sum", "num_iterations": 2}
    settings |= {"eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 4}
    make("plain", tracked=False, **settings).train()
    make("tracked", **settings).train()
    assert_same_weights(tmp_path, step=4)
    assert sorted(path.name for path in run.iterdir()) == ["metrics.parquet", "rollouts.parquet", "run.json"]
    rows = rows_of(run)
    assert list(rows[0]) == [*rollout_schema(list(WEIGHTS)).names, "prompt"]
    assert [row["step"] for row in rows] == [1] * 8 + [3] * 8
    given = {row["id"]: f"{row['question']}\n" for row in pq.read_table(problems).to_pylist()}
    for row in rows:
        assert row["prompt"] == given[row["problem_id"]]
        scores = [reward([row["completion"]])[0] for reward in (digits, short)]
        assert [row["score_digits"], row["score_short"]] == pytest.approx(scores)
        assert row["total"] == pytest.approx(scores[0] - 2.1 * (scores[1] or 0))
        assert (row["stop_reason"] == "length") == row["truncated"]
        assert row["advantage"] == pytest.approx(row["advantage_digits"] + row["advantage_short"], abs=1e-4)
    metrics = pq.read_table(run / "metrics.parquet").to_pylist()
    assert [row["step"] for row in metrics] == [1, 2, 3, 4]
    of_trl = {"total": "reward", "tokens": "completions/mean_length", "truncated": "completions/clipped_ratio"}
    for row in (metrics[0], metrics[2]):
        for name, metric in of_trl.items():
            values = [each[name] for each in rows if each["step"] == row["step"]]
            assert row[metric] == pytest.approx(np.mean(values), rel=1e-5)
    record = record_of(run)
    assert record.pop("packages")["trl"] == version("trl")
    assert record == {"tracked": True, "finished": True, "seed": 42, "steps": 4, "weights": WEIGHTS}


def test_a_killed_run_is_readable_and_goes_on_without_a_row_twice(make, killed, run):
    killed("model", 3)
    assert {row["step"] for row in rows_of(run)} == {1, 2}
    assert {row["step"] for row in read_live_rollouts(run)} == {1, 2, 3}
    assert (record_of(run)["steps"], record_of(run)["finished"]) == (2, False)
    for last in (4, 6):  # from the checkpoint, and then beyond the end
        make("model", max_steps=last).train(resume_from_checkpoint=True)
        assert [row["step"] for row in rows_of(run)] == [step for step in range(1, last + 1) for _ in range(8)]
        assert (record_of(run)["steps"], record_of(run)["finished"]) == (last, True)
        assert not (run / WORK).exists()
    assert pq.read_table(run / "metrics.parquet")["step"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_a_killed_run_without_a_checkpoint_begins_anew(killed, run):
    killed("first", 2, save_strategy="no")
    killed("second", 4, save_strategy="no")
    assert [row["step"] for row in read_live_rollouts(run)] == [step for step in (1, 2, 3, 4) for _ in range(8)]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", {"spec": {}, "seed": 0}),  # trained here
        ("run.json", {"tracked": True, "finished": True, "steps": 4}),
        (f"{WORK}/{OWNER}", {"spec": {}}),  # being trained here
    ],
)
def test_a_folder_with_another_run_is_refused_and_stays(make, run, file, content):
    path = run / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(StudyError, match="run: has another run; track into another folder, or delete this one"):
        make("model").train()
    assert list(files_in(run)) == [path]


@pytest.mark.parametrize(
    ("settings", "resume", "reason"),
    [({"seed": 1}, True, "seed 42"), ({"reward_weights": [1.0, 0.5]}, False, f"weights {WEIGHTS}")],
)
def test_the_rows_of_an_interrupted_run_of_another_seed_or_other_weights_stay(
    make, killed, run, settings, resume, reason
):
    killed("model", 3)
    before = files_in(run)
    with pytest.raises(StudyError, match=re.escape(f"run: has another run ({reason}); track into another folder, or")):
        make("model", **settings).train(resume_from_checkpoint=resume)
    assert files_in(run) == before


def test_a_trainer_is_tracked_once_by_one_process_and_under_names_of_its_own(make, run):
    trainer = make("model", max_steps=1)
    with pytest.raises(StudyError, match=f"this trainer is tracked already, into {run}; call"):
        track(trainer, run.with_name("another"))  # as where a cell of a notebook runs twice
    told = rf"run: process {os.getpid()} on .* tracks a run there; wait until it ends"
    with take(run / ".lock"), pytest.raises(StudyError, match=told):
        trainer.train()
    assert list(files_in(run)) == [run / ".lock"]
    trainer.train()
    assert len(rows_of(run)) == 8
    assert not (run / ".lock").exists()
    with pytest.raises(StudyError, match=r"two reward functions have one name \(digits, digits\)"):
        make("model", rewards=(digits, digits))


class Doubled(GRPOTrainer):
    """A trainer with advantages of its own."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        output["advantages"] = 2 * output["advantages"]
        return output


def test_advantages_of_another_kind_are_not_taken_apart(make, run):
    """Prompts of messages without an id, the same one in each group: its digest is the problem."""
    rows = [{"prompt": [{"role": "user", "content": "Ann has 3 apples."}]}] * 4
    trainer = make("model", kind=Doubled, rows=rows, max_steps=1)
    trainer.processing_class.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    trainer.train()
    rows = rows_of(run)
    assert {row["problem_id"] for row in rows} == {"7739dc3a9fb3afb2"}  # sha256sum
    assert [row["rollout"] for row in rows] == list(range(8))
    totals = np.array([row["total"] for row in rows]).reshape(2, 4)
    expected = 2 * (totals - totals.mean(1, keepdims=True)) / (totals.std(1, ddof=1, keepdims=True) + 1e-4)
    assert [row["advantage"] for row in rows] == pytest.approx(expected.flatten().tolist(), abs=1e-4)
    assert {row[f"advantage_{name}"] for row in rows for name in WEIGHTS} == {None}


def test_a_missing_id_is_no_id(make):
    """Null or NaN, in one column or in both: the digest of the prompt is the problem."""
    prompt = "Ann has 3 apples."
    named = {"a": ("a", "b"), "b": (None, "b"), "7739dc3a9fb3afb2": (None, None)}  # sha256sum
    trainer = make("model", rows=[{"prompt": prompt, "problem_id": one, "id": other} for one, other in named.values()])
    [tracker] = [each for each in trainer.callback_handler.callbacks if isinstance(each, Tracker)]
    rows = [*trainer.train_dataset, {"id": float("nan")}]
    found = [tracker._row(row, prompt, "", [0], [1.0, 1.0])["problem_id"] for row in rows]
    assert found == [*named, "7739dc3a9fb3afb2"]


#: Trains in two processes that share each group of completions, without and with `track`.
TWO_PROCESSES = """
import sys
from pathlib import Path
from reward_ablation.trl import track
from training.test_track import make_trainer
model, problems, folder = map(Path, sys.argv[1:])
for name in ("plain", "tracked"):
    settings = {"per_device_train_batch_size": 2, "max_steps": 2, "ddp_backend": "gloo"}
    trainer = make_trainer(model, problems, folder / name, **settings)
    if name == "tracked":
        track(trainer, folder / "run")
    trainer.train()
"""


@pytest.mark.slow
def test_two_processes_write_each_row_once(demo_model, problems, run, tmp_path):
    (tmp_path / "script.py").write_text(TWO_PROCESSES)
    command = [forking_python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(path) for path in (tmp_path / "script.py", demo_model, problems, tmp_path)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert_same_weights(tmp_path, step=2)
    rows = rows_of(run)
    assert [(row["step"], row["rollout"]) for row in rows] == [(step, number) for step in (1, 2) for number in range(4)]
    assert len({row["problem_id"] for row in rows}) == 2
    for row in rows:
        assert row["score_digits"] == digits([row["completion"]])[0]
        assert row["advantage"] == pytest.approx(row["advantage_digits"] + row["advantage_short"], abs=1e-4)


def test_text_of_messages():
    assert text_of("plain") == "plain"
    parts = [{"type": "image", "image": object()}, {"type": "text", "text": "b"}]
    assert text_of([{"role": "user", "content": parts}]) == "\nb"
    assert text_of([{"role": "assistant", "content": None}, {"role": "tool", "content": "4"}]) == "\n4"
