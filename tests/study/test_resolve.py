"""From a config to runs: keys depend on content."""

import json
import sys
from pathlib import Path

import pytest

from configs import changed, refusal
from reward_ablation.start import declarations
from reward_ablation.start.declarations import describe_study
from reward_ablation.study import code_digest
from reward_ablation.study.resolve import resolve, same_arms
from reward_ablation.study.study import described_runs


def keys_of(config):
    return resolve(config, "study.yaml", Path()).keys


@pytest.mark.parametrize(
    ("path", "value", "arms_with_new_keys"),
    [
        ("seeds", [0, 1, 2], set()),  # a seed is a run, not another arm
        ("components/format/parameters/format", "boxed", {"a", "b"}),  # all components are scored in all arms
        ("evaluation/max_new_tokens", 7, set()),
        ("arms/arms/b/weights/format", 0.6, {"b"}),
        ("arms/arms/b/weights", {"correctness": 0.5, "format": 1}, {"b"}),  # swapped
        ("arms/arms/a/training", {"max_steps": 11}, {"a"}),
        ("components/format/placement", "last_token", {"a", "b"}),
        ("data/overlap", "drop", {"a", "b"}),
        ("gradients", {"every": 2}, {"a", "b"}),
        ("prompt", {"date": "2024-07-26"}, set()),
        ("prompt", {"date": "2025-01-02"}, {"a", "b"}),
        ("data/train/too_long", "drop", {"a", "b"}),
        ("launch/resources", {"mem_mb": 9000}, set()),
        ("arms/arms/b/resources", {"runtime": "2d"}, set()),
        ("arms/arms/b/launch", {"processes": 2}, {"b"}),
        ("launch/processes", 2, {"a", "b"}),
    ],
)
def test_keys_follow_what_decides_a_run(config, path, value, arms_with_new_keys):
    config["launch"] = {"gpus": 0, "processes": 4}
    before = keys_of(config)
    after = keys_of(changed(config, path, value))
    assert {arm for arm in before if before[arm] != after[arm]} == arms_with_new_keys


def runs_of(study, arm):
    return [run.seed for run in study.runs.values() if run.key == study.keys[arm]]


def described_seeds(study, arm):
    return [run["seed"] for run in described_runs(study) if run["arm"] == arm]


def test_arms_may_have_seeds_of_their_own(config):
    before = resolve(config, "study.yaml", Path())
    config["arms"]["seeds"] = {"b": [7, 0, 1]}
    study = resolve(config, "study.yaml", Path())
    assert study.keys == before.keys
    assert runs_of(study, "a") == described_seeds(study, "a") == [0, 1]
    assert runs_of(study, "b") == [0, 1, 7]
    assert described_seeds(study, "b") == [7, 0, 1]
    assert study.summary == before.summary | {"seeds": [0, 1, 7]}
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    config["arms"]["seeds"] = {"a": []}  # an arm without seeds is no arm of the study
    study = resolve(config, "study.yaml", Path())
    assert [arm["name"] for arm in study.summary["arms"]] == list(study.keys) == ["b", "c"]
    assert (study.summary["baseline"], study.question.pairs) == ("b", {(study.keys["c"], study.keys["b"])})


CLAIM = {"says": "a is better", "metric": "accuracy_strict", "arm": "b", "against": "a", "direction": "higher"}


@pytest.mark.parametrize(
    ("seeds", "others", "words"),
    [
        ({"d": [0]}, {}, "arms.seeds.d: unknown arm; arms here: a, b, c"),
        ({"a": [0, 0]}, {}, "arm 'a' has a seed twice"),
        ({"a": [], "b": [], "c": []}, {}, "arms.seeds: leaves out all arms; give one of them seeds"),
        ({"a": []}, {"baseline": "a"}, "baseline: arm 'a' is left out of the study, as arms.seeds.a is empty"),
        ({"a": []}, {"primary": {"contrasts": [{"arm": "a"}]}}, "primary.contrasts.0.arm: arm 'a' is left out"),
        ({"a": []}, {"claims": {"first": CLAIM}}, "claims.first.against: arm 'a' is left out"),
    ],
)
def test_seeds_of_arms_that_are_refused(config, seeds, others, words):
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    config["arms"]["seeds"] = seeds
    assert words in refusal(config | others)


ASKED = {"primary": {"metric": "format", "contrasts": [{"arm": "a", "against": "b"}]}}


