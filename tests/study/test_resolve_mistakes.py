"""From a config to runs: a one-line error for every config that cannot be run."""

from pathlib import Path

import pytest

from configs import REMOVE, changed
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sed", 1, "unknown key 'sed'; did you mean seeds? allowed: name, results"),
        ("name", REMOVE, "name: missing; it has no default"),
        ("name", "a b", "name: 'a b' is not allowed; allowed: letters, digits and _"),
        ("name", "runs", "name: 'runs' is taken by the workflow; not allowed: benchmarks, data"),
        ("seeds", [0, 0], "seeds: a seed occurs twice; each seed is one run"),
        ("seeds", 5, "seeds: 5 is not allowed; input should be a valid list"),
        ("model", {"source": "hubb"}, "model: source 'hubb' is not allowed; allowed: hub, local, demo"),
        (
            "model",
            {"source": "hub", "id": "a/b", "revision": "main"},
            "model.revision: 'main' is not allowed; allowed: the full",
        ),
        (
            "model",
            {"source": "hub", "id": "a b", "revision": "0" * 40},
            "model.id: 'a b' is not allowed; allowed: a repos",
        ),
        ("results", "/scratch/me", "results: '/scratch/me' is not allowed; allowed: a folder below the project's"),
        ("results", "results/../..", "results: 'results/../..' is not allowed; allowed: a folder below the project's"),
        ("results", ".", "results: '.' is not allowed; allowed: a folder below the project's"),
        ("results", "results/mine/", "results: 'results/mine/' is not allowed; allowed: a folder below the project's"),
        ("seeds", [True], "seeds.0: True is not allowed; input should be a valid integer"),
        ("seeds", ["x"], "seeds.0: 'x' is not allowed; input should be a valid integer"),
        ("seeds", [], "seeds: has 0 entries; at least 1 needed"),
        (
            "arms",
            {"design": "leave_one_out", "weights": {"correctness": 1}},
            "arms.weights: has 1 entry; at least 2 needed",
        ),
        (
            "arms",
            {"design": "factorial", "weights": {f"c{number}": 1 for number in range(11)}},
            "arms.weights: has 11 entries; at most 10 allowed",
        ),
        (
            "prompt",
            {"template": "{question}" + "x" * 120_000},
            "prompt.template: the longest text, of 120010 characters,",
        ),
        (
            "launch",
            {"resources": {"shell_exec": "/tmp/x"}},
            "launch.resources: shell_exec: not to be set here; jobs run",
        ),
        ("model", {"source": "local", "path": "no/folder"}, "model.path: no/folder: no config.json"),
        ("data/train/splitt", "x", "data.train: unknown key 'splitt'; did you mean split? allowed:"),
        ("data/evaluation/test/count", 0, "data.evaluation.test.count: 0 is not allowed; input should be greater"),
        ("data/train", {"source": "file", "path": "no.jsonl"}, "data: no.jsonl: no such file"),
        ("prompt", {"template": "x"}, "prompt.template: must contain {question} exactly once"),
        ("components/format/function", "fromat", "components.format: unknown function 'fromat'; functions here:"),
        ("components/format/parameters", {"fmt": 1}, "components.format: answer_format: unknown parameter 'fmt'"),
        ("components/format/function", "no.py:f", "components.format: no.py:f: there is no file no.py"),
        (
            "components/format/placement",
            "last",
            "components.format.placement: 'last' is not allowed; input should be 'all",
        ),
        ("arms/arms/b/weights/fromat", 1, "arms.arms.b.weights: unknown component 'fromat'; components here:"),
        ("arms/arms/b/weights/format", float("nan"), "arms.arms.b.weights.format: nan is not allowed"),
        (
            "arms/arms/b-c",
            {"weights": {"format": 1}},
            "arms.arms.b-c: 'b-c' is not allowed; allowed: letters, digits and _",
        ),
        ("arms/arms/b/training", {"lr": 1}, "arms.arms.b.training: lr: no setting of TRL's GRPOConfig"),
        (
            "arms/arms/b/training",
            {"chat_template_kwargs": {"enable_thinking": False}},
            "arms.arms.b.training.chat_template_kwargs: all arms are judged on the same prompts",
        ),
        (
            "training",
            {"chat_template_kwargs": '{"enable_thinking": false}'},
            "training: chat_template_kwargs: '{",
        ),
        (
            "training",
            {"chat_template_kwargs": {"tokenize": False}},
            "training.chat_template_kwargs.tokenize: not to be set here; only variables of the chat template are",
        ),
        ("training/hub_token", "hf_x", "training.hub_token: looks like a secret in plain text"),
        ("keep_models", -1, "keep_models: -1 is not allowed"),
        ("keep_models", 10, "keep_models: 10 keeps no model of arm a, which ends at step 10, and the final model is"),
        ("exports", ["verl"], "exports.0: 'verl' is not allowed; input should be 'rldynamics' or 'simple_grpo'"),
        (
            "exports",
            ["simple_grpo", "rldynamics"],
            "exports: rldynamics has the components correctness, format and length, and this study has no length; name",
        ),
        ("arms/design", "grid", "arms: design 'grid' is not allowed; allowed: list, leave_one_out"),
        ("training/learning_rat", 1, "training: learning_rat: no setting of TRL's GRPOConfig; did you mean learning_r"),
        ("training/learning_rate", "1e-6", "training: learning_rate: '1e-6' is not allowed; allowed: number; YAML"),
        ("training/loss_type", "gspo", "training: loss_type: 'gspo' is not allowed; allowed: grpo, dapo"),
        ("training/seed", 1, "training: seed: not to be set here; write it under seeds"),
        (
            "arms/arms/b/training",
            {"gradient_checkpointing_kwargs": {"use_reentrant": True}, "beta": 0.1},
            "training (arm b): gradient_checkpointing_kwargs: use_reentrant: true allows one backward pass, and meas",
        ),
        ("training/torch_compile", True, "training (arm a): torch_compile: compiled layers cannot be watched"),
        ("training/fsdp", "full_shard", "training: fsdp: not to be set here; layers hold parts of their weights"),
        ("gradients", {"every": "often"}, "gradients.every: 'often' is not allowed"),
        (
            "gradients",
            {"backward": "torch"},
            "gradients.backward: 'torch' is not allowed; input should be 'by_completi",
        ),
        (
            "gradients",
            {"backward": "trl", "every": 5},
            "gradients: every: backward: trl measures nothing; leave every out, or backward",
        ),
        (
            "gradients",
            {"backward": "trl", "whole": [5]},
            "gradients: whole: backward: trl measures nothing; leave whole out, or backward",
        ),
        ("arms/arms/b/training", {"fp16": True}, "training (arm b): fp16: small component gradients would vanish"),
        ("training/num_generations", 0, "training: num_generations: completions of one prompt, at least 1"),
        ("training/max_steps", 0, "training: max_steps: a run takes at least 1 step; leave it out to train by num_tr"),
        (
            "arms/arms/b/training",
            {"num_generations": 1, "scale_rewards": "batch"},
            "training (arm b): scale_rewards: batch scales rewards, and with num_generations: 1 the rewards are the ad",
        ),
        ("evaluation/greedy", False, "evaluation: nothing to evaluate: set greedy: true or samples above 0"),
        ("arms/arms/base", {"weights": {"format": 1}}, "arms: 'base' is taken by the workflow"),
        ("components/total", {"function": "constant"}, "components: 'total' is taken by the workflow"),
        ("components/kl", {"function": "constant"}, "components: 'kl' is taken by the workflow"),
        ("baseline", "c", "baseline: unknown arm 'c'; arms here: a, b"),
        ("launch", {"gpus": 2, "processes": 2}, "launch: processes: with GPUs a run has one process a GPU; leave it"),
        ("launch", {"gpus": 3, "nodes": 2}, "launch: nodes: 2 does not divide gpus: 3; each node has as many of a run"),
        ("launch", {"gpus": 0, "nodes": 2}, "launch: nodes: 2 does not divide processes: 1; each node has as many of"),
        ("launch", {"resources": {"gpu": 2}}, "launch.resources: gpu: not to be set here; set launch.gpus"),
        (
            "launch",
            {"resources": {"mem mb": 2}},
            "launch.resources.mem mb: 'mem mb' is not allowed; allowed: letters, digits and _",
        ),
        ("arms/arms/b/resources", {"nodes": 2}, "arms.arms.b.resources: nodes: not to be set here; set launch.nodes"),
        ("arms/arms/b/resources", {"hours": 2}, "arms.arms.b.resources: hours: not to be set here; write runtime, in"),
        ("arms/arms/b/resources", {"mem_mb": 1.5}, "arms.arms.b.resources.mem_mb: 1.5 is not allowed; input should"),
        ("arms/arms/b/launch", {"gpus": 0}, "arms.arms.b.launch.gpus: a study trains all its arms on GPUs, or all on"),
        ("arms/arms/b/launch", {"nodes": 3}, "arms.arms.b.launch.nodes: 3 does not divide gpus: 1; each node has as"),
        (
            "arms/arms/b/launch",
            {"threads": 2},
            "arms.arms.b.launch: unknown key 'threads'; allowed: gpus, nodes, proce",
        ),
    ],
)
def test_a_bad_config_is_one_line(config, path, value, message):
    with pytest.raises(StudyError) as caught:
        resolve(changed(config, path, value), "study.yaml", Path())
    text = str(caught.value)
    assert text.startswith("study.yaml: ")
    assert message in text
    assert "\n" not in text


