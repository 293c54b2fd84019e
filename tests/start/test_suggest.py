"""`snakemake suggest`: its output for tables of known surfaces."""

import numpy as np
import pytest
import yaml

from design.surfaces import FIFTEEN, hill
from design.test_surface_tables import by_run, study_of
from reward_ablation.design.surface.tables import surface_tables
from reward_ablation.start.suggest import suggestion, suggestion_text
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError


def text_of(means: np.ndarray, **changes) -> str:
    study = study_of(FIFTEEN, **changes)
    return suggestion_text(study, *surface_tables(study, by_run(study, means)).values())


@pytest.mark.parametrize(("design", "key"), [("simplex", "extra"), ("list", "arms")])
def test_a_hill_gets_two_arms_to_paste(design, key):
    text = text_of(hill(FIFTEEN), design=design)
    assert "The surface is clearly better than the simple rules." in text
    first, second = text.split("\n\n")[1:]
    assert first.startswith("Next arm by expected improvement (")
    arm = yaml.safe_load("\n".join(first.splitlines()[2:]))["arms"][key]["suggested_1"]
    # The study's weights have the sum 2.
    assert sum(arm["weights"].values()) == pytest.approx(2, abs=1e-3)
    assert arm["weights"]["correctness"] == pytest.approx(1.1, abs=0.2)
    assert second.startswith("Next arm to learn most")


def test_noise_gets_no_arm():
    text = text_of(0.5 + 0.02 * np.random.default_rng(3).normal(size=15))
    assert text.endswith("no arm is suggested.")
    assert "weights:" not in text
    assert "the mean of the other arms any arm (0.0" in text


def test_arms_without_fixed_weights_are_named():
    text = text_of(hill(FIFTEEN), methods={"w4": {"method": "upgrad"}})
    assert "Left out, because they differ in more than fixed weights: w4." in text


def test_a_study_with_few_arms_or_without_tables_is_refused_in_one_line(config, tmp_path):
    with pytest.raises(StudyError, match=r"^suggest: a surface over the weights needs .* 8 for three"):
        suggestion(resolve(config, "study.yaml", tmp_path))
    config["arms"] = {"design": "simplex", "steps": 4, "components": list(config["components"])[:3]}
    config.pop("baseline", None)
    config["seeds"] = [0, 1]
    with pytest.raises(StudyError, match=r"^suggest: .*tables has no surface yet"):
        suggestion(resolve(config, "study.yaml", tmp_path))