@pytest.mark.parametrize("asked", [ASKED, {"seeds": {"looks": [2, 3]}}, {"claims": {"c": CLAIM}}], ids=str)
def test_what_is_asked_moves_no_run_and_no_answer_but_study_json_is_written_again(config, asked):
    plain, other = (resolve(each, "s", Path()) for each in (config, config | asked))
    assert (other.runs, other.answers_folder) == (plain.runs, plain.answers_folder)
    assert other.digest != plain.digest


def test_a_warning_names_whole_gradients_that_an_arm_never_reaches(config):
    config["training"]["max_steps"] = 10.0  # the schema takes it for a whole number
    config["gradients"] = {"whole": [2, 11]}
    config["arms"]["arms"]["b"]["training"] = {"max_steps": 20}
    study = resolve(config, "study.yaml", Path())
    assert study.warnings == ["gradients.whole: arm a ends at step 10, so it has no gradients of step 11"]


NO_EFFECT = "has no effect without sync_ref_model: true"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("training/num_train_epochs", 2, "training.num_train_epochs has no effect without max_steps: -1"),
        ("arms/arms/b/training", {"ref_model_sync_steps": 64}, f"training.ref_model_sync_steps {NO_EFFECT} (arm b)"),
        ("evaluation/temperature", 0.7, "evaluation.temperature has no effect without evaluation.samples above 0"),
    ],
)
def test_a_warning_names_settings_that_do_nothing_beside_the_others(config, path, value, line):
    assert resolve(changed(config, path, value), "study.yaml", Path()).warnings == [line]


def test_a_setting_that_does_something_beside_the_others_is_not_warned_of(config):
    config["training"] = {"num_train_epochs": 2, "loss_type": "sapo", "sapo_temperature_neg": 1.1}
    config["training"] |= {"warmup_steps": 3, "lr_scheduler_type": "constant_with_warmup"}
    assert resolve(config, "study.yaml", Path()).warnings == []


def test_arms_with_one_spec_share_their_runs_and_a_warning_says_so(config, tmp_path):
    config["arms"]["arms"]["again"] = {**config["arms"]["arms"]["a"], "resources": {"mem_mb": 9000}}
    config["arms"]["seeds"] = {"a": [0, 3], "again": [1, 2]}
    study = resolve(config, "study.yaml", Path())
    assert runs_of(study, "a") == [0, 1, 2, 3]
    assert all(run.launch.resources == {} for run in study.runs.values())
    assert study.warnings == ["arms a and again have the same spec: they are one run per seed, launched as a"]
    describe_study(study, tmp_path / "study.json")
    described = json.loads((tmp_path / "study.json").read_text())
    entries = [entry["folder"] for entry in described["runs"] if entry["arm"] == "again"]
    assert entries == [f"runs/a-{study.keys['a']}/seed{seed}" for seed in (1, 2)]


def test_different_arms_of_one_key_are_refused():
    specs = {name: {"weights": {"format": weight}, "training": {}} for name, weight in (("a", 1), ("b", 2))}
    with pytest.raises(ValueError, match=r"^arms: a and b differ and have one key, 0a1b2c3d; change a weight$"):
        same_arms(specs, {"a": "0a1b2c3d", "b": "0a1b2c3d"})


def test_the_place_of_the_results_folder_is_checked(config, tmp_path):
    results = tmp_path / "results" / "study"
    results.parent.mkdir()
    results.touch()
    assert refusal(config, tmp_path) == f"results: {results} is a file; name a folder with the key results"
    results.unlink()
    results.mkdir()
    (results / "study.json").write_text('{"name": "another"}')
    told = "results: results/study holds the study another; give study a folder of its own"
    assert refusal(config, tmp_path) == told


