"""A study that keeps models: each is evaluated, and evaluated again if the settings of evaluation change."""

import json

import pandas as pd
import pytest

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

#: What kept models are evaluated for.
FIGURE = "results/tiny/figures/learning_curves.pdf"


@pytest.mark.usefixtures("_blank_figures")
def test_each_kept_model_is_evaluated(finished, tmp_path):
    """Three steps, of which two leave a model."""
    arms = {"design": "list", "arms": {"mixed": TINY["arms"]["arms"]["mixed"]}}
    config = {**TINY, "seeds": [0], "arms": arms, "keep_models": 1}
    study = with_inputs_of(finished, Study(tmp_path, config))
    study.make(FIGURE)
    [run] = study.results.glob("runs/*/seed0")
    assert sorted(path.name for path in run.glob("model*")) == ["model", "model-step1", "model-step2"]
    [answers] = study.results.glob("evaluation/*/*/seed0/test-*.steps.parquet")
    assert pd.read_parquet(answers).groupby("step").size().to_dict() == {1: 12 * 3, 2: 12 * 3}
    curves = pd.read_parquet(study.results / "tables" / "learning_curves.parquet")
    assert sorted(curves["step"].unique()) == [0, 1, 2, 3]
    for file in ("figures/learning_curves.txt", "tables/examples.html"):
        assert (study.results / file).stat().st_size > 100

    # Answers without a record are made again, as nothing says which training gave them. A base model is not trained.
    before = {path: path.read_bytes() for path in study.results.glob("evaluation/*/**/test-*.json")}
    assert sorted(len(json.loads(content)["models"]) for content in before.values()) == [1, 1, 2]
    for path in before:
        path.unlink()
    planned = study.planned(FIGURE)
    assert planned["evaluate"] == 1
    assert not {"evaluate_base", "train"} & set(planned)
    for path, content in before.items():
        path.write_bytes(content)
    assert study.planned(FIGURE) == {}

    study.config["evaluation"] = {**config["evaluation"], "max_new_tokens": 12}
    planned = study.planned()
    assert (planned["evaluate_base"], planned["evaluate"]) == (1, 1)
    assert not {"train", "fetch", "prepare_train"} & set(planned)

    # The runs' key says what they leave behind; the base model's answers serve both.
    study.config |= {"evaluation": config["evaluation"], "keep_models": 0}
    planned = study.planned()
    assert (planned["train"], planned["evaluate"]) == (1, 1)
    assert "evaluate_base" not in planned
