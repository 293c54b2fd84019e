"""A judge as a metric: stored answers are judged, and no answer twice."""

import json

import pandas as pd

from endpoint import endpoint, says
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.scores.__main__ import main
from reward_ablation.study.component_spec import divide


def test_a_judge_scores_stored_answers_and_keeps_what_it_said(tmp_path):
    (tmp_path / "judge.txt").write_text("{question} {completion}")
    source = {"source": "word_problems", "count": 4, "split": "test"}
    prepare(PrepareSpec.model_validate({"source": source, "duplicates": "refuse"}), "test", tmp_path / "test.parquet")
    ids = pd.read_parquet(tmp_path / "test.parquet")["id"]
    answers = pd.DataFrame({"problem_id": ids, "mode": "greedy", "sample": 0, "completion": [str(n) for n in range(4)]})
    answers.assign(tokens=1, truncated=False).to_parquet(tmp_path / "answers.parquet")

    with endpoint(lambda request: says({"score": int(request.prompt[-1]) / 10})) as server:
        parameters = {"model": "m", "template": str(tmp_path / "judge.txt"), "endpoint": server.url}
        divided = divide("judge", parameters, tmp_path)
        metric = {"function": "judge", "parameters": divided.deciding, "contents": divided.contents}
        options = [
            "--spec",
            json.dumps({"metrics": {"helpful": metric}, "device": "cpu"}),
            "--judge",
            str(tmp_path / "judge"),
        ]
        options += ["--parameters", json.dumps({"helpful": divided.others})]
        options += ["--answers", str(tmp_path / "answers.parquet"), "--problems", str(tmp_path / "test.parquet")]
        for output in ("first.parquet", "again.parquet"):
            main([*options, "--output", str(tmp_path / output)])
            assert pd.read_parquet(tmp_path / output)["helpful"].tolist() == [0.0, 0.1, 0.2, 0.3]
        assert len(server.requests) == 4
