"""A study that keeps models: each is evaluated, and evaluated again if the settings of evaluation change."""

import json

import pandas as pd
import pytest

from .conftest import TINY, Study, with_inputs_of
from .forks import BLANK

pytestmark = pytest.mark.slow

#: What kept models are evaluated for.
FIGURE = "results/tiny/figures/learning_curves.pdf"


@pytest.fixture(scope="module")
def keeping(finished, tmp_path_factory):
    """A run of the tiny study, as far as the figure of kept models: three steps, of which two leave a model."""
    arms = {"design": "list", "arms": {"mixed": TINY["arms"]["arms"]["mixed"]}}
    config = {**TINY, "seeds": [0], "arms": arms, "keep_models": 1}
    study = with_inputs_of(finished, Study(tmp_path_factory.mktemp("keeping"), config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BLANK, "yes")
        result = study.snakemake("--", FIGURE)
    assert result.returncode == 0, result.stdout + result.stderr
    return study


def test_each_kept_model_is_evaluated(keeping):
    [run] = keeping.results.glob("runs/*/seed0")
    assert sorted(path.name for path in run.glob("model*")) == ["model", "model-step1", "model-step2"]
    [answers] = keeping.results.glob("evaluation/*/*/seed0/test-*.steps.parquet")
    assert pd.read_parquet(answers).groupby("step").size().to_dict() == {1: 12 * 3, 2: 12 * 3}
    curves = pd.read_parquet(keeping.results / "tables" / "learning_curves.parquet")
    assert sorted(curves["step"].unique()) == [0, 1, 2, 3]
    assert len(pd.read_parquet(keeping.results / "tables" / "examples.parquet"))
    for file in ("figures/learning_curves.txt", "tables/examples.html"):
        assert (keeping.results / file).stat().st_size > 100


def test_answers_without_a_record_are_evaluated_again_as_nothing_says_which_training_gave_them(keeping):
    records = sorted(keeping.results.glob("evaluation/*/**/test-*.json"))
    assert len(records) == 3  # base, the run's final model and the kept ones
    assert sorted(len(json.loads(path.read_text())["models"]) for path in records) == [1, 1, 2]
    before = {path: path.read_bytes() for path in records}
    for path in records:
        path.unlink()
    planned = keeping.planned(FIGURE)
    assert planned["evaluate"] == 1
    assert not {"evaluate_base", "train"} & set(planned)  # a base model is not trained again
    for path, content in before.items():
        path.write_bytes(content)
    assert keeping.planned(FIGURE) == {}


def test_other_settings_evaluate_all_models_again_and_train_none(keeping):
    other = Study(keeping.folder, keeping.config)
    other.config["evaluation"] = {**other.config["evaluation"], "max_new_tokens": 12}
    planned = other.planned()
    assert (planned["evaluate_base"], planned["evaluate"]) == (1, 1)
    assert not {"train", "fetch", "prepare_train"} & set(planned)


def test_a_study_that_keeps_none_has_runs_of_its_own(keeping):
    """The runs' key says what they leave behind; the base model's answers serve both."""
    other = Study(keeping.folder, keeping.config)
    other.config["keep_models"] = 0
    planned = other.planned()
    assert (planned["train"], planned["evaluate"]) == (1, 1)
    assert "evaluate_base" not in planned
