"""The KL term compares with the model that a run starts from, and has a gradient."""

import pandas as pd
import pytest
import torch

from reward_ablation.models.load import load_model

pytestmark = pytest.mark.slow

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": "all-linear"}


@pytest.mark.parametrize(("lora", "rate"), [(None, 1e-3), pytest.param(LORA, 2e-2, marks=pytest.mark.long)])
def test_the_kl_term_pulls_back_to_the_start(train, lora, rate):
    """At the start it is zero, with no gradient: the first step is the same under any weight; then it holds."""
    kl = {}
    for beta in (1e-6, 2.0):
        run = train(str(beta), lora=lora, training={"beta": beta, "max_steps": 6, "learning_rate": rate})
        kl[beta] = pd.read_parquet(run / "metrics.parquet").kl
    assert kl[1e-6][0] == kl[2.0][0] == 0
    assert kl[1e-6][1] == pytest.approx(kl[2.0][1], rel=0.05)
    assert 0 < kl[2.0][5] < 0.7 * kl[1e-6][5]


def test_without_its_adapter_a_trained_model_is_the_start(train, demo_model):
    run = train("run", lora=LORA, training={"beta": 0.1})
    trained, start = load_model(run / "model", base=demo_model), load_model(demo_model)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert not torch.equal(trained(ids).logits, start(ids).logits)
        with trained.disable_adapter():
            assert torch.equal(trained(ids).logits, start(ids).logits)
