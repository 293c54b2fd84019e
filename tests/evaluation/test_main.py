import importlib.metadata
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.__main__ import main
from reward_ablation.evaluation.score import SCHEMA
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import take
from stand_in_gpus import Machine
from storage import fill, small_disk
from workflow.starting import forking_python

from .conftest import record_run

EVALUATION = Evaluation(answer_format="hash", samples=2, max_new_tokens=16, batch_size=4).model_dump()
PROMPT = {"system": None, "template": "{question}\n", "chat": False}
SPEC = {"evaluation": EVALUATION, "prompt": PROMPT, "device": "cpu"}


@pytest.fixture
def evaluate(model_folder, problems_file, tmp_path):
    def run(name="answers", model=model_folder, **options):
        folder = tmp_path / name
        options = {"spec": json.dumps(SPEC), "model": model, "problems": problems_file, "answers": folder} | options
        main([text for key, value in options.items() for text in (f"--{key}", str(value))])
        return Path(options["answers"]) / f"{Path(options['problems']).stem}.parquet"

    return run


@pytest.fixture(scope="session")
def adapter(model_folder, tmp_path_factory):
    """A LoRA adapter that does something, and the same weights merged into a whole model."""
    from peft import LoraConfig, get_peft_model

    from reward_ablation.models.load import load_model
    from reward_ablation.sampling.tokenizer import load_tokenizer

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


