"""Made-up studies with their tables. Each study strains figures in one way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.registry import TABLES
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.figures.catalogue import FIGURES

THREE = ["correctness", "format", "length"]
MARKED = "answer_is_marked_with_the_four_hashes_that_gsm8k_uses"
SHORT = "length_of_the_whole_completion_in_tokens_near_a_target"
LONG = "with_a_name_as_long_as_names_may_be_" + "x" * 40


def weights(*numbers: float) -> dict[str, float]:
    """Weights of the three components, and of random rewards if there is a fourth number."""
    return dict(zip([*THREE, "random"], numbers, strict=False))


STUDIES = {
    "four arms": MadeUpStudy(steps=8, rollouts=8, problems=2, constant_from=6, sample_grams=True),
    "twelve arms": MadeUpStudy(
        arms={f"arm_{n}_{LONG}"[: 78 if n % 3 == 0 else 9]: weights(1, n / 12, 0) for n in range(12)},
        steps=3,
        rollouts=4,
        layers=4,
        seeds=(0,),
    ),
    "long names": MadeUpStudy(
        arms={
            "full": {"correctness": 1.0, MARKED: 0.5, SHORT: 0.25},
            "no_correctness": {"correctness": 0.0, MARKED: 0.5, SHORT: 0.25},
        },
        steps=3,
        rollouts=4,
        problems=2,
        datasets={"own_questions_in_four_languages": 24},
        sample_grams=True,
    ),
    "many steps": MadeUpStudy(arms={"one": weights(1, 0, 0)}, steps=250, rollouts=2, layers=0),
    "one of everything": MadeUpStudy(arms={"only": {"a": 1.0, "b": -2.5}}, seeds=(4,), steps=1, rollouts=2),
    "ten pairs": MadeUpStudy(
        arms={f"arm_{n}": {f"component_{k}": (n + k) / 10 for k in range(5)} for n in range(6)}, steps=3, rollouts=2
    ),
    "gradients off": MadeUpStudy(gradients_every=0, steps=2),
    "TRL's backward pass": MadeUpStudy(gradients_every=0, backward="trl", steps=2),
    "arms without gradients": MadeUpStudy(
        steps=8, problems=2, sample_grams=True, unmeasured=("correctness_only", "format_only")
    ),
    "an unscored component": MadeUpStudy(steps=3, rollouts=4, problems=2, sample_grams=True, unscored="format"),
    "a control": MadeUpStudy(
        arms={
            "full": weights(1.0, 0.5, 0.5, 0.0),
            "no_format": weights(1.0, 0.0, 0.5, 0.0),
            "random_only": weights(0.0, 0.0, 0.0, 1.0),
        },
        steps=24,
        rollouts=16,
        problems=4,
        sample_grams=True,
        keep_models=8,
        control="random_only",
        where_trained=("random",),
    ),
    "methods": MadeUpStudy(
        arms=dict.fromkeys(("static", "gradients", "covariances", "no_weights"), weights(1.0, 0.5, 0.5)),
        methods={
            "gradients": {"method": "upgrad", "gram": "previous"},
            "covariances": {"method": "saw", "bounds": {name: [0, 1] for name in THREE}},
            "no_weights": {"method": "minimum", "bounds": {name: [0, 1] for name in THREE}},
        },
        steps=12,
        rollouts=16,
        problems=4,
        sample_grams=True,
    ),
    "many arms": MadeUpStudy(
        arms={f"arm_{n:02}_{LONG}"[: 60 if n % 2 else 6]: weights(1 - n / 50, n / 50, n % 7 / 7) for n in range(38)},
        steps=6,
        rollouts=8,
        problems=2,
        layers=1,
        keep_models=3,
        gradients_every=3,
        sample_grams=True,
    ),
    "one component": MadeUpStudy(arms={"only": {"a": 1.0}}, steps=2),
}


@dataclass(frozen=True)
class WithTables:
    """A study, its tables by name and its folder; a table and its file are made when first asked for."""

    study: StudyFile
    tables: Tables
    root: Path


class Tables(dict[str, pd.DataFrame]):
    """Tables of a study by name."""

    def __init__(self, root: Path):
        super().__init__()
        self.root = root

    def __missing__(self, name: str) -> pd.DataFrame:
        self |= made_tables(self.root, TABLES[name])
        return self[name]

    def of_figure(self, figure: str) -> list[pd.DataFrame]:
        return [self[name] for name in FIGURES[figure].tables]


@pytest.fixture(scope="session")
def made_up(tmp_path_factory):
    """Give a study of STUDIES by name, made once."""

    @cache
    def make(name: str) -> WithTables:
        root = tmp_path_factory.mktemp("study")
        return WithTables(read_study(STUDIES[name].write(root)), Tables(root), root)

    return make
