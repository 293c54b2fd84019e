"""The KL term compares with the model that a run starts from, and has a gradient."""

import json

import pandas as pd
import pytest
import torch

from reward_ablation.models.load import load_model
from reward_ablation.system.files import sha256

pytestmark = pytest.mark.slow

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": "all-linear"}


def kl_of(run):
    return pd.read_parquet(run / "metrics.parquet").set_index("step")["kl"]


@pytest.mark.parametrize(
    ("lora", "rate"), [(None, 1e-3), pytest.param(LORA, 2e-2, marks=pytest.mark.long)], ids=["all weights", "LoRA"]
)
def test_the_kl_term_pulls_back_to_the_start(train, lora, rate):
    """At the start it is zero, with no gradient: the first step is the same under any weight; then it holds."""
    weak = train("weak", lora=lora, training={"beta": 1e-6, "max_steps": 6, "learning_rate": rate})
    strong = train("strong", lora=lora, training={"beta": 2.0, "max_steps": 6, "learning_rate": rate})
    assert kl_of(weak)[1] == kl_of(strong)[1] == 0
    assert kl_of(weak)[2] == pytest.approx(kl_of(strong)[2], rel=0.05)
    assert 0 < kl_of(strong)[6] < 0.7 * kl_of(weak)[6]


def test_without_its_adapter_a_trained_model_is_the_start(train, demo_model):
    run = train("run", lora=LORA, training={"beta": 0.1})
    assert json.loads((run / "run.json").read_text())["inputs"]["model"] == sha256(demo_model / "model.json")
    trained, start = load_model(run / "model", base=demo_model), load_model(demo_model)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert not torch.equal(trained(ids).logits, start(ids).logits)
        with trained.disable_adapter():
            assert torch.equal(trained(ids).logits, start(ids).logits)
