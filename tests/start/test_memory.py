"""The estimate of GPU memory, against public numbers, what real steps on a CPU hold, and the table in the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from reward_ablation.start import memory, memory_terms
from reward_ablation.start.memory_terms import GIB, SHAPES, Run, Shape
from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients import recorder

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "benchmarks" / "workers" / "memory_used.py"
DEEPSPEED = Path(sys.prefix) / "deepspeed"
#: What a process holds between steps.
HELD = {
    "weights": memory_terms.weights,
    "master weights": memory_terms.master_weights,
    "optimiser": memory_terms.optimiser,
}

SMALL = Shape(hidden=128, layers=4, heads=8, kv_heads=2, head_dim=16, intermediate=320, vocabulary=4096)
#: Few words, so that what is measured is not the tiles of the head: on a CPU these have float32 copies.
FEW_WORDS = Shape(hidden=256, layers=6, heads=4, kv_heads=2, head_dim=64, intermediate=1024, vocabulary=1000)


@pytest.mark.parametrize(
    ("name", "parameters"),  # as the published safetensors files have them
    [("0.5B", 494_032_768), ("1.5B", 1_543_714_304), ("3B", 3_085_938_688), ("7B", 7_615_616_512)],
)
def test_qwen_has_its_published_number_of_parameters(name, parameters):
    assert SHAPES[name].parameters == parameters


def test_zero_shares_what_the_paper_says():
    """Rajbhandari et al., figure 1: bytes by stage with K = 12, for 64 processes: 16 a weight, 2 + 14 / 64, 16 / 64."""
    shape = SHAPES["7B"]
    numbers = shape.parameters

    def held(**changes) -> float:
        run = Run(**changes)
        return sum(
            part(shape, run) for part in (memory_terms.weights, memory_terms.master_weights, memory_terms.optimiser)
        ) + (memory_terms.gradients(shape, run))

    assert held() == 16 * numbers
    assert held(strategy="zero2", processes=64) == pytest.approx((2 + 14 / 64) * numbers)
    assert held(strategy="zero3", processes=64) == pytest.approx(16 / 64 * numbers)


def test_the_recorders_blocks_are_those_of_the_estimate():
    assert (memory_terms.BLOCK_BYTES, memory_terms.SUMS) == (recorder.BLOCK_BYTES, recorder.SUMS)


def test_sleeping_vllm_leaves_its_memory_to_the_training():
    run = Run(vllm="colocate")
    awake, asleep = (memory.peaks(SHAPES["1.5B"], replace(run, vllm_sleep=sleep)) for sleep in (False, True))
    assert awake["backward"] - asleep["backward"] == pytest.approx(0.3 * 80 * GIB)
    assert awake["generation"] == asleep["generation"]


def test_an_engine_without_room_for_its_weights_does_not_fit():
    assert not memory.fits(SHAPES["7B"], Run(lora=16, strategy="zero3", processes=8, vllm="colocate"), 24 * GIB)


def test_a_shape_is_read_from_a_config(tmp_path):
    config = {
        "model_type": "qwen2",
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert memory.read_shape(tmp_path) == SHAPES["0.5B"]
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StudyError, match="'num_attention_heads' is not there"):
        memory.read_shape(tmp_path)


def test_the_docs_have_the_table_of_sizes():
    assert memory.sizes_table() in (ROOT / "docs" / "launch.md").read_text()


def test_the_command_prints_a_table():
    command = [sys.executable, "-m", "reward_ablation.start.memory", "--shape", "0.5B", "--vllm", "colocate"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "| weights | 1.8 | 1.8 | 1.8 |" in printed
    assert "80.0 GiB: fits" in printed


# ---------------------------------------------------------------------- against measurements


def measured_step(run: Run, folder: Path, *launcher: str, **environment: str) -> dict[str, int]:
    """What the processes of a real training hold."""
    result = folder / "measured.json"
    command = [sys.executable, *launcher, str(WORKER), "--shape", json.dumps(asdict(SMALL))]
    command += ["--layout", json.dumps(asdict(run)), "--json", str(result)]
    paths = [str(WORKER.parents[1]), *([str(DEEPSPEED)] if run.zero else [])]
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **environment}
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())["measured"]


def assert_as_estimated(run: Run, found: dict[str, int]) -> None:
    """To the byte, but for what a slice is filled up with to an even length."""
    terms = {
        "weights": memory_terms.weights,
        "master weights": memory_terms.master_weights,
        "optimiser": memory_terms.optimiser,
    }
    for name, part in terms.items():
        assert found[name] == pytest.approx(part(SMALL, run), rel=1e-3), name
    if not run.zero:
        assert found["gradients"] == memory_terms.gradients(SMALL, run)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"bf16": False}, marks=pytest.mark.long),
        {"bf16": True, "lora": 8},
        pytest.param({"bf16": False, "processes": 2}, marks=pytest.mark.long),
    ],
)
def test_weights_gradients_and_optimiser(tmp_path, changes):
    run = Run(micro_batch=4, prompt=16, completion=16, checkpointing=False, **changes)
    several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if run.processes > 1 else []
    assert_as_estimated(run, measured_step(run, tmp_path, *several, ACCELERATE_USE_CPU="true"))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(
    find_spec("deepspeed") is None and not DEEPSPEED.is_dir(), reason="DeepSpeed is not installed; `make test` does"
)
@pytest.mark.parametrize(
    ("strategy", "changes"),
    [("zero2", {"bf16": False}), ("zero2", {}), ("zero3", {"bf16": False}), ("zero3", {"lora": 8})],
)
def test_slices_of_zero(tmp_path, strategy, changes):
    run = Run(micro_batch=4, prompt=16, completion=16, checkpointing=False, strategy=strategy, processes=2, **changes)
    launcher = ["-m", "accelerate.commands.launch", "--use_deepspeed", "--zero_stage", strategy[-1]]
    launcher += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", "0", *(["--zero3_save_16bit_model", "true"] if strategy == "zero3" else [])]
    assert_as_estimated(run, measured_step(run, tmp_path, *launcher))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "margin"),
    [
        pytest.param({"bf16": False, "checkpointing": False}, 0.02, marks=pytest.mark.long),
        pytest.param({"bf16": True, "checkpointing": False}, 0.02, marks=pytest.mark.long),
        ({"bf16": True, "checkpointing": False, "lora": 8}, 0.03),
        pytest.param({"bf16": False, "checkpointing": True}, 0.06, marks=pytest.mark.long),
        pytest.param({"bf16": True, "checkpointing": True}, 0.06, marks=pytest.mark.long),
    ],
)
def test_activations_and_the_peak_of_a_step(tmp_path, monkeypatch, changes, margin):
    monkeypatch.syspath_prepend(str(WORKER.parents[1]))
    from workers.memory_used import one_pass

    run = Run(micro_batch=4, prompt=96, completion=96, **changes)
    found = one_pass(FEW_WORDS, run, tmp_path)
    kept = memory_terms.activations(FEW_WORDS, run)
    if run.checkpointing:  # one layer is computed anew later
        kept -= memory_terms.layer_activations(FEW_WORDS, run)
    assert found["activations"] == pytest.approx(kept, rel=margin)
    start = (
        memory_terms.activations(FEW_WORDS, run)
        + memory_terms.head(FEW_WORDS, run)
        + memory_terms.measurement(FEW_WORDS, run)
    )
    assert found["peak"] == pytest.approx(start, rel=0.25)
