"""Runs with a user's reward functions: they are called as TRL calls them, None is legal, and mistakes are one line."""

import json

import pandas as pd
import pytest

from reward_ablation.analysis.training import rewards_by_step
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.rewards.arguments import OF_PROBLEMS, OF_TRAINER
from reward_ablation.study.reward_files import file_digest
from reward_ablation.system.files import sha256
from reward_ablation.training.core.rollouts import EXTRA

MINE = """
import random, numpy, torch

SEEN = set()

def unscored_at_first(prompts, completions, trainer_state, **kwargs):
    SEEN.update(kwargs, ["prompts", "completions", "trainer_state"])
    print("columns:", *sorted(SEEN))
    if trainer_state.global_step < 2:
        return [None] * len(completions)
    return [None, *(float(len(text)) for text in completions[1:])]

def cuts(prompts, completions, completion_ids, trainer_state, **columns):
    for place in range(len(completions)):
        completions[place] = completions[place][:3]
        completion_ids[place].clear()
        prompts[place] = columns["answer"][place] = ""
    trainer_state.log_history.clear()
    trainer_state.global_step = 0
    random.random(), numpy.random.rand(), torch.rand(1)
    return [float(len(text)) for text in completions]

def changes(completions, tests, about, points, **columns):
    scores = [len(test) + what["size"][0] + point for test, what, point in zip(tests, about, points)]
    for test, what in zip(tests, about):
        test.append("changed")
        what.clear()
    return scores

def logs(completions, trainer_state, log_extra, **columns):
    if trainer_state.global_step % 2:
        log_extra("letters", [len(text) for text in completions])
        log_extra("first", [text[0] if text else None for text in completions])
    return [0.0] * len(completions)
"""


@pytest.fixture
def mine(tmp_path):
    """`mine(function)` is a component of a user's file."""
    file = tmp_path / "mine.py"
    file.write_text(MINE)

    def component(function):
        return {"function": f"{file}:{function}", "parameters": {}, "code": file_digest(file, tmp_path)}

    return component


def test_batches_without_a_score_train_on_and_are_counted(train, mine, capsys):
    """Also where no trained component has a score: such a batch moves nothing, and stops nothing."""
    components = {"format": mine("unscored_at_first"), "length": mine("unscored_at_first")}
    weights = {"correctness": 0, "format": 0.5, "length": 0}
    run = train("run", components=components, weights=weights)
    log = capsys.readouterr().out
    assert "step 1/4: reward unscored (correctness 0.000 format unscored length unscored), " in log
    assert "step 3/4: reward unscored" not in log
    columns = next(line for line in log.splitlines() if line.startswith("columns: "))
    assert set(columns.split()[1:]) == {*OF_TRAINER, *OF_PROBLEMS}  # as `arguments.py` has them
    table = rewards_by_step(pd.read_parquet(run / "rollouts.parquet"), ["correctness", "format", "length"])
    counts = table.groupby("quantity")["unscored"].apply(list)
    assert counts["format"] == counts["length"] == counts["total"] == [8, 8, 1, 1]
    assert counts["correctness"] == [0, 0, 0, 0]


def test_a_reward_that_edits_its_arguments_and_draws_random_numbers_changes_only_its_own_scores(train, mine):
    """At weight 0: not even those of the training."""
    weights = {"correctness": 0, "format": 0, "length": 0.3}
    runs = [
        train(name, components={"correctness": component, "format": component}, weights=weights)
        for name, component in (("cuts", mine("cuts")), ("constant", {"function": "constant", "parameters": {}}))
    ]
    cut, other = (pd.read_parquet(run / "rollouts.parquet") for run in runs)
    assert (cut.score_format == cut.completion.str.len().clip(upper=3)).all()
    own = [f"{kind}_{name}" for kind in ("score", "advantage") for name in ("correctness", "format")]
    pd.testing.assert_frame_equal(cut.drop(columns=own), other.drop(columns=own))
    assert sha256(runs[0] / "model/model.safetensors") == sha256(runs[1] / "model/model.safetensors")


def test_what_rewards_log_for_each_completion_is_in_the_rollouts(train, trained, mine):
    own = {"format": mine("logs"), "length": mine("logs")}
    # Each step has a part of its own, and the first one no column for what is logged.
    run = train("run", components=own, weights={"length": 0}, training={"save_strategy": "steps", "save_steps": 1})
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert rollouts.columns[-1] == EXTRA.name
    assert rollouts.extra.notna().tolist() == (rollouts.step % 2 == 0).tolist()
    for row in rollouts.dropna(subset="extra").itertuples():
        logged = {"letters": len(row.completion), "first": row.completion[:1] or None}
        assert json.loads(row.extra) == {"format": logged, "length": logged}
    assert EXTRA.name not in pd.read_parquet(trained() / "rollouts.parquet")


def test_each_component_gets_lists_objects_and_numbers_as_they_are_in_the_file(train, mine, tmp_path):
    rows = [
        {"question": f"How many are {n} eggs?", "tests": ["f()"] * (n % 3), "about": {"size": [n]}, "points": n / 4}
        for n in range(8)
    ]
    data, prepared = tmp_path / "mine.jsonl", tmp_path / "train.parquet"
    data.write_text("\n".join(map(json.dumps, rows)))
    source = {"source": "file", "path": str(data), "columns": {name: name for name in ("tests", "about", "points")}}
    prepare(PrepareSpec.model_validate({"source": source, "golds": False}), "train", prepared)
    components = {"correctness": mine("changes"), "format": mine("changes")}
    run = train("run", problems=prepared, components=components, training={"max_steps": 2})
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    number = rollouts.problem_id.str.removeprefix("file/mine/").astype(int)
    assert rollouts.score_correctness.tolist() == (number % 3 + number + number / 4).tolist()
    assert rollouts.score_format.tolist() == rollouts.score_correctness.tolist()
