"""Whole runs of a few steps: tracking changes nothing, runs repeat, and runs resume."""

import json
import os
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from trl import GRPOTrainer

from reward_ablation.study.reward_files import file_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around import run as run_module
from reward_ablation.training.around.checks import check_trainer

from .conftest import changed_model, job_of, spec_with
from .interrupting import digests

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear"}


def weights_of(run):
    return sha256(run / "model" / "model.safetensors")


def assert_same_result(one, other):
    for file in ("rollouts.parquet", "metrics.parquet", "model/model.safetensors"):
        assert sha256(one / file) == sha256(other / file), file


def test_tables_hold_every_step_and_completion_with_its_scores_and_parts_of_the_advantage(trained):
    run = trained()
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert rollouts.groupby("step").size().to_dict() == {1: 8, 2: 8, 3: 8, 4: 8}
    groups = rollouts.groupby(["step", "problem_id"])["rollout"].apply(sorted)
    assert all(group == [0, 1, 2, 3] for group in groups)
    total = rollouts.score_correctness + 0.5 * rollouts.score_format + 0.3 * rollouts.score_length
    assert total.to_numpy() == pytest.approx(rollouts.total.to_numpy())
    parts = rollouts.filter(like="advantage_").sum(axis=1)
    assert parts.to_numpy() == pytest.approx(rollouts.advantage.to_numpy(), abs=1e-5)
    assert rollouts.tokens.between(1, 16).all()
    assert (rollouts.truncated <= (rollouts.tokens == 16)).all()  # only a full completion can be cut
    metrics, gradients = (pd.read_parquet(run / f"{name}.parquet") for name in ("metrics", "gradients"))
    assert metrics.step.tolist() == gradients.step.unique().tolist() == [1, 2, 3, 4]
    assert {"loss", "reward", "entropy", "grad_norm", "rewards/format/mean"} <= set(metrics.columns)
    assert gradients.layer.unique().tolist() == ["all", "embed_tokens", "layers.0", "layers.1", "norm"]


def test_steps_that_generate_twice_or_not_at_all_have_their_rows(train):
    twice = {"gradient_accumulation_steps": 4, "steps_per_generation": 1, "per_device_train_batch_size": 4}
    rollouts = pd.read_parquet(train("twice", training={**twice, "max_steps": 2}) / "rollouts.parquet")
    assert rollouts.groupby("step").size().to_dict() == {1: 16, 2: 16}
    run = train("earlier", training={"num_iterations": 2})
    metrics = pd.read_parquet(run / "metrics.parquet")
    assert metrics.step.tolist() == [1, 2, 3, 4]
    assert metrics.reward.isna().tolist() == [False, True, False, True]
    assert metrics.loss.notna().all()
    assert pd.read_parquet(run / "rollouts.parquet").step.unique().tolist() == [1, 3]


def test_a_run_by_trls_own_backward_pass_has_all_but_gradients(trained):
    own, other = trained(gradients={"every": 0, "backward": "trl"}), trained(gradients={"every": 0})
    assert sorted(path.name for path in own.iterdir()) == sorted(path.name for path in other.iterdir())
    first, second = (pd.read_parquet(run / "rollouts.parquet").completion.tolist() for run in (own, other))
    assert first == second
    first, second = (pd.read_parquet(run / "metrics.parquet").grad_norm.tolist() for run in (own, other))
    assert first == pytest.approx(second, rel=1e-4)
    for name in ("gradients", "sample_grams", "sample_gram_rows"):
        assert pq.read_schema(own / f"{name}.parquet") == pq.read_schema(other / f"{name}.parquet")
        assert pq.read_metadata(own / f"{name}.parquet").num_rows == 0


def test_of_a_models_generation_config_only_end_tokens_count(train, trained, demo_model, tmp_path, capsys):
    changes = {"training": {"max_steps": 1, "repetition_penalty": 1.2}}
    plain = trained(**changes)
    asked = {"no_repeat_ngram_size": 1, "num_beams": 2}
    odd = {"temperature": 0.6}  # without do_sample, which transformers loads and does not save
    for name, generation, kept in (("asked", asked, asked), ("odd", odd, {})):
        run = train(name, model=changed_model(demo_model, tmp_path / f"of_{name}", generation), **changes)
        assert_same_result(run, plain)
        saved, other = (json.loads((of / "model/generation_config.json").read_text()) for of in (run, plain))
        assert saved == {**other, **kept}
    line = "train: the model's generation_config.json asks for no_repeat_ngram_size: 1, num_beams: 2; training and"
    assert capsys.readouterr().out.count(line) == 1