def test_two_reward_files_cannot_import_different_files_by_one_name(config, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("import my_own_helper\n\ndef f(completions, **columns): ...\n")
        (tmp_path / folder / "my_own_helper.py").write_text(f"name = '{folder}'\n")
        config["components"][f"of_{folder}"] = {"function": f"{folder}/mine.py:f"}
    with pytest.raises(StudyError) as caught:
        resolve(config, "study.yaml", tmp_path)
    assert "components.of_b: imports my_own_helper from " in str(caught.value)
    assert str(caught.value).endswith("my_own_helper.py; give the two files different names")


SEQUENCE = {"importance_sampling_level": "sequence"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SEQUENCE, "importance_sampling_level: sequence has one ratio a completion: a placement would change nothing"),
        ({"loss_type": "vespo"}, "loss_type: vespo weighs a completion by the sign of its one advantage"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold: keeps or drops a completion by the sign of"),
    ],
)
def test_a_placement_that_trl_cannot_have_is_one_line(config, settings, message):
    changed(config, "components/format/placement", "last_token")
    changed(config, "arms/arms/b/training", settings)
    with pytest.raises(StudyError) as caught:
        resolve(config, "study.yaml", Path())
    assert str(caught.value).startswith(f"study.yaml: training (arm b): {message}")
    assert str(caught.value).endswith("; set components.format.placement: all_tokens, or change the setting")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("components/format/placement", "all_tokens"),
        ("arms/arms/b/training", {**SEQUENCE, "loss_type": "cispo"}),  # its ratio has no gradient
        ("arms/arms/b/weights", {"correctness": 1}),  # not trained on, and (below) not measured
    ],
)
def test_the_same_settings_are_fine_where_nothing_is_placed(config, path, value):
    changed(config, "components/format/placement", "last_token")
    changed(config, "gradients", {"every": 0})
    changed(config, "arms/arms/b/training", SEQUENCE)
    resolve(changed(config, path, value), "study.yaml", Path())


def test_a_placement_leaves_evaluation_as_it_is(config):
    def evaluation(study):
        return study.answers_folder, study.datasets, study.model_file, study.problems_file, study.evaluation_spec

    before = evaluation(resolve(config, "study.yaml", Path()))
    assert evaluation(resolve(changed(config, "components/format/placement", "last_token"), "s", Path())) == before
