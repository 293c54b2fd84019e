"""From a config to runs: keys that follow content, and one-line errors for all that cannot be run."""

import json
from pathlib import Path

import pytest

from configs import REMOVE, changed
from reward_ablation.config.checks import second_pass
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
        ("results", "/scratch/me", "results: '/scratch/me' is not allowed; allowed: a folder below this one, such as"),
        ("results", "results/../..", "results: 'results/../..' is not allowed; allowed: a folder below this one"),
        ("results", ".", "results: '.' is not allowed; allowed: a folder below this one, such as results/mine: of"),
        ("results", "results/mine/", "results: 'results/mine/' is not allowed; allowed: a folder below this one"),
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
            "training.chat_template_kwargs: write it as a mapping",
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
            "training (arm b): gradient_checkpointing_kwargs: use_reentrant: true allows one backward pass, and beta",
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
            "training (arm b): scale_rewards: batch scales rewards, and with num_generations: 1 they are the adv",
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
        return study.answers_folder, study.datasets, study.model_file, study.problems_file, study.evaluation_spec(None)

    before = evaluation(resolve(config, "study.yaml", Path()))
    assert evaluation(resolve(changed(config, "components/format/placement", "last_token"), "s", Path())) == before


def keys_of(config):
    return resolve(config, "study.yaml", Path()).keys


@pytest.mark.parametrize(
    ("path", "value", "arms_with_new_keys"),
    [
        ("arms/arms/a/weights/correctness", 1.0, set()),  # 1 is 1.0
        ("seeds", [0, 1, 2], set()),  # a seed is a run, not another arm
        ("evaluation/max_new_tokens", 7, set()),
        ("bootstrap", 10, set()),
        ("name", "other", set()),
        ("data/evaluation/more", {"source": "word_problems", "count": 5, "split": "test"}, set()),
        ("arms/arms/b/weights/format", 0.6, {"b"}),
        ("arms/arms/b/weights", {"correctness": 0.5, "format": 1}, {"b"}),  # swapped
        ("arms/arms/a/training", {"max_steps": 11}, {"a"}),
        ("training/max_steps", 11, {"a", "b"}),
        ("components/format/parameters/format", "boxed", {"a", "b"}),  # all components are scored in all arms
        ("components/format/placement", "last_token", {"a", "b"}),
        ("components/format/placement", "all_tokens", set()),
        ("data/train/count", 11, {"a", "b"}),
        ("data/overlap", "drop", {"a", "b"}),
        ("model/steps", 601, {"a", "b"}),
        ("gradients", {"every": 2}, {"a", "b"}),
        ("lora", {"r": 8}, {"a", "b"}),
    ],
)
def test_keys_follow_what_decides_a_run(config, path, value, arms_with_new_keys):
    before = keys_of(config)
    after = keys_of(changed(config, path, value))
    assert {arm for arm in before if before[arm] != after[arm]} == arms_with_new_keys


@pytest.mark.parametrize(
    ("path", "value", "arms_with_new_keys"),
    [
        ("launch/nodes", 2, set()),
        ("launch/threads", 2, set()),
        ("launch/resources", {"mem_mb": 9000}, set()),
        ("arms/arms/b/launch", {"nodes": 4}, set()),
        ("arms/arms/b/launch", {"processes": 4}, set()),  # as the study's
        ("arms/arms/b/resources", {"runtime": "2d"}, set()),
        ("arms/arms/b/launch", {"processes": 2}, {"b"}),
        ("launch/processes", 2, {"a", "b"}),
        ("launch", {"gpus": 4}, {"a", "b"}),
    ],
)
def test_the_number_of_processes_decides_a_run_their_nodes_do_not(config, path, value, arms_with_new_keys):
    config["launch"] = {"gpus": 0, "processes": 4}
    before = keys_of(config)
    after = keys_of(changed(config, path, value))
    assert {arm for arm in before if before[arm] != after[arm]} == arms_with_new_keys


def test_one_process_needs_no_word(config):
    keys = []
    for launch in ({"gpus": 0}, {"gpus": 0, "processes": 1}):
        config["launch"] = launch
        study = resolve(config, "study.yaml", Path())
        assert "processes" not in json.loads(next(iter(study.runs.values())).spec)
        keys.append(study.keys)
    assert keys[0] == keys[1]


def test_arms_of_one_spec_are_launched_as_the_first_of_them(config):
    config["arms"]["arms"]["again"] = {**config["arms"]["arms"]["a"], "resources": {"mem_mb": 9000}}
    study = resolve(config, "study.yaml", Path())
    assert len(study.runs) == 4
    assert all(run.launch.resources == {} for run in study.runs.values())


