"""A run with components of length, repetition and form: the scores are right, and the run trains on them."""

import pandas as pd
import pytest

from reward_ablation.rewards.components.keyword_steps import keyword_steps
from reward_ablation.rewards.components.soft_overlong import soft_overlong
from reward_ablation.rewards.components.think_answer_tags import think_answer_tags

OVERLONG = {"max_completion_len": 16, "soft_punish_cache": 12}


def component(function, **parameters):
    return {"function": function, "parameters": parameters}


def test_shaping_components_train_a_run(train):
    weights = {"overlong": 1, "repetition": 0.5, "steps": 0.5, "tags": 0.2, "cosine": 0.1}
    run = train(
        "run",
        components={
            "overlong": component("soft_overlong", **OVERLONG),
            "repetition": component("repetition_penalty", ngram_size=1),
            "steps": component("keyword_steps"),
            "tags": component("think_answer_tags"),
            "cosine": component("cosine_length", max_len=16, answer_format="hash"),
        },
        weights={"correctness": 0, "format": 0, "length": 0, **weights},
    )
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    texts = rollouts.completion.tolist()
    ids = [[0] * tokens for tokens in rollouts.tokens]
    assert rollouts.score_overlong.tolist() == pytest.approx(soft_overlong(texts, ids, **OVERLONG))
    assert rollouts.score_steps.tolist() == pytest.approx(keyword_steps(texts))
    assert rollouts.score_tags.tolist() == pytest.approx(think_answer_tags(texts))
    assert rollouts.score_repetition.between(-1, 0).all()
    assert rollouts.score_repetition.nunique() > 1
    assert (rollouts.score_cosine.abs() >= 0.5).all()
    total = sum(weight * rollouts[f"score_{name}"] for name, weight in weights.items())
    assert total.to_numpy() == pytest.approx(rollouts.total.to_numpy(), abs=1e-5)
    gradients = pd.read_parquet(run / "gradients.parquet")
    own = gradients[(gradients.component_a == gradients.component_b) & (gradients.layer == "all")]
    assert (own.groupby("component_a")["dot"].max()[["cosine", "overlong", "repetition"]] > 0).all()
