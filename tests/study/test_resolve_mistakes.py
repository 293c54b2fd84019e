"""From a config to runs: a one-line error for every config that cannot be run."""

from pathlib import Path

import pytest

from configs import REMOVE, changed, refusal
from reward_ablation.study.resolve import resolve

CONSTANT, LENGTH = {"function": "constant"}, {"function": "token_length", "parameters": {"target": 1, "width": 1}}
LEFT_OUT = {"design": "leave_one_out", "weights": {"correctness": 1, "format": 1}}
DATA = {"source": "word_problems", "count": 10, "split": "train"}
BETTER = {"says": "b is better", "metric": "format", "arm": "b", "direction": "higher"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", REMOVE, "name: missing; it has no default"),
        ("name", "a b", "name: 'a b' is not allowed; allowed: letters, digits and _"),
        ("name", "runs", "name: 'runs' is taken by the workflow; not allowed: benchmarks, data"),
        (
            "arms",
            {"design": "imported", "runs": {}},
            "arms.design: its runs were trained elsewhere; type reward-ablation i",
        ),
        ("seeds", 5, "seeds: 5 is not allowed; input should be a valid list"),
        ("model", {"source": "hubb"}, "model: source 'hubb' is not allowed; allowed: hub, local, demo"),
        ("results", "/scratch/me", "results: '/scratch/me' is not allowed; allowed: a folder below the project's"),
        ("seeds", [True], "seeds.0: True is not allowed; input should be a valid integer"),
        ("seeds", ["010"], "seeds.0: '010' begins with 0; write 10, as YAML reads such numbers by eights: 010 is 8"),
        ("bootstrap", True, "config: bootstrap: True is a truth value, as YAML reads yes and no, too; write a number"),
        ("arms/arms/b/weights", {"format": False}, "arms.arms.b: weights: False is a truth value, as YAML reads yes a"),
        (
            "arms",
            {"design": "factorial", "weights": {f"c{number}": 1 for number in range(11)}},
            "arms.weights: has 11 entries; at most 10 allowed",
        ),
        ("prompt", {"template": "{question}" + "x" * 120_000}, "prompt.template: the longest text, of 120010 characte"),
        ("data/train/splitt", "x", "data.train: unknown key 'splitt'; did you mean split? allowed:"),
        ("data/evaluation/test/count", 0, "data.evaluation.test.count: 0 is not allowed; input should be greater"),
        ("prompt", {"date": "26 Jul 2024"}, "'26 Jul 2024' is no date; write it as '2024-07-26'"),
        ("prompt", {"date": "2024-02-31"}, "'2024-02-31' is no date"),
        ("data/evaluation/test/too_long", "refuse", "evaluation.test.too_long: only data.train has this key"),
        ("sft", {"data": DATA | {"too_long": "drop"}}, "sft.data: too_long: only data.train has this key"),
        ("prompt", {"template": "x"}, "prompt.template: must contain {question} exactly once"),
        ("components/format/parameters", {"fmt": 1}, "components.format: answer_format: unknown parameter 'fmt'"),
        ("components/format/function", "no.py:f", "components.format: no.py:f: there is no file no.py"),
        ("arms/arms/b-c", {"weights": {"format": 1}}, "arms.arms.b-c: 'b-c' is not allowed; allowed: letters, digits"),
        ("arms/arms/b/training", {"lr": 1}, "arms.arms.b.training: lr: no setting of TRL's GRPOConfig"),
        (
            "arms/arms/b/training",
            {"chat_template_kwargs": {"enable_thinking": False}},
            "arms.arms.b.training.chat_template_kwargs: all arms are judged on the same prompts",
        ),
        ("training", {"chat_template_kwargs": {"tokenize": False}}, "training.chat_template_kwargs.tokenize: not to b"),
        ("training/hub_token", "hf_x", "training.hub_token: looks like a secret in plain text"),
        ("keep_models", -1, "keep_models: -1 is not allowed"),
        ("keep_models", 10, "keep_models: 10 keeps no model of arm a, which ends at step 10, and the final model is"),
        ("exports", ["rldynamics"], "config: exports: there is no such key any more; take it out, and read rollo"),
        ("arms/design", "grid", "arms: design 'grid' is not allowed; allowed: list, leave_one_out"),
        ("training/learning_rat", 1, "training: learning_rat: no setting of TRL's GRPOConfig; did you mean learning_r"),
        ("training/loss_type", "gspo", "training: loss_type: 'gspo' is not allowed; allowed: grpo, dapo"),
        (
            "arms/arms/b/training",
            {"gradient_checkpointing_kwargs": {"use_reentrant": True}, "beta": 0.1},
            "training (arm b): gradient_checkpointing_kwargs: use_reentrant: true allows one backward pass, and meas",
        ),
        (
            "training/torch_compile",
            True,
            "training (arm a): torch_compile: compiled layers cannot be watched; change it, or set gradients.every: "
            "off, without whole",
        ),
        ("gradients", {"every": "often"}, "gradients.every: 'often' is not allowed"),
        ("gradients", {"backward": "trl", "every": 5}, "gradients: every: backward: trl measures nothing; leave every"),
        ("gradients", {"backward": "trl", "whole": [5]}, "gradients: whole: backward: trl measures nothing; leave who"),
        ("arms/arms/b/training", {"fp16": True}, "training (arm b): fp16: small component gradients would vanish"),
        (
            "arms/arms/b/training",
            {"num_generations": 1, "scale_rewards": "batch"},
            "training (arm b): scale_rewards: batch scales rewards, and with num_generations: 1 the rewards are the ad",
        ),
        ("evaluation/greedy", False, "evaluation: nothing to evaluate: set greedy: true or samples above 0"),
        ("arms/arms/base", {"weights": {"format": 1}}, "arms: 'base' is taken by the workflow"),
        ("components/total", {"function": "constant"}, "components: 'total' is taken by the workflow"),
        (
            "lora",
            {"target_modules": ["q_proj", "lm_head"]},
            "lora.target_modules: lm_head: TRL trains no adapter of it",
        ),
        ("lora", {"target_modules": []}, "lora.target_modules: an empty name or list is no layer; name layers, or"),
        ("lora", {"target_modules": ["q_proj", ""]}, "lora.target_modules: an empty name or list is no layer; name"),
        ("launch", {"gpus": 2, "processes": 2}, "launch: processes: with GPUs a run has one process a GPU; leave it"),
        ("launch", {"gpus": 0, "nodes": 2}, "launch: nodes: 2 does not divide processes: 1; each node has as many of"),
        ("launch", {"resources": {"gpu": 2}}, "launch.resources: gpu: not to be set here; set launch.gpus"),
        ("arms/arms/b/resources", {"nodes": 2}, "arms.arms.b.resources: nodes: not to be set here; set launch.nodes"),
        ("arms/arms/b/resources", {"mem_mb": 1.5}, "arms.arms.b.resources.mem_mb: 1.5 is not allowed; input should"),
        ("arms/arms/b/resources", {"mem_mb": "64GB"}, "arms.arms.b.resources: mem_mb: '64GB' is a text; write"),
        ("launch", {"resources": {"runtime": "long"}}, "launch.resources: runtime: 'long' is no time; write"),
        ("arms/arms/b/launch", {"gpus": 0}, "arms.arms.b.launch.gpus: a study trains all its arms on GPUs, or all on"),
        ("arms/arms/b/launch", {"nodes": 3}, "arms.arms.b.launch.nodes: 3 does not divide gpus: 1; each node has as"),
        ("arms/arms/b/launch", {"threads": 2}, "arms.arms.b.launch: unknown key 'threads'; allowed: gpus, nodes, proc"),
        ("primary", {"dataset": "tset"}, "primary.dataset: unknown data set 'tset'; data sets: test"),
        (
            "primary",
            {"mode": "sampled"},
            "primary.mode: sampled is switched off; set evaluation.samples above 0, or mode",
        ),
        (
            "primary",
            {"metric": "acc"},
            "primary.metric: unknown metric 'acc'; metrics in mode greedy: accuracy_strict, ",
        ),
        ("primary", {"contrasts": [{"arm": "x"}]}, "primary.contrasts.0: unknown arm 'x'; arms here: a, b"),
        ("primary", {"contrasts": [{"arm": "a"}]}, "primary.contrasts.0: a against a; name two arms that differ"),
        (
            "primary",
            {"contrasts": [{"arm": "b"}, {"arm": "a", "against": "b"}]},
            "primary.contrasts.1: a against b is listed twi",
        ),
        ("claims", {"c": BETTER | {"arm": "x"}}, "claims.c.arm: unknown arm 'x'; arms here: a, b"),
        ("claims", {"c": BETTER | {"arm": "base"}}, "claims.c.arm: unknown arm 'base'; arms here: a, b"),
        ("claims", {"c": BETTER | {"against": "x"}}, "claims.c.against: unknown arm 'x'; arms here: a, b, base"),
        (
            "claims",
            {"c": BETTER | {"arm": "a"}},
            "claims.c: compares a with itself; name two arms that differ, or against: base",
        ),
        (
            "claims",
            {"c": BETTER | {"metric": "acc"}},
            "claims.c.metric: unknown metric 'acc'; metrics in mode greedy: accuracy_strict, ",
        ),
        (
            "claims",
            {"c": BETTER | {"direction": "same"}},
            "claims.c: direction same needs a margin above 0: set margin to the smallest",
        ),
        (
            "claims",
            {"c": BETTER | {"says": "one\ntwo"}},
            "claims.c.says: more than one line; write the text in one line",
        ),
        ("evaluation/answer_format", None, "evaluation: nothing judges the answers; set answer_format"),
        ("evaluation/metrics", {"tokens": CONSTANT}, "there is a metric tokens already"),
        ("evaluation/metrics", {"sample": CONSTANT}, "sample is a column of every study's answers; choose another"),
        ("evaluation/metrics", {"x": {}}, "needs a function, or the name of a component, and not both"),
        ("evaluation/metrics", {"x": {"component": "fromat"}}, "metrics.x.component: unknown component 'fromat'; comp"),
        ("evaluation/metrics", {"x": {"component": "format", "parameters": {"a": 1}}}, "parameters: the component's"),
        ("evaluation/metrics", {"x": {**CONSTANT, "range": [1, 1]}}, "write the lowest score first"),
        ("evaluation/metrics", {"x": LENGTH}, "metrics.x: token_length asks for completion_ids, which is known only i"),
        ("control", "x", "control: unknown arm 'x'; arms here: a, b"),
        ("control", "a", "control: 'a' is the baseline, which the others are compared with; name another arm, or set"),
        (
            "components/length",
            {**LENGTH, "scored": "where_trained"},
            "components.length: scored: where_trained, and no",
        ),
        ("arms", LEFT_OUT | {"extra": {"full": {"weights": {}}}}, "arms.extra.full: the design makes an arm of this n"),
        ("arms", LEFT_OUT | {"extra": {"x": {"weights": {"y": 1}}}}, "arms.extra.x.weights: unknown component 'y'; co"),
        ("sft", {"data": DATA, "completion": "none"}, "sft.completion: 'none' holds none of {solution}, {working}"),
        ("sft", {"data": DATA, "completion": []}, "sft.completion: no template"),
        ("sft", {"data": DATA, "training": {"learning_rat": 1}}, "sft.training: learning_rat: no setting of TRL's SFT"),
        (
            "sft",
            {"data": DATA, "training": {"learning_rate": "1e-5"}},
            "is not allowed; allowed: number, at least 0; YAML reads 1e",
        ),
        ("sft", {"data": DATA, "training": {"seed": 1}}, "sft.training: seed: not to be set here; write it under sft."),
        ("data/evaluation/test", {"source": "ifeval", "split": "train"}, "data.evaluation.test: ifeval has no answers"),
        ("seeds", {"looks": [1, 3]}, "seeds.looks: the first look has one seed, which cannot show how seeds differ"),
        ("seeds", {"looks": [3, 2]}, "seeds.looks: not ascending; each look needs more seeds than the look before"),
        ("seeds", [1, 1], "seeds: a seed occurs twice; each seed is one run"),
    ],
)
def test_a_bad_config_is_one_line(config, path, value, message):
    assert message in refusal(changed(config, path, value))


