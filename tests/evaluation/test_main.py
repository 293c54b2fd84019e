import json
import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from reward_ablation.evaluation.__main__ import main
from reward_ablation.evaluation.score import SCHEMA
from reward_ablation.study.errors import StudyError

SPEC = {
    "evaluation": {"answer_format": "hash", "samples": 2, "max_new_tokens": 16, "batch_size": 4},
    "prompt": {"template": "{question}\n", "chat": False},
}


@pytest.fixture
def evaluate(model_folder, problems_file, tmp_path):
    def run(name="answers", model=model_folder, **options):
        output = tmp_path / f"{name}.parquet"
        options = {"spec": json.dumps(SPEC), "model": model, "problems": problems_file, "output": output} | options
        main([text for key, value in options.items() for text in (f"--{key}", str(value))])
        return output

    return run


@pytest.fixture(scope="session")
def adapter(model_folder, tmp_path_factory):
    """A LoRA adapter that does something, and the same weights merged into a whole model."""
    from peft import LoraConfig, get_peft_model

    from reward_ablation.models.load import load_model, load_tokenizer

    folder, merged = tmp_path_factory.mktemp("adapter"), tmp_path_factory.mktemp("merged")
    torch.manual_seed(1)
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(load_model(model_folder), config)
    model.save_pretrained(folder)
    whole = model.merge_and_unload()
    whole.generation_config.update(do_sample=True)  # else saving refuses the sampling fields
    whole.save_pretrained(merged)
    load_tokenizer(model_folder).save_pretrained(merged)
    return folder, merged


def test_rows_have_the_schema_and_the_problems_order(evaluate, problems):
    output = evaluate()
    assert pq.read_schema(output).equals(SCHEMA)
    rows = pd.read_parquet(output)
    assert rows["problem_id"].tolist() == [name for name in problems["id"] for _ in range(3)]
    assert rows["mode"].tolist() == ["greedy", "sampled", "sampled"] * len(problems)
    assert rows["sample"].tolist() == [0, 0, 1] * len(problems)
    assert rows["tokens"].between(1, 16).all()


def test_twice_is_the_same_bytes(evaluate):
    assert evaluate("first").read_bytes() == evaluate("second").read_bytes()


def test_an_adapter_answers_as_its_merged_model(evaluate, adapter, model_folder):
    folder, merged = adapter
    with_base = pd.read_parquet(evaluate("adapter", model=folder, base=model_folder))
    pd.testing.assert_frame_equal(with_base, pd.read_parquet(evaluate("merged", model=merged)))
    base = pd.read_parquet(evaluate("base"))
    assert (with_base["completion"] != base["completion"]).all()
    # A whole model does not read --base: the workflow names it for every run.
    pd.testing.assert_frame_equal(base, pd.read_parquet(evaluate("unused", base=folder)))


def test_an_adapter_needs_its_base(evaluate, adapter):
    with pytest.raises(StudyError, match=r"holds a LoRA adapter; name its base model too \(--base FOLDER\)"):
        evaluate(model=adapter[0])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{", "--spec: config: "),
        ({"evaluation": {"answer_format": "hash", "sample": 2}}, "--spec: evaluation: unknown key 'sample'"),
        ({"evaluation": {"answer_format": "hash", "greedy": False}}, "nothing to evaluate"),
    ],
)
def test_a_bad_spec_is_told_by_its_key(evaluate, spec, message):
    with pytest.raises(StudyError, match=message):
        evaluate(spec=spec if isinstance(spec, str) else json.dumps(spec))


def test_a_bad_set_of_problems_is_told_in_one_line(evaluate, problems, tmp_path):
    def refused(path):
        with pytest.raises(StudyError) as caught:
            evaluate(problems=path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "not a prepared set of problems" in refused(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    assert "not a prepared set of problems" in refused(tmp_path / "text.parquet")
    problems.drop(columns="answer").to_parquet(tmp_path / "columns.parquet")
    assert "answer" in refused(tmp_path / "columns.parquet")
    problems.head(0).to_parquet(tmp_path / "empty.parquet")
    assert "no problems" in refused(tmp_path / "empty.parquet")


def test_the_command_ends_with_one_line_and_no_output(problems_file, tmp_path):
    """As the workflow starts it."""
    command = [sys.executable, "-m", "reward_ablation.evaluation", "--spec", "{}", "--model", tmp_path]
    command += ["--problems", problems_file, "--output", tmp_path / "answers.parquet"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: --spec: evaluation: missing")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_model_leaves_no_output(evaluate, tmp_path):
    with pytest.raises(StudyError, match="no tokenizer_config"):
        evaluate(model=tmp_path)
    assert list(tmp_path.iterdir()) == []
