"""The estimate of GPU memory, against public numbers, the memory of real steps on a CPU, and the table in the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from reward_ablation.cluster.site import Site
from reward_ablation.start import memory, memory_terms
from reward_ablation.start.memory import GIB
from reward_ablation.start.memory_terms import MemorySettings, Shape
from reward_ablation.study.resolve import resolve
from reward_ablation.training.core.gradients import recorder

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "benchmarks" / "workers" / "memory_used.py"
DEEPSPEED = Path(sys.prefix) / "deepspeed"
#: Shapes of Qwen2.5, as the benchmark has them; a test compares their numbers of parameters with the published ones.
QWEN = {
    "0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936),
    "1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936),
    "3B": Shape(2048, 36, 16, 2, 128, 11008, 151936),
    "7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, tied=False),
}

SMALL = Shape(hidden=128, layers=4, heads=8, kv_heads=2, head_dim=16, intermediate=320, vocabulary=4096)
#: Few words, so that what is measured is not the tiles of the head: on a CPU these have float32 copies.
FEW_WORDS = Shape(hidden=256, layers=6, heads=4, kv_heads=2, head_dim=64, intermediate=1024, vocabulary=1000)


@pytest.mark.parametrize(
    ("name", "parameters"),  # as the published safetensors files have them
    [("0.5B", 494_032_768), ("1.5B", 1_543_714_304), ("3B", 3_085_938_688), ("7B", 7_615_616_512)],
)
def test_qwen_has_its_published_number_of_parameters(name, parameters):
    assert QWEN[name].parameters == parameters


def test_zero_shares_what_the_paper_says():
    """Rajbhandari et al., figure 1: bytes by stage with K = 12, for 64 processes: 16 a weight, 2 + 14 / 64, 16 / 64."""
    shape = QWEN["7B"]
    numbers = shape.parameters

    def held(**changes) -> float:
        run = MemorySettings(**changes)
        return sum(
            part(shape, run) for part in (memory_terms.weights, memory_terms.master_weights, memory_terms.optimiser)
        ) + (memory_terms.gradients(shape, run))

    assert held() == 16 * numbers
    assert held(strategy="zero2", processes=64) == pytest.approx((2 + 14 / 64) * numbers)
    assert held(strategy="zero3", processes=64) == pytest.approx(16 / 64 * numbers)


def test_the_recorders_blocks_are_those_of_the_estimate():
    assert (memory_terms.BLOCK_BYTES, memory_terms.SUMS) == (recorder.BLOCK_BYTES, recorder.SUMS)


def test_sleeping_vllm_leaves_its_memory_to_the_training():
    """Awake, vLLM's share comes on top of the larger phase; asleep, of generation alone."""
    run, card = MemorySettings(vllm="colocate", completion=256), 80 * GIB
    generation, training = memory.phases(QWEN["1.5B"], run)
    assert training > generation
    assert memory.peak(QWEN["1.5B"], run, card) == pytest.approx(1.1 * training + 0.3 * card + 1.5 * GIB)
    asleep = memory.peak(QWEN["1.5B"], replace(run, vllm_sleep=True), card)
    assert asleep == pytest.approx(max(1.1 * training, 1.1 * generation + 0.3 * card) + 1.5 * GIB)


def test_vllm_takes_no_less_than_its_weights():
    run = MemorySettings(lora=16, strategy="zero3", processes=8, vllm="colocate")
    more = memory.peak(QWEN["7B"], run, 24 * GIB) - memory.peak(QWEN["7B"], replace(run, vllm="server"), 24 * GIB)
    assert more == pytest.approx(2 * QWEN["7B"].parameters + 1.5 * GIB)