def test_dropping_overlap_makes_the_evaluation_sets_part_of_the_key(config):
    changed(config, "data/overlap", "drop")
    before = keys_of(config)
    changed(config, "data/evaluation/more", {"source": "word_problems", "count": 5, "split": "test"})
    assert keys_of(config) != before


def test_the_order_of_keys_does_not_count(config):
    backwards = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value
        for key, value in reversed(config.items())
    }
    assert keys_of(backwards) == keys_of(config)


def test_rows_of_a_local_file_count(config, tmp_path):
    file = tmp_path / "problems.jsonl"
    changed(config, "data/train", {"source": "file", "path": str(file)})
    keys = []
    for number, text in enumerate(["one", "two", "one"]):
        copy = tmp_path / f"{number}"
        copy.mkdir()
        (copy / "problems.jsonl").write_text(text)
        config["data"]["train"]["path"] = "problems.jsonl"
        keys.append(resolve(config, "study.yaml", copy).keys["a"])
    assert keys[0] == keys[2] != keys[1]


def test_code_of_a_users_component_counts_its_comments_do_not(config, tmp_path):
    keys = []
    for number, body in enumerate(["return [1.0]", "return [1.0]  # one", "return [2.0]"]):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "mine.py").write_text(f"def f(completions, **columns):\n    {body}\n")
        changed(config, "components/format", {"function": "mine.py:f"})
        keys.append(resolve(config, "study.yaml", folder).keys["a"])
    assert keys[0] == keys[1] != keys[2]


def test_runs_are_arms_times_seeds(config):
    study = resolve(config, "study.yaml", Path())
    assert [run.name for run in study.runs.values()] == [
        f"{arm}-{study.keys[arm]}/seed{seed}" for arm in ("a", "b") for seed in (0, 1)
    ]
    assert len({run.spec for run in study.runs.values()}) == 4
    assert study.config.root == "results/study"


def test_arms_with_one_spec_share_their_runs_and_a_warning_says_so(config, tmp_path):
    config["arms"]["arms"]["again"] = config["arms"]["arms"]["a"]
    study = resolve(config, "study.yaml", Path())
    assert len(study.runs) == 4
    assert study.warnings == ["arms a and again have the same spec: they are one run per seed"]
    study.describe(tmp_path / "study.json", tmp_path / "log")
    described = json.loads((tmp_path / "study.json").read_text())
    entries = [entry["folder"] for entry in described["runs"] if entry["arm"] == "again"]
    assert entries == [f"runs/a-{study.keys['a']}/seed0", f"runs/a-{study.keys['a']}/seed1"]


@pytest.mark.parametrize(
    ("scaling", "warned"), [({}, True), ({"scale_rewards": "none"}, False), ({"num_generations": 1}, False)]
)
def test_arms_equal_up_to_scale_are_warned_of_where_scaling_takes_it_out(config, scaling, warned):
    config["training"] |= scaling
    config["arms"]["arms"]["double"] = {"weights": {"correctness": 2, "format": 1}}
    study = resolve(config, "study.yaml", Path())
    assert len(study.runs) == 6
    assert any("differ only in the scale" in warning for warning in study.warnings) == warned


def test_the_folder_of_another_study_is_not_written_to(config, tmp_path):
    config["results"] = "results"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "study.json").write_text('{"name": "another"}')
    with pytest.raises(StudyError, match="results: results holds the study another; give study a folder of its own"):
        resolve(config, "study.yaml", tmp_path)
    (tmp_path / "results" / "study.json").write_text('{"name": "study"}')
    resolve(config, "study.yaml", tmp_path)


def test_files_are_keyed_by_what_decides_their_content(config):
    """So that losing Snakemake's records mixes up no model, data or answers of two configs."""

    def files(config):
        study = resolve(config, "study.yaml", Path())
        return study.model_file, study.problems_file, next(iter(study.datasets)), study.answers_folder

    before = files(config)
    for number, (path, value) in enumerate(
        [
            ("model", {"source": "demo", "seed": 7}),
            ("data/train/count", 11),
            ("data/evaluation/test/count", 11),
            ("evaluation/max_new_tokens", 11),
        ]
    ):
        after = files(changed(config, path, value))
        assert [index for index in range(4) if before[index] != after[index]] == [number]
        before = after


def test_trls_backward_pass_makes_other_runs_and_the_default_leaves_keys_alone(config):
    """A key without the setting is the key from before there was the setting."""
    sections = ({}, {"backward": "by_completion"}, {"every": "off"}, {"backward": "trl"})
    studies = [resolve(changed(config, "gradients", section), "study.yaml", Path()) for section in sections]
    assert studies[0].keys == studies[1].keys
    assert len({tuple(study.keys.values()) for study in studies}) == 3
    specs = [json.loads(next(iter(study.runs.values())).spec)["gradients"] for study in studies]
    assert specs[0] == {"every": 1, "whole": []}
    assert specs[3] == {"backward": "trl", "every": 0, "whole": []}