def test_an_adapter_answers_as_its_merged_model(evaluate, adapter, model_folder):
    folder, merged = adapter
    with_base = pd.read_parquet(evaluate("adapter", model=folder, base=model_folder))
    pd.testing.assert_frame_equal(with_base, pd.read_parquet(evaluate("merged", model=merged)))
    base = pd.read_parquet(evaluate("base"))
    assert (with_base["completion"] != base["completion"]).all()
    # A whole model does not read --base: the workflow names it for every run.
    pd.testing.assert_frame_equal(base, pd.read_parquet(evaluate("unused", base=folder)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_on_a_gpu_it_waits_for_one_of_its_own(model_folder, problems_file, tmp_path):
    """The GPU is a stand-in: the command waits for it, and then CUDA does not find it."""
    here = Machine(tmp_path / "machine", 1)
    command = [forking_python(), "-m", "reward_ablation.evaluation", "--spec", json.dumps({**SPEC, "device": "cuda"})]
    command += ["--model", str(model_folder), "--problems", str(problems_file), "--answers", str(tmp_path / "answers")]
    with take(here.locks[0]):
        process = subprocess.Popen(command, env=here.environment(), stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline().startswith("evaluate: waiting for 1 GPU; GPU 0 is held by process ")
    assert "this machine shows no GPU" in process.communicate(timeout=120)[1]
    here.clear()


def as_run(model, folder):
    """Folder of a run that has this model, with its digests recorded."""
    shutil.copytree(model, folder / "model")
    record_run(folder)
    return folder / "model"


def spoil(folder, value):
    """Put a value into a weight of a model."""
    weights = load_file(folder / "model.safetensors")
    next(weight for name, weight in weights.items() if "up_proj" in name).view(-1)[0] = value
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (math.nan, r"the tensor \S+up_proj\.weight has values that are NaN or infinite"),
        (3e38, "the logits that tokens are sampled from are not finite"),  # finite weights, whose products are not
    ],
)
def test_a_model_that_diverged_is_refused_and_put_on_record(
    evaluate, evaluate_run, model_folder, tmp_path, value, what
):
    spoilt = tmp_path / "spoilt"
    shutil.copytree(model_folder, spoilt)
    spoil(spoilt, value)
    with pytest.raises(StudyError, match=f"spoilt: {what}; such a model cannot be evaluated"):
        evaluate("alone", model=spoilt)
    as_run(spoilt, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    write_json({**record, "spec": {}, "seed": 3, "code": "c", "inputs": {}, "steps": 40}, tmp_path / "run" / "run.json")
    with pytest.raises(StudyError, match=f"diverged at step 40: {what}; such a model is not evaluated; start the work"):
        evaluate_run(tmp_path / "run")
    diverged = json.loads((tmp_path / "run" / "diverged.json").read_text())
    assert {name: diverged[name] for name in ("seed", "code", "step")} == {"seed": 3, "code": "c", "step": 40}
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_damaged_base_under_an_adapter_is_refused(evaluate, adapter, model_folder, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(model_folder, base)
    files = {path.name: {"size": path.stat().st_size, "sha256": sha256(path)} for path in base.iterdir()}
    write_json({"files": files}, base / "model.json")
    evaluate("good", model=adapter[0], base=base)
    (base / "config.json").write_text((base / "config.json").read_text() + "\n")
    for model, further in ((adapter[0], {"base": base}), (base, {})):
        with pytest.raises(StudyError, match=r"base/config\.json: truncated or changed .* which fetches it again"):
            evaluate("bad", model=model, **further)
    assert not list((tmp_path / "bad").rglob("*.parquet"))


def test_a_full_disk_is_one_line_and_with_space_the_same_command_ends_well(evaluate, tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        answers = disk / "answers"
        answers.mkdir()
        filler = fill(disk)
        with pytest.raises(StudyError) as error:
            evaluate(answers=answers)
        assert str(error.value).startswith(f"{answers}: No space left on device; what is done is kept")
        assert not list(disk.rglob("*.parquet"))
        filler.unlink()
        assert evaluate(answers=answers).read_bytes() == evaluate("elsewhere").read_bytes()
        assert not (answers / ".unfinished").exists()


# ---------------------------------------------------------------------------- kept models, and the record


@pytest.fixture
def keeping(model_folder, adapter, tmp_path):
    """Folder of a run that kept two models: the merged one after step 10, the other after step 5."""
    run = tmp_path / "run"
    shutil.copytree(adapter[1], run / "model-step10")
    shutil.copytree(model_folder, run / "model-step5")
    as_run(adapter[1], run)
    return run


@pytest.fixture
def evaluate_run(problems_file, tmp_path):
    """Evaluate a run's final model and those that it kept."""

    def evaluate(run, answers=tmp_path / "of_run"):
        words = ["--spec", json.dumps(SPEC), "--run", run, "--answers", answers, "--kept", "--problems", problems_file]
        main([*map(str, words)])
        return answers

    return evaluate


def test_kept_models_answer_as_each_of_them_alone(evaluate, evaluate_run, keeping, model_folder, adapter, capsys):
    folder = evaluate_run(keeping)
    out = capsys.readouterr().out
    models = (
        "final model on problems: 1 of 3",
        "model of step 5 on problems: 2 of 3",
        "model of step 10 on problems: 3",
    )
    for line in (*models, "21/21 completions, ", "graded 21 completions in"):
        assert line in out
    rows = pd.read_parquet(folder / "problems.steps.parquet")
    assert rows["step"].drop_duplicates().tolist() == [5, 10]
    for step, model in ((5, model_folder), (10, adapter[1])):
        own = rows[rows["step"] == step].drop(columns="step").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, pd.read_parquet(evaluate(f"alone{step}", model=model)))
    assert pq.read_schema(folder / "problems.steps.parquet").names == ["step", *SCHEMA.names]
    final = pd.read_parquet(folder / "problems.parquet")
    pd.testing.assert_frame_equal(final, pd.read_parquet(evaluate("final", model=adapter[1])))


def test_the_record_says_what_made_the_answers(evaluate, evaluate_run, keeping, model_folder, problems, problems_file):
    answers = evaluate()
    assert pq.read_schema(answers).equals(SCHEMA)
    rows = pd.read_parquet(answers)
    assert rows["problem_id"].tolist() == [name for name in problems["id"] for _ in range(3)]
    assert rows["mode"].tolist() == ["greedy", "sampled", "sampled"] * len(problems)
    assert rows["sample"].tolist() == [0, 0, 1] * len(problems)
    record = json.loads(answers.with_suffix(".json").read_text())
    assert (record["size"], record["sha256"]) == (answers.stat().st_size, sha256(answers))
    assert record["code"] == deciding_digest("evaluation")
    assert record["inputs"] == {"problems": sha256(problems_file)}  # and the base model's record, where there is one
    assert record["spec"]["evaluation"]["samples"] == 2
    assert record["models"] == [model_folder.name]
    assert (record["answers"], record["tokens"]) == (len(rows), rows["tokens"].sum())
    assert record["packages"]["torch"] == importlib.metadata.version("torch")  # torch.__version__ may add its build
    assert (record["hardware"]["gpus"], record["backend"], record["gpu_hours"]) == ([], "transformers", 0.0)
    # by the clock of one thread, as rounded
    assert record["cpu_hours"] == pytest.approx(record["threads"] * record["wall_seconds"] / 3600, abs=1e-4)
    assert record["wall_seconds"] > 0
    of_run = json.loads((evaluate_run(keeping) / "problems.steps.json").read_text())
    assert of_run["inputs"] == {"problems": sha256(problems_file), "run": sha256(keeping / "run.json")}
    assert of_run["models"] == ["model-step5", "model-step10"]


# ---------------------------------------------------------------------------- what an answer depends on


def test_answers_depend_on_nothing_but_model_question_and_settings(evaluate, problems, tmp_path):
    """Not on other questions of the set, their order, or the batch size: texts and verdicts, in fp32 on the CPU."""
    key = ["problem_id", "mode", "sample"]
    whole = pd.read_parquet(evaluate("whole")).set_index(key).sort_index()
    new = pd.DataFrame({"id": ["new"], "question": ["z" * 60], "answer": ["9"]})
    for name, rows, batch_size in (("more", pd.concat([new, problems[::-1]]), 21), ("some", problems.iloc[[1, 4]], 1)):
        path = tmp_path / f"{name}_problems.parquet"
        rows.reset_index(drop=True).to_parquet(path)
        spec = json.dumps({**SPEC, "evaluation": {**SPEC["evaluation"], "batch_size": batch_size}})
        answers = pd.read_parquet(evaluate(name, problems=path, spec=spec)).set_index(key)
        common = answers.index.intersection(whole.index).sort_values()
        assert len(common) == 3 * len(set(rows["id"]) & set(problems["id"]))
        pd.testing.assert_frame_equal(answers.loc[common], whole.loc[common])


def test_the_chat_template_s_kwargs_reach_the_prompts(evaluate, model_folder, tmp_path):
    model = tmp_path / "chat"
    shutil.copytree(model_folder, model)
    template = "{% if short %}{{ messages[-1]['content'][:1] }}{% else %}{{ messages[-1]['content'] }}{% endif %}="
    (model / "chat_template.jinja").write_text(template)
    chat = {**SPEC, "prompt": {**PROMPT, "template": "{question}", "chat": True}}

    def completions(name, spec, **kwargs):
        spec = json.dumps({**spec, "chat_template_kwargs": kwargs})
        return pd.read_parquet(evaluate(name, model=model, spec=spec)).set_index("problem_id")["completion"]

    short, whole = completions("short", chat, short=True), completions("whole", chat)
    pd.testing.assert_series_equal(
        whole, completions("plain", {**SPEC, "prompt": {**PROMPT, "template": "{question}="}})
    )
    one_character = short.index == "p-2"  # its question has one character
    assert (short == whole)[one_character].all()
    assert (short != whole)[~one_character].all()


def test_a_bad_spec_set_or_model_is_told_in_one_line(evaluate, problems, model_folder, tmp_path):
    def refused(**options):
        with pytest.raises(StudyError) as caught:
            evaluate(**options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    spec = json.dumps({"evaluation": {"answer_format": "hash", "sample": 2}})
    assert "--spec: evaluation: unknown key 'sample'" in refused(spec=spec)
    assert "not a prepared set of problems" in refused(problems=tmp_path / "missing.parquet")
    problems.drop(columns="answer").to_parquet(tmp_path / "columns.parquet")
    assert "answer" in refused(problems=tmp_path / "columns.parquet")
    problems.head(0).to_parquet(tmp_path / "empty.parquet")
    assert "no problems" in refused(problems=tmp_path / "empty.parquet")
    assert "no tokenizer_config" in refused(model=tmp_path)
    small = Path(shutil.copytree(model_folder, tmp_path / "small"))
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 17}))
    assert re.search(
        r"evaluation.max_new_tokens: \w+: \d+ of \d+ prompts do not fit .* 17 tokens", refused(model=small)
    )
    assert not list((tmp_path / "answers").rglob("*.parquet"))


def test_a_run_that_kept_none_has_a_table_without_rows_and_a_kept_model_that_is_gone_is_refused(
    model_folder, evaluate_run, keeping, tmp_path
):
    as_run(model_folder, tmp_path / "without")
    rows = pd.read_parquet(evaluate_run(tmp_path / "without", answers=tmp_path / "none") / "problems.steps.parquet")
    assert (len(rows), rows.columns.tolist()) == (0, ["step", *SCHEMA.names])
    shutil.rmtree(keeping / "model-step5")
    with pytest.raises(StudyError, match=r"model-step5/.*: there is no such .*which trains it again"):
        evaluate_run(keeping)
