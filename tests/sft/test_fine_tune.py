"""A supervised start learns, is a base model like a fetched one, and has the same bytes after interruptions."""

import json
import os
import shutil
import signal
import subprocess

import pytest
import torch

from reward_ablation.models.load import load_model
from reward_ablation.models.verify import verify_model
from reward_ablation.sampling.prompts import DATE
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.sft import __main__ as sft
from reward_ablation.sft.__main__ import main
from reward_ablation.sft.demonstrations import read_demonstrations, tokenized
from reward_ablation.sft.fine_tune import check_lengths
from reward_ablation.sft.settings import sft_config
from reward_ablation.spec.run import SftSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.system.locks import wait_for
from reward_ablation.training.around.interruption import Stopped
from training.conftest import model_of_type
from training.interrupting import SignalIn, StopAt
from workflow.starting import forking_python

from .conftest import SPEC

pytestmark = pytest.mark.slow

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear"}


def bytes_of(folder):
    """Digests of all files, the record's included."""
    return {path.name: sha256(path) for path in folder.iterdir()}


def loss_of(folder, problems):
    """Mean negative log-likelihood of the demonstrations' completions."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    losses = []
    for row in tokenized(*read_demonstrations(problems, SftSpec.read(SPEC)), tokenizer, DATE):
        ids = torch.tensor([row["input_ids"]])
        labels = torch.where(torch.tensor([row["completion_mask"]]) == 1, ids, -100)
        losses.append(model(input_ids=ids, labels=labels).loss.item())
    return sum(losses) / len(losses)


def test_the_start_is_a_base_model_that_has_learnt(start, demo_model, problems, capsys):
    folder = start("start", training={"max_steps": 12, "learning_rate": 5e-3})
    assert loss_of(folder, problems) < 0.8 * loss_of(demo_model, problems)
    log = capsys.readouterr().out
    assert "sft: 12 steps, from step 1\n" in log
    assert "step 12/12: loss " in log
    verify_model(folder)
    record, before = (json.loads((of / "model.json").read_text()) for of in (folder, demo_model))
    inputs = {"model": sha256(demo_model / "model.json"), "problems": sha256(problems)}
    assert record == {**before, "source": "sft", "files": record["files"], "inputs": inputs}
    assert (folder / "tokenizer.json").read_bytes() == (demo_model / "tokenizer.json").read_bytes()
    merged = start("merged", lora=LORA, training={"learning_rate": 1e-2})
    assert not (merged / "adapter_config.json").exists()
    assert loss_of(merged, problems) < loss_of(demo_model, problems)


@pytest.mark.parametrize(("lora", "accumulation"), [(None, 2), (LORA, 1)])
def test_a_start_that_is_interrupted_ends_in_the_same_bytes(start, tmp_path, lora, accumulation):
    training = {"per_device_train_batch_size": 16 // accumulation, "gradient_accumulation_steps": accumulation}
    whole = bytes_of(start("whole", training=training, lora=lora))
    for step in (1, 2, 3):
        with pytest.raises(Stopped, match=f"stopped at step {step} of 4: SIGTERM"):
            start("stopped", callbacks=[SignalIn(step)], training=training, lora=lora)
        assert [path.name for path in (tmp_path / "stopped").iterdir()] == ["work"]
    assert bytes_of(start("stopped", training=training, lora=lora)) == whole
    assert bytes_of(start("other", training=training, lora=lora, seed=1)) != whole


def test_a_start_that_is_killed_goes_on_from_its_last_checkpoint(start, capsys):
    saving = {"save_strategy": "steps", "save_steps": 1}
    whole = bytes_of(start("whole", training=saving))
    with pytest.raises(KeyboardInterrupt):
        start("killed", training=saving, callbacks=[StopAt(3)])
    assert bytes_of(start("killed", training=saving)) == whole
    assert "from step 3" in capsys.readouterr().out


def test_a_generation_config_that_transformers_refuses_to_save_ends_no_start(start, demo_model, tmp_path):
    model = shutil.copytree(demo_model, tmp_path / "model")
    asked = {**json.loads((model / "generation_config.json").read_text()), "temperature": 0.6}  # without do_sample
    (model / "generation_config.json").write_text(json.dumps(asked))
    odd, plain = (bytes_of(start(of.name, model=of, training={"max_steps": 1})) for of in (model, demo_model))
    for name in ("model.safetensors", "generation_config.json"):
        assert odd[name] == plain[name]


def test_prompts_that_are_too_long_are_told(start, capsys):
    with pytest.raises(StudyError, match="max_length: 3, and the shortest prompt has"):
        start("short", training={"max_length": 3})
    start("cut", training={"max_length": 40, "max_steps": 1})
    assert "of 32 demonstrations have more than 40 tokens and are cut there" in capsys.readouterr().out


#: Demonstrations of 6 and 12 tokens, of which the prompt has 2 and 8.
LENGTHS = [{"input_ids": [1] * n, "completion_mask": [0] * (n - 4) + [1] * 4} for n in (6, 12)]
WRAPPED = {"packing": True, "packing_strategy": "wrapped"}
CUT = "1 of 2 demonstrations have more than 11 tokens and are cut there, their end with them\n"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_length": 11}, CUT),
        ({"max_length": 8}, "1 of 2 demonstrations have 8 tokens or more before their completion, and are left out\n"),
        ({"max_length": 10, "completion_only_loss": False}, CUT.replace("11", "10")),
        ({"max_length": 2, "truncation_mode": "keep_end"}, "2 of 2 demonstrations have more than 2 tokens and lose"),
        ({"max_length": 2, **WRAPPED}, ""),
    ],
    ids=str,
)
def test_cut_demonstrations_are_told_as_trl_treats_them(tmp_path, capsys, settings, told):
    check_lengths(LENGTHS, sft_config(settings, tmp_path, 0, on_cpu=True), context=12)
    printed = capsys.readouterr().out
    assert printed.startswith(f"warning: sft.training.max_length: {told}") if told else not printed


@pytest.mark.parametrize(
    ("settings", "context", "message"),
    [
        ({"max_length": 12}, 11, "context has 11 tokens, and the longest demonstration takes 12; set max_length to 11"),
        ({"max_length": 20, **WRAPPED}, 17, "and a text that packing_strategy: wrapped joins takes 18; set max_length"),
    ],
    ids=str,
)
def test_texts_beyond_the_model_s_context_are_refused(tmp_path, settings, context, message):
    config = sft_config(settings, tmp_path, 0, on_cpu=True)
    with pytest.raises(StudyError, match=message):
        check_lengths(LENGTHS, config, context)
    check_lengths(LENGTHS, config, context + 1)


def test_models_that_read_one_packed_demonstration_in_the_next_are_refused(start, demo_model, tmp_path):
    """bloom numbers no tokens: where texts begin, TRL says by their positions alone."""
    settings = {"padding_free": True, "max_length": None}
    sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
    bloom = model_of_type("bloom", demo_model, tmp_path / "bloom", **sizes)
    with pytest.raises(StudyError, match=r"^sft\.training\.packing: bloom models read the demonstrations"):
        start("refused", model=bloom, training={"max_steps": 1, **settings})
    start("padded", model=bloom, training={"max_steps": 1})
    start("packed", training={"max_steps": 1, **settings})


def test_the_command_leaves_the_model_alone_in_its_place(demo_model, problems, tmp_path, capsys, monkeypatch):
    """Stopped by a signal it exits with 75 and goes on; what it needed on the way is gone in the end."""
    spec = {**SPEC, "training": {**SPEC["training"], "max_steps": 40}}
    output = tmp_path / "models" / "base-01234567" / "model.json"
    command = [forking_python(), "-m", "reward_ablation.sft", "--spec", json.dumps(spec), "--model", str(demo_model)]
    command += ["--problems", str(problems), "--output", str(output)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("step 3/40"):
            process.send_signal(signal.SIGTERM)
            break
    rest = process.stdout.read()
    assert process.wait(timeout=60) == 75
    assert "SIGTERM; the same command goes on from there" in rest
    assert os.listdir(tmp_path / "models") == [".base-01234567.sft"]
    assert main(command[3:]) == 0
    assert "from step 1\n" not in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "models")) == ["base-01234567", "base-01234567.json"]

    record = output.read_text()
    output.unlink()  # as Snakemake does before a job
    monkeypatch.setattr(sft, "wait_for", lambda *given: (output.write_text(record), wait_for(*given))[1])
    assert main(command[3:]) == 0
    assert capsys.readouterr().out == "sft: the job of an earlier start has made it meanwhile\n"
    assert sorted(os.listdir(tmp_path / "models")) == ["base-01234567", "base-01234567.json"]


CHAT = {**SPEC["prompt"], "chat": True, "template": "{question}"}
TIED = {**LORA, "target_modules": ["q_proj", "embed_tokens"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": CHAT}, r"^prompt\.chat: the model's tokenizer has no chat template"),
        ({"lora": TIED}, r"^sft\.lora.* embedding cannot be merged"),
        ({"training": {"bf16": True, "fp16": True}}, "^sft.training: TRL's SFTConfig refuses these settings: .*fp16"),
    ],
)
def test_the_command_refuses_in_one_line_and_leaves_nothing(demo_model, problems, tmp_path, changes, message):
    spec = {**SPEC, **changes}
    output = tmp_path / "models" / "base-01234567" / "model.json"
    command = ["--spec", json.dumps(spec), "--model", str(demo_model), "--problems", str(problems)]
    with pytest.raises(StudyError, match=message):
        main([*command, "--output", str(output)])
    assert not output.parent.exists()


def test_a_start_that_diverges_makes_no_model(start, tmp_path):
    high = {"learning_rate": 1e30, "lr_scheduler_type": "constant", "max_steps": 3}
    with pytest.raises(StudyError, match=r"values that are NaN or infinite; .* lower sft\.training\.learning_rate"):
        start("high", training=high)
    assert not list(tmp_path.rglob("model.json"))