def test_greedy_is_refused_where_it_is_switched_off(config):
    config["evaluation"] |= {"greedy": False, "samples": 4}
    told = refusal(config | {"primary": {"mode": "greedy"}})
    assert told.startswith("primary.mode: greedy is switched off; set evaluation.greedy to true")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("components.of_a", "components.of_b"),
        ("components.of_a", "arms.arms.b.combine"),
        ("evaluation.metrics.a", "evaluation.metrics.b"),
    ],
)
def test_two_files_of_one_job_cannot_import_different_files_by_one_name(config, tmp_path, one, other):
    for folder, key in (("a", one), ("b", other)):
        (tmp_path / folder).mkdir()
        arguments = "scores, groups, weights, state" if key.endswith("combine") else "completions, **columns"
        (tmp_path / folder / "mine.py").write_text(f"import my_own_helper\n\ndef f({arguments}): ...\n")
        (tmp_path / folder / "my_own_helper.py").write_text(f"name = '{folder}'\n")
        function = {"method" if key.endswith("combine") else "function": f"{folder}/mine.py:f"}
        config["evaluation"]["metrics"] = config["evaluation"].get("metrics", {})
        changed(config, key.replace(".", "/"), function | ({"range": [0, 1]} if "metrics" in key else {}))
    told = refusal(config, tmp_path)
    assert told.startswith(f"{other}: imports my_own_helper from ")
    assert f", and {one} imports my_own_helper from " in told
    assert told.endswith("my_own_helper.py; give the two files different names")


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
    told = refusal(config)
    assert told.startswith(f"training (arm b): {message}")
    assert told.endswith("; set components.format.placement: all_tokens, or change the setting")


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