@pytest.mark.parametrize(
    "training",
    [
        {},
        {"loss_type": "vespo"},
        {"beta": 0.2, "use_bias_correction_kl": True},
        {"off_policy_mask_threshold": 0.05, "top_entropy_quantile": 0.5, "delta": 1.5},
        {"use_adaptive_entropy": True, "entropy_target": 0.1},
    ],
    ids=str,
)
def test_measuring_gradients_changes_nothing(trained, training):
    training = {**training, "num_iterations": 2} if training else {}
    measured, unmeasured = trained(training=training), trained(training=training, gradients={"every": 0})
    assert_same_result(measured, unmeasured)
    assert pq.read_table(unmeasured / "gradients.parquet").num_rows == 0


def test_gradients_of_some_steps_and_of_none_after_the_last_epoch(train, capsys):
    epochs = {"max_steps": -1, "num_train_epochs": 1, "per_device_train_batch_size": 32, "max_completion_length": 4}
    run = train("run", training=epochs, gradients={"every": 2, "whole": [2, 7, 9]})
    line = "warning: gradients.whole: 7, 9: not written, because the run ended at step 4\n"
    assert line in capsys.readouterr().out
    assert [path.name for path in run.glob("gradients_step_*")] == ["gradients_step_2.npz"]
    assert pd.read_parquet(run / "gradients.parquet").step.unique().tolist() == [1, 2, 3]


def test_a_seed_repeats_to_the_byte_and_another_differs(train, trained):
    first, again, other = trained(), digests(train("again")), digests(train("other", seed=1))
    assert digests(first) == again
    for table in ("rollouts.parquet", "metrics.parquet", "gradients.parquet"):
        assert again[table] != other[table]


def test_lora_with_kl_and_dropout_trains_an_adapter(train, capsys):
    run = train("lora", lora=LORA, training={"beta": 0.1, "max_steps": 2})
    line = "lora_dropout.default has a dropout of 0.1, which is active while completions are sampled"
    assert line in capsys.readouterr().out
    assert (run / "model" / "adapter_model.safetensors").is_file()
    assert "kl" in pd.read_parquet(run / "metrics.parquet")
    gradients = pd.read_parquet(run / "gradients.parquet")
    assert gradients.layer.unique().tolist() == ["all", "layers.0", "layers.1"]


def test_run_json_says_what_was_trained_and_lists_its_files(trained):
    run = trained()
    record = json.loads((run / "run.json").read_text())
    modules = {"training.around.run", "rewards.components.token_length"}
    assert {f"reward_ablation.{name}" for name in modules} < record["modules"].keys()
    [attempt] = record["attempts"]
    assert (attempt["per_device_train_batch_size"], attempt["gradient_accumulation_steps"]) == (8, 1)
    assert record["wall_seconds"] == attempt["wall_seconds"] > 0
    assert (record["seed"], record["steps"], record["code"]) == (0, 4, "code")
    assert record["spec"]["weights"] == {"correctness": 1, "format": 0.5, "length": 0.3}
    assert record["files"]["rollouts.parquet"] == sha256(run / "rollouts.parquet")
    assert record["files"]["model/model.safetensors"] == weights_of(run)
    assert record["sizes"] == {name: (run / name).stat().st_size for name in record["files"]}
    tables = ["gradients", "metrics", "rollouts", "sample_gram_rows", "sample_grams"]
    expected = {".run.json", "run.json", "model", *(f"{name}.parquet" for name in tables)}
    assert {path.name for path in run.iterdir()} == expected


def test_a_file_that_has_changed_since_the_start_is_refused(train, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def one(*scores, **columns):\n    return [1.0 for _ in columns['completions']]\n")
    mine = {"parameters": {}, "code": file_digest(file, tmp_path)}
    file.write_text(file.read_text().replace("1.0", "2.0"))
    told = r"mine\.py: the file, or one that it imports, has changed since the workflow was started"
    for changes in (
        {"components": {"length": {"function": f"{file}:one", **mine}}},
        {"combine": {"method": f"{file}:one", "gram": None, **mine}},
    ):
        with pytest.raises(StudyError, match=told):
            train("run", **changes)


def test_problems_that_no_epoch_reaches_are_told(train, capsys):
    settings = {"max_steps": 1, "per_device_train_batch_size": 20, "max_completion_length": 4}
    line = "shuffle_dataset: false: a generation takes 5 problems, and the last 2 of 32 are left out of each epoch"
    train("in order", training={**settings, "shuffle_dataset": False}, gradients={"every": 0})
    assert line in capsys.readouterr().out
    train("shuffled", training=settings, gradients={"every": 0})
    assert "left out" not in capsys.readouterr().out


@pytest.mark.parametrize("disabled", [True, False])
def test_disable_dropout_switches_off_dropout_that_is_a_function(demo_model, problems, tmp_path, capsys, disabled):
    model = shutil.copytree(demo_model, tmp_path / "model")
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "attention_dropout": 0.25}))
    spec = spec_with(training={"disable_dropout": disabled})
    trainer = run_module.build_trainer(job_of(spec, tmp_path / "run", model, problems))
    assert ("self_attn has a dropout of 0.25" in capsys.readouterr().out) is not disabled
    rates = {module.attention_dropout for module in trainer.model.modules() if hasattr(module, "attention_dropout")}
    assert rates == {0.0 if disabled else 0.25}