ASK = {"mem_gb": 8, "hours": 1}
QWEN_CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def test_a_shape_is_read_from_a_config(tmp_path):
    path = tmp_path / "config.json"
    assert memory.read_shape(path) is None
    path.write_text(json.dumps(QWEN_CONFIG))
    assert memory.read_shape(path) == QWEN["0.5B"]
    for change in ({"num_experts": 8}, {"hidden_size": None}, {"num_attention_heads": 0}):
        path.write_text(json.dumps({**QWEN_CONFIG, **change}))
        assert memory.read_shape(path) is None
    for text in ("{}", "[]", "[" * 100_000):
        path.write_text(text)
        assert memory.read_shape(path) is None


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("nvidia_h100_80gb_hbm3", 80),
        ("a100-40g", 40),
        ("nvidia_a100_3g.39gb", 39),
        ("h200", 140),
        ("L40S", 44),
        ("a100", None),  # of 40 or 80 GB
        ("", None),
    ],
)
def test_the_name_of_a_gpu_may_say_its_memory(name, gib):
    assert memory.card_by_name(name) == gib


@pytest.mark.parametrize(
    ("says", "gib"),
    [("24564, [N/A]\n81559, Disabled\n", 24564 / 1024), ("81559, Enabled\n", None), ("no devices\n", None), ("", None)],
)
def test_the_memory_of_this_machines_gpus(tmp_path, monkeypatch, says, gib):
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{says}'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert memory.smallest_card_here() == gib


# ---------------------------------------------------------------------- of a study


@pytest.fixture
def study(config, tmp_path):
    """A study of two arms, whose second one has larger micro-batches; its model is a folder with a config."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(QWEN_CONFIG))
    config["model"] = {"source": "local", "path": "model"}
    config["launch"] = {"gpus": 2, "resources": {"gpu_model": "t4"}}
    training = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    config["training"].pop("max_completion_length", None)  # TRL's default: 512
    config["training"] |= {"max_steps": 4, "num_generations": 8, "bf16": True, **training}
    larger = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    config["arms"]["arms"]["b"]["training"] = larger
    return resolve(config, "study.yaml", tmp_path)


def test_the_layout_is_that_of_the_runs_spec(study):
    run = next(run for run in study.runs.values() if run.arm == "a")
    layout = memory.memory_settings(run)
    assert (layout.micro_batch, layout.micro_batches, layout.completion, layout.processes) == (8, 2, 512, 2)
    assert (layout.lora, layout.reference, layout.measured, layout.checkpointing) == (0, False, True, True)


def test_the_plan_has_a_line_for_each_amount_and_warns(study):
    runs = list(study.runs.values())
    needed = {run.arm: f"{memory.peak(QWEN['0.5B'], memory.memory_settings(run)) / GIB:.1f}" for run in runs}
    assert float(needed["a"]) < 15 < float(needed["b"])
    assert memory.memory_lines(study, runs, here=False, site=None) == [
        f"GPU memory, arm a: about {needed['a']} GiB on each GPU, which has 15 GiB, for prompts of 256 tokens",
        f"warning: GPU memory, arm b: about {needed['b']} GiB on each GPU, which has 15 GiB, for prompts of 256 tokens",
    ]


def test_runs_that_share_a_gpu_have_their_share_of_its_memory(config, study, tmp_path):
    config["launch"] = {"gpus": 0.33, "vllm": {"mode": "colocate"}, "resources": {"gpu_model": "a100-40g"}}
    config["arms"]["arms"]["b"]["launch"] = {"gpus": 1}
    config["arms"]["arms"]["b"]["training"] = {}
    shared = resolve(config, "study.yaml", tmp_path)
    runs = {run.arm: run for run in shared.runs.values()}
    assert memory.memory_settings(runs["a"]).vllm_memory == 0.1
    assert memory.memory_settings(runs["b"]).vllm_memory == 0.3
    shape = QWEN["0.5B"]
    a, b = (memory.peak(shape, memory.memory_settings(runs[arm]), 40 * GIB) / GIB for arm in ("a", "b"))
    assert 40 / 3 < a < 20 < b < 40
    assert memory.memory_lines(shared, list(runs.values()), here=False, site=None) == [
        f"warning: GPU memory, arm a: about {a:.1f} GiB on each GPU, which has 40 GiB, of which a run has 0.333, "
        "for prompts of 256 tokens",
        f"GPU memory, arm b: about {b:.1f} GiB on each GPU, which has 40 GiB, for prompts of 256 tokens",
    ]


def test_where_the_gpu_is_not_known_nothing_is_too_much(study):
    runs = [replace(run, launch=run.launch.model_copy(update={"resources": {}})) for run in study.runs.values()]
    for line in memory.memory_lines(study, runs, here=False, site=None):
        assert "GiB on each GPU, for prompts" in line
        assert not line.startswith("warning")
    site = Site.model_validate({"gpu_type": "t4", "train": ASK, "evaluate": ASK})
    assert memory.memory_lines(study, runs, here=False, site=site)[1].startswith("warning: GPU memory, arm b")


def test_before_the_model_is_fetched_its_memory_is_not_known(study, tmp_path):
    runs = list(study.runs.values())
    (tmp_path / "model" / "config.json").unlink()
    [line] = memory.memory_lines(study, runs, here=False, site=None)
    assert line.startswith("GPU memory: known once the model is fetched")
    fetched = tmp_path / study.config.root / study.fetched_file
    fetched.parent.mkdir(parents=True)
    (fetched.parent / "config.json").write_text(json.dumps(QWEN_CONFIG))
    assert len(memory.memory_lines(study, runs, here=False, site=None)) == 2


def test_a_study_on_the_cpu_has_no_line(config, tmp_path):
    config["launch"] = {"gpus": 0}
    study = resolve(config, "study.yaml", tmp_path)
    assert memory.memory_lines(study, study.runs.values(), here=True, site=None) == []


def test_the_docs_have_the_estimates_of_qwens_models():
    """Each row of the table: model, LoRA's rank or all, strategy × GPUs, GiB."""
    text = (ROOT / "docs" / "launch.md").read_text().partition("<!-- memory -->")[2].partition("<!-- /memory -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    rows = [row for row in rows if row[0] in QWEN]
    assert len(rows) == 36
    for model, what, layout, gib in rows:
        strategy, processes = layout.split(" × ")
        lora = 16 if what == "LoRA 16" else 0
        run = MemorySettings(lora=lora, strategy=strategy, processes=int(processes))
        assert f"{memory.peak(QWEN[model], run) / GIB:.1f}" == gib


# ---------------------------------------------------------------------- against measurements


def measured_step(run: MemorySettings, folder: Path, *launcher: str, **environment: str) -> dict[str, int]:
    """What the processes of a real training hold."""
    result = folder / "measured.json"
    command = [sys.executable, *launcher, str(WORKER), "--shape", json.dumps(asdict(SMALL))]
    command += ["--layout", json.dumps(asdict(run)), "--json", str(result)]
    paths = [
        str(WORKER.parents[1]),
        *([str(DEEPSPEED)] if run.zero else []),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **environment}
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())["measured"]


