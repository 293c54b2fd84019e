"""Values that only the config's limits refuse, and config files that cannot be read: one line that names the place.

`tests/start/test_newcomers.py` has the usual mistakes.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from configs import CONFIG, changed
from reward_ablation.start.config_files import check_config_files
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

SFT_DATA = {"source": "word_problems", "count": 10, "split": "train"}
#: What was written where, and the line without the config's name.
VALUES = [
    ("results", "results/$(id)", "results: "),
    ("model", {"source": "hub", "id": "Qwen2.5 0.5B", "revision": "0" * 40}, "model.id: 'Qwen2.5 0.5B' "),
    ("arms/arms/b/weights", {"format": float("nan")}, "arms.arms.b.weights.format: nan is not allowed"),
    ("arms", {"design": "leave_one_out", "weights": {"correctness": 1}}, "arms.weights: "),
    ("training/num_generations", 0, "training: num_generations: completions of one prompt, at least 1"),
    ("training/num_generations", None, "training: num_generations: completions of one prompt, at least 1"),
    ("training/num_iterations", 0, "training: num_iterations: 0 is not allowed; allowed: integer, at least 1"),
    ("training/steps_per_generation", 0, "training: steps_per_generation: 0 is not allowed; allowed: integer or null"),
    ("training/max_completion_length", 0, "training: max_completion_length: 0 is not allowed; allowed: integer or nul"),
    ("training/max_steps", -5, "training: max_steps: a run takes at least 1 step; "),
    ("training/num_train_epochs", 0, "training: num_train_epochs: 0 is not allowed; allowed: number, above 0"),
    ("training/temperature", 0.0, "training: temperature: 0.0 is not allowed; allowed: number, above 0"),
    ("training/top_p", 95, "training: top_p: 95 is not allowed; allowed: number, above 0, at most 1"),
    ("training/beta", -0.04, "training: beta: -0.04 is not allowed; allowed: number, at least 0"),
    ("arms/arms/b/training", {"learning_rate": -1e-6}, "arms.arms.b.training: learning_rate: -1e-06 is not allowed; "),
    ("training/save_strategy", "best", "training: save_strategy: 'best' is not allowed; allowed: no, steps, epoch"),
    ("sft", {"data": SFT_DATA, "training": {"max_length": 0}}, "sft.training: max_length: 0 is not allowed; allowed: "),
    ("training/num_generations_eval", 4, "training: num_generations_eval: not to be set here; "),
    ("training/trust_remote_code", True, "training: trust_remote_code: not to be set here; "),
    ("training/seed", 1, "training: seed: not to be set here; write it under seeds"),
    ("launch", {"gpus": 3, "nodes": 2}, "launch: nodes: 2 does not divide gpus: 3"),
    ("seeds", [2**32], "seeds.0: 4294967296 is not allowed; input should be less than or equal to 4294901760"),
    ("seeds", [10**39], "seeds.0: a whole number beyond 9223372036854775807 is not allowed"),
    ("seeds", {"looks": [2, 10**9]}, "seeds.looks.1: 1000000000 is not allowed; "),
    ("arms/seeds", {"a": [2**32]}, "arms.seeds.a.0: 4294967296 is not allowed; "),
    ("model/seed", 2**32, "model.seed: 4294967296 is not allowed; "),
    ("bootstrap", 1, "bootstrap: 1 is not allowed; input should be greater than or equal to 100"),
    ("bootstrap", 10**12, "bootstrap: 1000000000000 is not allowed; input should be less than or equal to 1000000"),
    ("keep_models", 2**31, "keep_models: 2147483648 is not allowed; "),
    ("data/train/count", 8041, "data.train: count: the train split has 8040 problems, not 8041; ask for fewer"),
    ("data/train/limit", 2**31, "data.train.limit: 2147483648 is not allowed; "),
    ("evaluation/samples", 10**9, "evaluation.samples: 1000000000 is not allowed; "),
    ("evaluation/batch_size", 2**31, "evaluation.batch_size: 2147483648 is not allowed; "),
    ("training/max_steps", 2**31, "training: max_steps: 2147483648 is not allowed; at most 2147483647"),
    ("launch", {"gpus": 10**9}, "launch.gpus: 1000000000 is not allowed; "),
    ("launch", {"gpus": 0, "processes": 10**6}, "launch.processes: 1000000 is not allowed; "),
    ("arms", {"design": "simplex", "steps": 10**6}, "arms.steps: 1000000 steps with 2 components give 1000001 arms; "),
    ("components/format/parameters", {"format": 10**20}, "components.format.parameters.format: a whole number beyond "),
]


@pytest.mark.parametrize(("path", "value", "line"), VALUES)
def test_in_the_config(path, value, line):
    with pytest.raises(StudyError) as error:
        resolve(changed(copy.deepcopy(CONFIG), path, value), "my_study.yaml", Path())
    assert str(error.value).startswith(f"my_study.yaml: {line}")
    assert "\n" not in str(error.value)


#: A config file, and the line without the file's name, before Snakemake reads the file.
FILES = [
    ("seeds: [0]\nname: a\nseeds: [1]\n", "line 3: key 'seeds' occurs twice, first in line 1; rename one of the two, "),
    ("name: a\n\tseeds: [1]\n", "line 2, column 1: not YAML: found a tab character that violates indentation; indent "),
    ("name: !foo a\n", "line 1, column 7: not YAML: could not determine a constructor for the tag '!foo'"),
    ("name: 2026-13-45\n", "line 1, column 7: month must be in 1..12; put it in quotes to have text"),
    (b"name: \xff\n", "not UTF-8 text (byte 6); save it as UTF-8"),
    ("__use_yte__: true\nname: ?__import__('os').getpid()\n", "__use_yte__: would run Python from the config; "),
]


@pytest.mark.parametrize(("text", "line"), FILES)
def test_in_the_text_of_a_config(tmp_path, text, line):
    path = tmp_path / "study.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StudyError) as error:
        check_config_files(["snakemake", "--configfile", str(path)])
    assert str(error.value).startswith(f"{path}: {line}")
