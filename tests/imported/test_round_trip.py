"""A study that is written as another system's files and imported again has the numbers that it had."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.made_up import made_tables
from reward_ablation.analysis.study_file import read_study
from reward_ablation.imported.readers import reward_ablation
from reward_ablation.imported.readers.trl import read_rollouts
from reward_ablation.system.errors import StudyError

from .studies import answers, as_trl, imported, made_up, trl_study, write_rows
from .trl_writer import train


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Tables of a made-up study, and of the study that was imported from its rollouts as TRL's and its answers."""
    root = tmp_path_factory.mktemp("round_trip")
    study = trl_study(root)
    original, runs = root / "original", read_study(root / "original" / "study.json").runs
    study["evaluation"] = answers(root, original, [run.model_dump() for run in runs])
    folder = imported(root, study)
    rules = ("provenance", "training", "evaluation", "reward_hacking", "cost")
    return made_tables(original, *rules), made_tables(folder, *rules), folder


def test_tables_of_training_are_the_same_where_the_files_have_what_they_need(both):
    signals = ["score", "variance", "alike", "covariance", "covariance_with_advantage", "no_signal"]
    for name, known, exact in [
        ("rewards_by_step", ["correctness", "format"], True),
        ("rewards_by_step", ["total"], False),  # the sum of scores times weights
        ("signals_by_step", signals, False),
        ("component_correlations", None, False),
    ]:
        before, after = (tables[name] for tables in both[:2])
        if known:
            before, after = (each[each["quantity"].isin(known)].reset_index(drop=True) for each in (before, after))
        tolerance = {"rtol": 0, "atol": 0} if exact else {"atol": 1e-12}
        pd.testing.assert_frame_equal(before, after, **tolerance)
    assert set(both[1]["rewards_by_step"]["quantity"]) == {"correctness", "format", "total"}


@pytest.mark.parametrize("table", ["paired_differences", "component_effects", "evaluation_by_arm"])
def test_comparisons_of_greedy_accuracy_are_the_same(both, table):
    names = {"accuracy_strict": "correct", "tokens": "tokens"}
    before, after = (tables[table] for tables in both[:2])
    before = before[before["metric"].isin(names) & (before["mode"] == "greedy")].replace({"metric": names})
    after = after[after["metric"].isin(["correct", "tokens"])]
    columns = [name for name in before if name not in ("provenance", "p_holm", "family", "pooled_low", "pooled_high")]
    keys = [name for name in ("arm", "component", "metric") if name in columns]
    before, after = (frame.sort_values(keys)[columns].reset_index(drop=True) for frame in (before, after))
    assert len(after)
    pd.testing.assert_frame_equal(before, after, atol=1e-12)


def test_what_is_not_known_is_said_and_not_made_up(both):
    tables, folder = both[1:]
    assert set(tables["paired_differences"]["provenance"]) == {"not known"}
    assert tables["cost"]["wall_hours"].isna().all()
    assert set(tables["provenance"]["value"]) == {"not known", "trl files"}
    words = " ".join(read_study(folder / "study.json").imported)
    assert all(what in words for what in ("no token counts", "no gradients", "truncated", "exploratory"))


def test_files_of_trls_own_writer(tiny_model, tmp_path):
    trainer = train(tiny_model, tmp_path / "run")
    read = read_rollouts(tmp_path / "run", {})
    assert read.components == ["even_letters", "no_score_of_short"]  # and not the texts that a reward logs
    assert read.table.group_by("step").aggregate([([], "count_all")])["count_all"].to_pylist() == [8] * 4
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    means = read.table.group_by("step").aggregate([("score_even_letters", "mean")])["score_even_letters_mean"]
    rewards = [entry["rewards/even_letters/mean"] for entry in logged]
    np.testing.assert_allclose(means.to_numpy(), rewards, atol=1e-6)
    assert read.metrics["rewards/even_letters/mean"].to_pylist() == pytest.approx(rewards)
    runs = {"seeds": {0: "run"}, "weights": {"even_letters": 1.0, "no_score_of_short": 0.5}}
    study = {"name": "own", "arms": {"design": "imported", "runs": {"a": runs}}, "rollouts": {"format": "trl"}}
    table = made_tables(imported(tmp_path, study), "provenance", "training")["rewards_by_step"]
    totals = table[table["quantity"] == "total"]["mean"]
    np.testing.assert_allclose(totals, [entry["reward"] for entry in logged], atol=1e-6)