def test_a_study_whose_files_have_changed_since_the_start_is_not_described(config, tmp_path, monkeypatch, capsys):
    """Its keys would name other runs, perhaps those of an earlier edit, and the tables would be of them."""
    monkeypatch.chdir(tmp_path)
    own = "def own(completions, **columns):\n    return [1.0 for _ in completions]\n"
    (tmp_path / "own.py").write_text(own)
    config["components"]["own"] = {"function": "own.py:own"}
    study = resolve(config, "study.yaml", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    described = ["--config", "config.json", "--planned", study.digest_of_keys, "--study", "study.json"]
    monkeypatch.setattr(sys, "argv", ["declarations", "describe", *described, "--output", "made"])
    declarations.main()
    (tmp_path / "own.py").write_text(own.replace("1.0", "2.0"))
    for cached in (code_digest.content, code_digest.source, code_digest.text_of_function):
        cached.cache_clear()  # as in another process
    with pytest.raises(SystemExit, match="1"):
        declarations.main()
    told = "error: a file of the study has changed since the workflow was started; start it again\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("scaling", "warned"),
    [
        ({}, True),
        ({"scale_rewards": "none"}, False),
        ({"scale_rewards": "none", "multi_objective_aggregation": "normalize_then_sum"}, True),
        ({"num_generations": 1}, False),
    ],
)
def test_arms_equal_up_to_scale_are_warned_of_where_scaling_takes_it_out(config, scaling, warned):
    config["training"] |= scaling
    config["arms"]["arms"]["double"] = {"weights": {"correctness": 2, "format": 1}}
    warnings = resolve(config, "study.yaml", Path()).warnings
    assert any("differ only in the scale" in warning for warning in warnings) == warned


def test_files_are_keyed_by_what_decides_their_content(config):
    """Else two configs could mix up models, data or answers after a loss of Snakemake's records."""

    def files(config):
        study = resolve(config, "study.yaml", Path())
        return study.model_file, study.problems_file, next(iter(study.datasets)), study.answers_folder

    before = files(config)
    paths = ("model/seed", "data/train/count", "data/evaluation/test/count", "evaluation/max_new_tokens")
    for number, path in enumerate(paths):
        after = files(changed(config, path, 7))
        assert [index for index in range(4) if before[index] != after[index]] == [number]
        before = after


def test_trls_backward_pass_makes_other_runs_and_the_default_leaves_keys_alone(config):
    sections = ({}, {"backward": "by_completion"}, {"every": "off"}, {"every": False}, {"backward": "trl"})
    studies = [resolve(changed(config, "gradients", section), "study.yaml", Path()) for section in sections]
    assert studies[0].keys == studies[1].keys
    assert studies[2].keys == studies[3].keys  # YAML reads `off` as false
    assert len({tuple(study.keys.values()) for study in studies}) == 3
    spec = json.loads(next(iter(studies[4].runs.values())).spec)["gradients"]
    assert spec == {"backward": "trl", "every": 0, "whole": []}


def test_models_that_are_kept_are_part_of_the_spec_only_where_there_are_some(config):
    plain = resolve(config, "s", Path())
    assert resolve(changed(config, "keep_models", 0), "s", Path()).keys == plain.keys
    assert plain.keeping_runs == []
    keeping = resolve(changed(config, "keep_models", 5), "s", Path())
    assert not set(keeping.keys.values()) & set(plain.keys.values())
    assert keeping.answers_folder == plain.answers_folder
    assert keeping.keeping_runs == list(keeping.runs)


def test_the_chat_template_s_kwargs_decide_answers_and_runs(config):
    config["prompt"] = {"chat": True}
    plain = resolve(config, "s", Path())
    kwargs = {"chat_template_kwargs": {"enable_thinking": False}}
    config["training"] |= kwargs
    config["arms"]["arms"]["b"]["training"] = kwargs  # an arm may say what the study says
    study = resolve(config, "s", Path())
    assert json.loads(study.evaluation_spec)["chat_template_kwargs"] == {"enable_thinking": False}
    assert study.answers_folder != plain.answers_folder
    assert not set(study.keys.values()) & set(plain.keys.values())
    config["prompt"] = {"chat": False}
    assert refusal(config).startswith("training.chat_template_kwargs: prompt.chat is false")


@pytest.mark.parametrize(
    ("source", "split", "words"),
    [
        ("gsm8k", "test", "source: gsm8k, split: train has problems to train on"),
        ("math", "test", "numbers on it, and on the 500 of MATH-500, which are among MATH's test"),
        ("ifeval", "train", "ifeval is a public benchmark; numbers on it say nothing"),
        ("math", "train", None),
    ],
)
def test_training_on_a_benchmark_is_warned_of(config, source, split, words):
    config["data"]["train"] = {"source": source, "split": split}
    if source == "ifeval":  # which has no answers
        del config["components"]["correctness"]
        config["arms"]["arms"] = {"a": {"weights": {"format": 1}}}
    warnings = resolve(config, "study.yaml", Path()).warnings
    assert [words in warning for warning in warnings] == ([True] if words else [])
