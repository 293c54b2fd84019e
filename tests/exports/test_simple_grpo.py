"""Exports in the form of simple_grpo: rollouts by prompt and step, and greedy answers before and after training."""

from __future__ import annotations

import hashlib
import json

import pandas as pd
import pytest

from reward_ablation.exports.__main__ import main
from reward_ablation.exports.simple_grpo import prompt_texts
from reward_ablation.models.demo import build_tokenizer
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet
from specs import arm_spec

from . import as_published
from .conftest import change_record


def export(run, output, dataset="gsm8k_test"):
    """The files of a run, all of whose data sets are keyed as the workflow keys them."""
    results = run.parents[2]
    questions = results / "data" / "evaluation" / "gsm8k_test.parquet"
    questions.rename(questions.with_stem("gsm8k_test-00000000"))
    answers = results / "evaluation" / run.relative_to(results / "runs")
    arguments = {
        "run-dir": run,
        "model": results,  # its tokenizer is read for chats alone
        "problems": results / "data" / "train-00000000.parquet",
        "answer-format": "final",
        "datasets": dataset,
        "questions": questions.with_stem("gsm8k_test-00000000"),
        "before": results / "evaluation" / "base" / "gsm8k_test.parquet",
        "after": answers / "gsm8k_test.parquet",
        "output": output,
    }
    main(["simple_grpo", *(str(part) for name, value in arguments.items() for part in (f"--{name}", value))])
    return output


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rollouts_have_their_fields_and_the_runs_values(run, tmp_path):
    lines = lines_of(export(run, tmp_path / "exports") / "rollouts.jsonl")
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert len(lines) == len(rollouts)
    fields = ["step", "prompt_id", "prompt", "completion", "prediction", "ground_truth", "reward", "correct"]
    for line, row in zip(lines, rollouts.itertuples(), strict=True):
        assert list(line) == fields
        assert line["step"] == row.step - 1
        assert line["prompt"] == {"gsm8k:0": "9 x 8?\n", "gsm8k:1": "How many?\n"}[row.problem_id]
        assert line["prompt_id"] == hashlib.sha1(line["prompt"].encode()).hexdigest()[:12]
        assert line["completion"] == row.completion
        assert line["reward"] == (None if pd.isna(row.total) else row.total)


def test_predictions_are_strict_and_graded_whatever_trained_the_run(run, tmp_path):
    lines = lines_of(export(run, tmp_path / "exports") / "rollouts.jsonl")
    found = [(line["prediction"], line["correct"]) for line in lines[:4]]  # of the problem whose gold is 72
    assert found == [("72", True), ("71", False), (None, False), ("72.0", True)]


def test_accuracy_of_a_prompt_over_steps(run, tmp_path):
    accuracy = as_published.accuracy_of_prompts(export(run, tmp_path / "exports") / "rollouts.jsonl")
    first, second = (hashlib.sha1(text.encode()).hexdigest()[:12] for text in ("9 x 8?\n", "How many?\n"))
    assert accuracy == {(prompt, step): right for step in range(3) for prompt, right in ((first, 0.5), (second, 0.0))}


def test_greedy_answers_before_and_after_and_their_summary(run, tmp_path):
    folder = export(run, tmp_path / "exports")
    summary = json.loads((folder / "evaluation.json").read_text())
    results = run.parents[2]
    for moment, of in (("before", "base"), ("after", run.relative_to(results / "runs"))):
        answers = pd.read_parquet(results / "evaluation" / of / "gsm8k_test.parquet").query("mode == 'greedy'")
        lines = lines_of(folder / f"eval_{moment}_gsm8k_test.jsonl")
        assert list(lines[0]) == ["prompt", "gt", "pred", "completion", "correct"]
        assert [line["prompt"] for line in lines] == [f"What is {n}?\n" for n in range(40)]
        assert [line["correct"] for line in lines] == list(answers["correct_strict"])
        assert summary[moment]["gsm8k_test"] == {
            "eval_accuracy": pytest.approx(answers["correct_strict"].mean()),
            "eval_avg_new_tokens": pytest.approx(answers["tokens"].mean()),
        }


def test_a_renamed_set_has_its_name_of_today(run, tmp_path):
    folder = export(run, tmp_path / "exports", dataset="new")
    assert sorted(path.name for path in folder.glob("eval_*")) == ["eval_after_new.jsonl", "eval_before_new.jsonl"]
    assert list(json.loads((folder / "evaluation.json").read_text())["after"]) == ["new"]


def test_other_problems_than_the_runs_are_refused(run, results, tmp_path):
    problems = pd.read_parquet(results / "data" / "train-00000000.parquet")
    write_parquet(problems.assign(answer="1"), results / "data" / "train-00000000.parquet")
    with pytest.raises(StudyError, match="trained on another version of its problems; run the workflow again"):
        export(run, tmp_path / "exports")


def test_an_unfinished_run_is_refused(run, tmp_path):
    (run / "run.json").unlink()
    with pytest.raises(StudyError, match=r"run\.json: there is no such file"):
        export(run, tmp_path / "exports")


def test_a_prompt_is_what_the_chat_template_makes_of_it(tmp_path):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% if brief %} briefly:{% endif %}{% endif %}"
    )
    tokenizer.save_pretrained(tmp_path)
    spec = arm_spec(
        prompt={"chat": True, "template": "{question}", "system": "Be right."},
        training={"chat_template_kwargs": {"brief": True}},
    )
    assert prompt_texts({"a": "9 x 8?"}, ArmSpec.read(spec), tmp_path) == {
        "a": "[system] Be right.\n[user] 9 x 8?\n[assistant] briefly:"
    }


def test_equal_runs_have_equal_bytes(run, tmp_path):
    first = export(run, tmp_path / "first")
    change_record(run, wall_seconds=99.0)
    evaluation = run.parents[2] / "data" / "evaluation"
    (evaluation / "gsm8k_test-00000000.parquet").rename(evaluation / "gsm8k_test.parquet")
    second = export(run, tmp_path / "second")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()
