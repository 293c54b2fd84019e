"""A study with tables of numbers that all differ."""

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation.metrics import NAMES as METRICS
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.report.cost.columns import JUDGE, METRIC

ESTIMATE = {"seeds": 2, "questions": 40}
PLACE = {"dataset": "gsm8k_test"}


@pytest.fixture(scope="session")
def study():
    return StudyFile.model_validate(MadeUpStudy(seeds=(0, 1), steps=1, rollouts=4).plan())


@pytest.fixture
def tables(study):
    """Tables of numbers that all differ."""
    rng = np.random.default_rng(1)

    def numbers() -> dict[str, float]:
        low, estimate, high = np.sort(rng.uniform(-1, 1, 3))
        p, holm, equivalent = rng.uniform(0, 0.2, 3)
        return {"estimate": estimate, "low": low, "high": high, "p": p, "p_holm": holm, "p_equivalent": equivalent}

    def rows(**labels: list[str]) -> pd.DataFrame:
        places = pd.MultiIndex.from_product(labels.values(), names=labels.keys()).to_frame(index=False)
        return places.join(pd.DataFrame([numbers() for _ in range(len(places))])).assign(**PLACE, **ESTIMATE)

    modes, metrics = ["greedy", "sampled"], [*METRICS, "truncated"]
    baseline, *others = study.arm_names
    hacking = {"arm": ["format_only"] * 2, "component": "format", "measure": "accuracy", "sign": [False, True]}
    provenance = {"quantity": "code", "value": "c0de", "mixed": False, "runs": 8, "split_runs": 0, "arms": "all arms"}
    return {
        "evaluation_by_arm": rows(arm=["base", *study.arm_names], mode=modes, metric=metrics),
        "evaluation_by_run": rows(arm=study.arm_names, seed=study.seeds, mode=modes, metric=metrics).assign(
            value=lambda table: rng.uniform(0, 1, len(table)), unscored=0
        ),
        "paired_differences": rows(arm=others, mode=modes, metric=metrics).assign(
            baseline=baseline, provenance="same", family="exploratory", pooled_low=np.nan, pooled_high=np.nan
        ),
        "component_effects": rows(
            mode=modes, metric=metrics, method=["leave_one_out"], component=study.components
        ).assign(note=None),
        "reward_hacking": pd.DataFrame(hacking).assign(sentence=["no sign", "format rose .45 -> .97 <b>"]),
        "provenance": pd.DataFrame([provenance]),
    }


@pytest.fixture
def cost() -> pd.DataFrame:
    hours = {"gpu_hours": 0.0, "gpu_hours_of_jobs": np.nan, "gpu_hours_accounted": np.nan}
    hours |= {"cpu_hours": 1.5, "cpu_hours_of_jobs": np.nan, "cpu_hours_accounted": np.nan}
    counts = {"runs": 8, "steps_lost": 0, **dict.fromkeys([*JUDGE, *METRIC], 0)}
    return pd.DataFrame([{"arm": "all arms", "wall_hours": 1.25, **counts, **hours}])