def assert_as_estimated(run: MemorySettings, found: dict[str, int]) -> None:
    """Equal to the byte, except for the padding of slices to an even length."""
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
    run = MemorySettings(micro_batch=4, prompt=16, completion=16, checkpointing=False, **changes)
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
    run = MemorySettings(
        micro_batch=4, prompt=16, completion=16, checkpointing=False, strategy=strategy, processes=2, **changes
    )
    launcher = ["-m", "accelerate.commands.launch", "--use_deepspeed", "--zero_stage", strategy[-1]]
    launcher += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", "0", *(["--zero3_save_16bit_model", "true"] if strategy == "zero3" else [])]
    assert_as_estimated(run, measured_step(run, tmp_path, *launcher))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "margin"),
    [
        ({"bf16": False, "checkpointing": False}, 0.02),
        ({"bf16": True, "checkpointing": False}, 0.02),
        ({"bf16": True, "checkpointing": False, "lora": 8}, 0.03),
        ({"bf16": False, "checkpointing": True}, 0.06),
        ({"bf16": True, "checkpointing": True}, 0.06),
    ],
)
def test_activations_and_the_peak_of_a_step(tmp_path, monkeypatch, changes, margin):
    monkeypatch.syspath_prepend(str(WORKER.parents[1]))
    from workers.memory_used import one_pass

    run = MemorySettings(micro_batch=4, prompt=96, completion=96, **changes)
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
