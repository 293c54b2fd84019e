import json
from datetime import datetime, timedelta

import pytest


@pytest.fixture
def clock(monkeypatch):
    """A clock that is an hour later at each look: the first declaration is of 01:00 on 31 January 2026."""

    class Clock:
        hour = 0

        @classmethod
        def now(cls, zone):
            cls.hour += 1
            return datetime(2026, 1, 31, tzinfo=zone) + timedelta(hours=cls.hour)

    monkeypatch.setattr("reward_ablation.study.primary.datetime", Clock)


@pytest.fixture
def finish(tmp_path):
    """`finish(n)`: puts records of n runs into the folder of the study, with these declarations or none."""

    def finish(runs, **declared):
        for number in range(runs):
            folder = tmp_path / "results" / "study" / "runs" / "a-00000000" / f"seed{number}"
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(
                json.dumps({"attempts": [{"from_step": 0, "declarations": declared}]} if declared else {})
            )

    return finish
