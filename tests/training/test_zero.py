"""DeepSpeed's ZeRO in two processes: gradients or weights are in slices, measurements equal those of one process."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .given import assert_same, assert_shares_are_the_training_gradient

#: Where `make test` installs DeepSpeed: beside the environment's own packages.
PACKAGES = Path(sys.prefix) / "deepspeed"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("deepspeed") is None and not PACKAGES.is_dir(), reason="DeepSpeed is not installed; `make test` does"
    ),
]

ZERO = {
    2: {"stage": 2},
    3: {
        "stage": 3,
        "stage3_gather_16bit_weights_on_model_save": True,
        "stage3_param_persistence_threshold": 0,  # small weights would be kept whole
    },
}


@pytest.mark.parametrize("stage", [pytest.param(2, marks=pytest.mark.long), 3])
def test_zero_is_as_one_process(one_process, two_processes, tmp_path, stage):
    config = tmp_path / "deepspeed.json"
    settings = ["gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "gradient_clipping"]
    config.write_text(json.dumps({"zero_optimization": ZERO[stage], **dict.fromkeys(settings, "auto")}))
    launcher = ["accelerate.commands.launch", "--use_deepspeed", "--deepspeed_config_file", str(config)]
    launcher += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    runs = ["one_pass", "many_passes", "combined_ahead"]
    launcher += ["--main_process_port", "0"]
    folder = two_processes(launcher, packages=str(PACKAGES), strategy=f"zero{stage}", runs=runs)
    for name in runs:
        assert_same(one_process / name, folder / name)
        assert_shares_are_the_training_gradient(folder / name, step=1)