def test_a_generation_batch_that_trl_logs_twice_counts_once(tiny_model, tmp_path):
    train(tiny_model, tmp_path, steps_per_generation=2, per_device_train_batch_size=4)
    read = read_rollouts(tmp_path, {})
    assert sorted(set(read.table["step"].to_pylist())) == [1, 3]
    assert "2 files repeat the completions of the file before, and are left out." in read.missing
    assert not any("trainer_state" in line for line in read.missing)
    (tmp_path / "trainer_state.json").unlink()
    assert any("at which steps after 0 the trainer evaluated" in line for line in read_rollouts(tmp_path, {}).missing)


def test_weights_follow_from_totals_only_where_these_determine_them(tmp_path):
    original, runs = made_up(tmp_path)
    run = next(run for run in runs if run["arm"] == "full")
    rows = pd.read_parquet(original / run["folder"] / "rollouts.parquet")
    names = {"step": "step", "problem": "problem_id", "completion": "completion", "total": "total"}
    columns = {**names, "scores": {"correctness": "score_correctness", "format": "score_format"}}
    study = {"name": "fit", "arms": {"design": "imported", "runs": {"a": {"seeds": {0: "run.parquet"}}}}}
    study["rollouts"] = {"format": "table", "columns": columns}

    def fitted(**changes):
        rows.assign(**changes).to_parquet(tmp_path / "run.parquet")
        return read_study(imported(tmp_path, study) / "study.json")

    found = fitted()
    assert found.arms[0].weights == {"correctness": 1.0, "format": 0.5}
    assert any(line.startswith("a: Weights were estimated") and "residual" in line for line in found.imported)
    # 2 = 12 / 6: six decimals of the weight, 0.166667, would miss the total by 0.000004.
    score = rows["score_format"]
    twelve = fitted(score_format=12 * score, total=rows["score_correctness"] + 2 * score)
    assert twelve.arms[0].weights == {"correctness": 1.0, "format": 0.1666667}
    for changes, words in [
        ({"total": rows["total"] + 0.001 * rows["step"]}, "no weighted sum"),
        ({"score_format": rows["score_correctness"]}, "do not determine"),
        ({"total": None}, "no total"),
    ]:
        with pytest.raises(StudyError, match=rf"^arms\.runs\.a\.weights: name the weight.*{words}"):
            fitted(**changes)


def test_this_projects_answers_without_subjects_and_its_record_without_rollouts(tmp_path):
    original, runs = made_up(tmp_path)
    file = original / "data" / "evaluation" / "gsm8k_test.parquet"
    answered = original / "evaluation" / runs[0]["folder"].removeprefix("runs/") / "gsm8k_test.parquet"
    options = {"questions": str(file), "correct": "correct_strict"}
    read = reward_ablation.read_answers(answered, options)
    assert read.table["question"].null_count == 0
    assert read.table["subject"].null_count == len(read.table)
    questions = pd.read_parquet(file)
    questions.assign(level=[["a"]] * len(questions)).to_parquet(file)
    with pytest.raises(StudyError, match="name files of this project"):
        reward_ablation.read_answers(answered, options)
    record = original / runs[0]["folder"] / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "files": {}}))
    with pytest.raises(StudyError, match=r"run\.json: names no rollouts\.parquet; copy the run's folder again"):
        reward_ablation.read_record(record.parent)


def test_the_example_of_the_docs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text()
    study = yaml.safe_load("".join(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)))
    original, runs = made_up(tmp_path)
    for run in runs:
        if run["arm"] in study["arms"]["runs"]:
            as_trl(original, run, tmp_path / study["arms"]["runs"][run["arm"]]["seeds"][run["seed"]])
    rows = [{"id": str(n), "question": f"{n}?", "right": n % 2 == 0, "text": "4", "tokens": n} for n in range(8)]
    for files in study["evaluation"]["runs"].values():
        for file in files.values() if isinstance(files, dict) else [files]:
            write_rows(tmp_path / file, rows)
    write_rows(tmp_path / "problems.jsonl", [{"question": f"gsm8k:{n}", "answer": "1"} for n in range(2)])
    folder = imported(tmp_path, study)
    tables = made_tables(folder, "provenance", "training", "evaluation")
    assert set(tables["evaluation_by_arm"]["metric"]) == {"correct", "tokens"}
    assert "boxed" in set(tables["rewards_by_step"]["quantity"])
