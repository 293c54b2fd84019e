"""A short form of the soak: a real study, interrupted at random, ends in the files of an undisturbed one."""

import importlib.util

import pytest

from .conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_an_interrupted_study_ends_as_a_quiet_one(tmp_path):
    found = importlib.util.spec_from_file_location("soak", ROOT / "benchmarks" / "soak.py")
    soak = importlib.util.module_from_spec(found)
    found.loader.exec_module(soak)
    run = soak.Soak(tmp_path, seed=0, targets=("results/tiny/figures/rewards.pdf", "results/tiny/tables/summary.md"))
    run.go(6)
    report = run.report()
    assert report["interruptions"] == 6
    assert report["studies"] >= 1
    assert report["files"] > 60
