"""A reward model enters keys by its commit or content, and only the keys of runs or metrics that it scores."""

from __future__ import annotations

import copy
import shlex
from itertools import chain
from types import SimpleNamespace

import pytest

from configs import changed, refusal
from reward_ablation.start.files import needed_paths
from reward_ablation.start.reruns import Reruns
from reward_ablation.study import core_digest
from reward_ablation.study.resolve import resolve
from reward_ablation.system.digests import folder_fingerprint

COMMIT = "a" * 40
PLACE = '{"taste":{"model":"models/rm"}}'
IN_A_JOB = SimpleNamespace(is_main_process=False, dag_settings=SimpleNamespace(rerun_triggers=["params"]))


@pytest.fixture
def local(config, tmp_path):
    """A study with a local model as a component of arm b, but not of arm a."""
    (tmp_path / "models" / "rm").mkdir(parents=True)
    (tmp_path / "models" / "rm" / "config.json").write_text("{}")
    (tmp_path / "models" / "rm" / "model.safetensors").write_bytes(b"weights")
    return with_model(config, model="models/rm")


def with_model(config, **parameters):
    component = {"function": "reward_model", "parameters": parameters, "scored": "where_trained"}
    changed(config, "components/taste", component)
    return changed(config, "arms/arms/b/weights/taste", 0.5)


def resolved(config, root):
    folder_fingerprint.cache_clear()
    return resolve(config, "study.yaml", root)


def run_of(study, arm):
    return next(run for run in study.runs.values() if run.arm == arm)


def test_a_changed_byte_of_the_weights_moves_the_key_of_the_runs_that_the_model_scores(local, tmp_path):
    before = resolved(local, tmp_path)
    shared = resolved(judged_by(copy.deepcopy(local), {"component": "taste"}), tmp_path)
    assert shared.reward_models == before.reward_models  # a component and a metric share it
    assert shared.scoring.model_files == shared.fetched_reward_models
    (tmp_path / "models" / "rm" / "model.safetensors").write_bytes(b"weighty")
    after = resolved(local, tmp_path)
    assert before.keys["a"] == after.keys["a"]
    assert before.keys["b"] != after.keys["b"]
    assert before.reward_models.keys() != after.reward_models.keys()


def test_a_model_of_the_hub_counts_by_its_commit(config, tmp_path):
    one, other = (
        resolved(with_model(config, model="some/rm", revision=commit), tmp_path) for commit in (COMMIT, "b" * 40)
    )
    assert one.keys["b"] != other.keys["b"]
    assert [*one.reward_models.values()] == [f'{{"id":"some/rm","revision":"{COMMIT}","source":"hub"}}']


def test_only_runs_with_a_reward_model_wait_for_it_and_are_told_of_it(local, tmp_path):
    study = resolved(local, tmp_path)
    [file], [key] = study.fetched_reward_models, study.reward_models
    assert {f"models/reward-{key}", f"logs/fetch/reward-{key}.log"} <= needed_paths(study)
    reruns = Reruns(IN_A_JOB, study)
    for arm, has in (("a", False), ("b", True)):
        name = run_of(study, arm).name
        inputs = reruns.inputs_of_run(SimpleNamespace(run=name))
        assert (f"{study.config.root}/{file}" in chain(*inputs.values())) == has
        options = shlex.split(study.runs[name].options)
        folder = f"{study.config.root}/{file.removesuffix('/model.json')}"
        assert options == (["--parameters", PLACE, "--reward-models", f'{{"models/rm":"{folder}"}}'] if has else [])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "some/rm"}, "model: some/rm: no such folder; for a model from the hub give `revision` too"),
        ({"model": "some/rm", "revision": "main"}, "revision: 'main' is no commit; give the full hash"),
        ({"model": "empty"}, "model: empty: no config.json; give a folder with a saved transformers model"),
    ],
)
def test_mistakes_are_told_before_any_job(config, tmp_path, parameters, message):
    (tmp_path / "empty").mkdir()
    of_metric = judged_by(copy.deepcopy(config), {"function": "reward_model", "parameters": parameters})
    places = {"components": with_model(config, **parameters), "evaluation.metrics": of_metric}
    for place, written in places.items():
        told = refusal(written, tmp_path)
        assert told.startswith(f"{place}.taste: ")
        assert message in told


@pytest.mark.parametrize("modules", [core_digest.training_modules, core_digest.command_modules])
def test_the_code_that_runs_the_model_counts_where_it_scores_and_nowhere_else(modules):
    module = "reward_ablation.models.reward_model"
    assert module in modules(["reward_model"])
    assert module not in modules(["correctness"])


def judged_by(config, metric):
    config["evaluation"]["metrics"] = {"taste": metric}
    return config


@pytest.fixture
def judging(local):
    """A study in which a local model is a metric, and no component."""
    del local["components"]["taste"], local["arms"]["arms"]["b"]["weights"]["taste"]
    return judged_by(local, {"function": "reward_model", "parameters": {"model": "models/rm"}})


def test_a_model_that_is_a_metric_is_fetched_and_moves_no_run(judging, tmp_path):
    study = resolved(judging, tmp_path)
    [file] = study.fetched_reward_models
    assert study.scoring.model_files == [file]
    options = shlex.split(study.scoring.options)
    folder = f"{study.config.root}/{file.removesuffix('/model.json')}"
    assert {PLACE, f'{{"models/rm":"{folder}"}}'} <= {*options}
    del judging["evaluation"]["metrics"]
    without = resolved(judging, tmp_path)
    assert (without.keys, without.answers_folder) == (study.keys, study.answers_folder)


def test_a_changed_byte_of_a_metrics_model_scores_again_and_where_its_folder_lies_does_not(judging, tmp_path):
    before = resolved(judging, tmp_path)
    (tmp_path / "models" / "rm").rename(tmp_path / "elsewhere")
    judging["evaluation"]["metrics"]["taste"]["parameters"]["model"] = "elsewhere"
    assert resolved(judging, tmp_path).scores_folder == before.scores_folder
    (tmp_path / "elsewhere" / "model.safetensors").write_bytes(b"weighty")
    after = resolved(judging, tmp_path)
    assert after.scores_folder != before.scores_folder
    assert after.keys == before.keys


@pytest.mark.parametrize(("gpus", "asked"), [(2, 1), (0, 0)])
def test_a_job_asks_for_a_gpu_where_a_metric_is_a_model(judging, tmp_path, gpus, asked):
    judging["launch"] = {"gpus": gpus}
    assert resolved(judging, tmp_path).scoring.gpus == asked
    judged_by(judging, {"function": "constant"})
    assert resolved(judging, tmp_path).scoring.gpus == 0
