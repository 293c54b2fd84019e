"""Stored answers to a small evaluation set, and the command that scores them."""

import json
import shutil

import pandas as pd
import pytest

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.scores.__main__ import main
from reward_ablation.study.reward_files import function_digest
from reward_ablation.study.specs_of_config import divide


class Stored:
    """Four answers to four questions, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.problems = pd.read_parquet(folder / "test.parquet")
        self.completions = [str(number) for number in range(4)]
        answers = {"problem_id": self.problems["id"], "mode": "greedy", "sample": 0, "completion": self.completions}
        pd.DataFrame(answers).assign(tokens=1, truncated=False).to_parquet(folder / "answers.parquet")

    def score(self, metrics, *options, output="scores.parquet", device="cpu", meanwhile=lambda: None):
        """Scores by metrics, which are functions with all of their parameters by name, as the rule has them scored.

        `meanwhile` is called between the start and the job.
        """
        divided = {name: divide(function, parameters, self.folder) for name, (function, parameters) in metrics.items()}
        spec = {
            name: {"function": metrics[name][0], "parameters": parts.deciding, "contents": parts.contents}
            for name, parts in divided.items()
        }
        for name, (function, _) in metrics.items():
            spec[name] |= {"code": function_digest(function, self.folder)}
        meanwhile()
        others = {name: parts.others for name, parts in divided.items()}
        arguments = ["--spec", json.dumps({"metrics": spec, "device": device}), "--parameters", json.dumps(others)]
        arguments += ["--answers", str(self.folder / "answers.parquet")]
        arguments += ["--problems", str(self.folder / "test.parquet")]
        main([*arguments, *options, "--output", str(self.folder / output)])
        return pd.read_parquet(self.folder / output)


@pytest.fixture(scope="session")
def problems(tmp_path_factory):
    path = tmp_path_factory.mktemp("problems") / "test.parquet"
    source = {"source": "word_problems", "count": 4, "split": "test"}
    prepare(PrepareSpec.model_validate({"source": source, "duplicates": "refuse"}), "test", path)
    return path


@pytest.fixture
def stored(problems, tmp_path):
    shutil.copyfile(problems, tmp_path / "test.parquet")
    return Stored(tmp_path)