def test_training_gives_the_template_the_study_s_date_and_tells_of_a_chat_that_ends_in_the_end_token(
    demo_model, problems, tmp_path, capsys
):
    model = shutil.copytree(demo_model, tmp_path / "model")
    template = "{{ strftime_now('%Y %m') }} {{ messages[-1].content }}{{ eos_token }}"
    (model / "chat_template.jinja").write_text(template)
    spec = spec_with(prompt={"chat": True, "date": "2011-12-13"})
    trainer = run_module.build_trainer(job_of(spec, tmp_path / "run", model, problems))
    told = capsys.readouterr().out
    assert told.count("warning: the model: the chat template ends the prompt with the end token") == 1
    chats = trainer.train_dataset["prompt"][:2]
    tokens, images, others = trainer._tokenize_prompts(chats)
    expected = [f"2011 12 {chat[-1]['content']}{trainer.processing_class.eos_token}" for chat in chats]
    assert tokens == trainer.processing_class(expected, add_special_tokens=False)["input_ids"]
    assert (images, others) == (None, {})
    with pytest.raises(StudyError, match=r"^launch\.strategy: the run's strategy is zero2, and its processes were st"):
        check_trainer(trainer, "zero2")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"gpus": 1}, "this machine shows no GPU"),
        ({"processes": 2}, "the number of the run's processes must be 2, but is 1; start the training"),
    ],
)
def test_what_a_run_lacks_is_one_line(train, changes, told):
    if "gpus" in changes and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(StudyError, match=told):
        train("run", **changes)


def test_bfloat16_measures_what_float32_does_within_its_precision(train, monkeypatch):
    """Under autocast, on the same rollouts; sums are float32."""
    rollouts, generate = [], GRPOTrainer._generate_single_turn

    def once(trainer, *given, **options):
        rollouts.append(rollouts[0] if rollouts else generate(trainer, *given, **options))
        return rollouts[-1]

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", once)
    exact, rough = (
        pd.read_parquet(train(str(bf16), training={"max_steps": 1, "bf16": bf16}) / "gradients.parquet")
        for bf16 in (False, True)
    )
    keys = ["layer", "definition", "component_a", "component_b"]
    both = exact.merge(rough, on=keys, suffixes=("", "_rough")).dropna(subset=["cosine", "cosine_rough"])
    assert len(both) > 20
    assert 0 < (both.cosine - both.cosine_rough).abs().max() < 0.05
    assert (both.norm_a / both.norm_a_rough - 1).abs().max() < 0.05


def test_a_kept_model_is_the_final_one_of_a_shorter_run_and_those_of_an_earlier_result_go(train, trained):
    def kept(run):
        return sorted(path.name for path in run.glob("model*"))

    constant = {"lr_scheduler_type": "constant"}
    run, shorter = train("run", keep_models=2, training=constant), trained(training={**constant, "max_steps": 2})
    assert kept(run) == ["model", "model-step2"]
    assert sha256(run / "model-step2/model.safetensors") == weights_of(shorter) != weights_of(run)
    (run / "model-step2").rename(run / "model-step9")
    record = json.loads((run / ".run.json").read_text())
    (run / ".run.json").write_text(json.dumps({**record, "code": "other"}))
    train("run", keep_models=2, training=constant)
    assert kept(run) == ["model", "model-step2"]
    keeping, plain = digests(run), digests(trained(training=constant))
    assert plain.items() <= keeping.items()  # nothing else changes
    assert {name.partition("/")[0] for name in keeping.keys() - plain} == {"model-step2"}


def test_all_files_of_a_run_have_the_mode_of_new_files(train):
    before = os.umask(0o027)
    try:
        run = train("run", keep_models=2, lora=LORA, gradients={"whole": [1]})
    finally:
        os.umask(before)
    modes = {path.relative_to(run): oct(path.stat().st_mode & 0o777) for path in run.rglob("*") if path.is_file()}
    assert len([path for path in modes if path.suffix == ".safetensors"]) == 2
    assert modes == dict.fromkeys(modes, "0o640")
