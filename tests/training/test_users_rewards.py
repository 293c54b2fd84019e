"""Runs with a user's reward functions: they are called as TRL calls them, None is legal, and mistakes are one line."""

import pandas as pd
import pytest

from reward_ablation.analysis.training.tables import rewards_by_step
from reward_ablation.rewards.arguments import OF_PROBLEMS, OF_TRAINER
from reward_ablation.study.reward_files import file_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

MINE = """
SEEN = set()

def unscored_at_first(prompts, completions, trainer_state, **kwargs):
    SEEN.update(kwargs, ["prompts", "completions", "trainer_state"])
    print("columns:", *sorted(SEEN))
    if trainer_state.global_step < 2:
        return [None] * len(completions)
    return [None, *(float(len(text)) for text in completions[1:])]

def nan_at_the_second_step(completion_ids, trainer_state, log_metric=None, **kwargs):
    log_metric("judged", 1.0)
    return [float("nan") if trainer_state.global_step else 1.0 for _ in completion_ids]
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
    # tracking a component that gives no scores changes nothing
    constant = {"function": "constant", "parameters": {}}
    other = train("other", components={**components, "length": constant}, weights=weights)
    assert sha256(other / "model/model.safetensors") == sha256(run / "model/model.safetensors")


def test_a_score_that_is_nan_ends_the_run_in_one_line(train, mine):
    with pytest.raises(StudyError) as error:
        train("run", components={"length": mine("nan_at_the_second_step")})
    assert str(error.value).startswith("components.length: at step 2, problem word_problems/train/")
    assert "the score is nan" in str(error.value)
