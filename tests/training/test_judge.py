"""A run with a judge: requests are counted, and answers are kept for all runs of the study."""

import json
import shutil

import pandas as pd
import pytest

from endpoint import endpoint, says
from reward_ablation.study.specs_of_config import divide
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around.run import train_run

from .conftest import job_of, spec_with

STEPS, BATCH = 3, 8


@pytest.fixture
def judged(demo_model, problems, tmp_path):
    """Trains a run on a judge at a URL, in a results folder."""
    template = tmp_path / "judge.txt"
    template.write_text("{question} {completion}")

    def judged(url, arm, change=lambda: None):
        parameters = {"model": "judge-1", "template": str(template), "endpoint": url, "retries": 0}
        divided = divide("judge", parameters, tmp_path)
        component = {"function": "judge", "parameters": divided.deciding, "contents": divided.contents}
        spec = spec_with(components={"helpful": component}, weights={"helpful": 1}, training={"max_steps": STEPS})
        folder = tmp_path / "results" / "runs" / arm / "seed0"
        change()
        train_run(job_of(spec, folder, demo_model, problems, parameters={"helpful": divided.others}))
        return folder

    return judged


def by_length(request):
    return says({"score": min(1.0, len(request.prompt) / 500)})


def test_requests_are_counted_and_no_completion_is_judged_twice(judged):
    with endpoint(by_length) as server:
        first = judged(server.url, "a")
        asked = len(server.requests)
        again = judged(server.url, "b")
        assert len(server.requests) == asked
    counts = [json.loads((run / "run.json").read_text())["requests"]["judge-1"] for run in (first, again)]
    assert 0 < asked <= STEPS * BATCH
    assert (counts[0]["requests"], counts[0]["prompt_tokens"], counts[0]["unanswered"]) == (asked, 10 * asked, 0)
    assert (counts[1]["requests"], counts[1]["kept"]) == (0, counts[0]["requests"] + counts[0]["kept"])
    for file in ("rollouts.parquet", "model/model.safetensors"):
        assert sha256(first / file) == sha256(again / file)
    assert pd.read_parquet(first / "rollouts.parquet").score_helpful.nunique(dropna=False) > 1


def test_a_run_whose_endpoint_was_gone_asks_only_what_was_not_answered(judged, tmp_path):
    def fails_late(request):
        if request.number >= 2 * BATCH:
            return says("", status=503)
        return by_length(request)

    told = r"components\.helpful: endpoint: answered none"
    with endpoint(fails_late) as server, pytest.raises(StudyError, match=told):
        judged(server.url, "a")
    with endpoint(by_length) as server:
        resumed = judged(server.url, "a")
        assert len(server.requests) <= BATCH  # of the step without an answer
    shutil.rmtree(tmp_path / "results" / "judge")
    with endpoint(by_length) as server:
        whole = judged(server.url, "b")
    assert sha256(resumed / "rollouts.parquet") == sha256(whole / "rollouts.parquet")


def test_a_template_that_has_changed_is_refused(judged, tmp_path):
    with pytest.raises(StudyError, match=r"template: .*judge\.txt has changed since the workflow was started"):
        judged("http://127.0.0.1:9/v1", "a", change=lambda: (tmp_path / "judge.txt").write_text("{completion}"))