@pytest.mark.parametrize("off", [0, False, "off"])
def test_gradients_are_switched_off_in_any_spelling(config, off):
    study = resolve(changed(config, "gradients", {"every": off}), "study.yaml", Path())
    assert study.config.gradients.every == 0


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({}, None),
        ({"gradient_accumulation_steps": 4, "steps_per_generation": 4}, None),
        ({"steps_per_generation": 2}, "steps_per_generation"),
        ({"num_iterations": 2}, "num_iterations"),
        ({"entropy_coef": 0.01}, "entropy_coef"),
    ],
)
def test_what_takes_a_second_backward_pass(training, reason):
    assert second_pass(training, {"all_tokens"}) == reason
    assert second_pass(training, {"all_tokens", "last_token"}) == "a placement other than all_tokens"


def test_models_that_are_kept_are_part_of_the_spec_only_where_there_are_some(config):
    plain = resolve(config, "s", Path())
    off = resolve(changed(config, "keep_models", 0), "s", Path())
    assert off.keys == plain.keys
    # A key more, and every run of every study that there is would be trained again.
    of_all = {"model", "data", "prompt", "components", "training", "lora", "gradients", "weights", "gpus", "seed"}
    assert {name for run in plain.runs.values() for name in json.loads(run.spec)} == of_all
    assert plain.keeping_runs == []
    keeping = resolve(changed(config, "keep_models", 5), "s", Path())
    assert not set(keeping.keys.values()) & set(plain.keys.values())
    assert keeping.answers_folder == plain.answers_folder
    assert keeping.keeping_runs == list(keeping.runs)


def test_the_chat_template_s_kwargs_decide_answers_and_runs(config):
    config["prompt"] = {"chat": True}
    plain = resolve(config, "s", Path())
    assert set(json.loads(plain.evaluation_spec(None))) == {"evaluation", "prompt", "device"}
    for arm in (None, {"enable_thinking": False}):  # an arm may say what the study says
        config["training"] = {"max_steps": 10, "chat_template_kwargs": {"enable_thinking": False}}
        config["arms"]["arms"]["b"]["training"] = {} if arm is None else {"chat_template_kwargs": arm}
        study = resolve(config, "s", Path())
        assert json.loads(study.evaluation_spec(None))["chat_template_kwargs"] == {"enable_thinking": False}
        assert study.answers_folder != plain.answers_folder
        assert not set(study.keys.values()) & set(plain.keys.values())


def test_kwargs_without_a_template_are_refused(config):
    config["prompt"] = {"chat": False}
    config["training"]["chat_template_kwargs"] = {"enable_thinking": False}
    with pytest.raises(StudyError, match=r"training\.chat_template_kwargs: prompt\.chat is false"):
        resolve(config, "s", Path())


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ({"source": "math500", "split": "test"}, "math500 is a public benchmark; numbers on it say nothing"),
        ({"source": "gsm8k", "split": "test"}, "source: gsm8k, split: train has problems to train on"),
        ({"source": "math", "split": "test"}, "numbers on it, and on the 500 of MATH-500, which are among MATH's test"),
        ({"source": "math", "split": "train"}, None),
        ({"source": "gsm8k", "split": "train"}, None),
        ({"source": "word_problems", "count": 9, "split": "test"}, None),
    ],
)
def test_training_on_a_benchmark_is_warned_of(config, train, words):
    config["data"]["train"] = train
    warnings = resolve(config, "study.yaml", Path()).warnings
    assert [words in warning for warning in warnings] == ([True] if words else [])


def test_exports_are_files_of_each_run_and_no_part_of_its_key(config):
    plain = resolve(config, "s", Path.cwd())
    config["exports"] = ["simple_grpo"]
    study = resolve(config, "s", Path.cwd())
    assert plain.exports == []
    assert study.runs == plain.runs
    assert study.digest == plain.digest
    run = next(iter(study.runs))
    files = ["rollouts.jsonl", "eval_before_test.jsonl", "eval_after_test.jsonl", "evaluation.json"]
    assert study.exports[:4] == [f"exports/simple_grpo/{run}/{file}" for file in files]
    assert len(study.exports) == 4 * len(study.runs)


def test_simple_grpo_without_greedy_answers_is_refused(config):
    config["exports"] = ["simple_grpo"]
    config["evaluation"] |= {"greedy": False, "samples": 1}
    with pytest.raises(StudyError, match="s: exports: simple_grpo has greedy answers, and"):
        resolve(config, "s", Path.cwd())
