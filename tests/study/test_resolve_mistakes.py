"""From a config to runs: a one-line error for every config that cannot be run."""

from pathlib import Path

import pytest

from configs import changed, refusal
from reward_ablation.study.resolve import resolve

CONSTANT, LENGTH = {"function": "constant"}, {"function": "token_length", "parameters": {"target": 1, "width": 1}}
LEFT_OUT = {"design": "leave_one_out", "weights": {"correctness": 1, "format": 1}}
ELEVEN = {f"c{number}": 1 for number in range(11)}
THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
DATA = {"source": "word_problems", "count": 10, "split": "train"}
BETTER = {"says": "b is better", "metric": "format", "arm": "b", "direction": "higher"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", "a b", "name: 'a b' is not allowed; allowed: letters, digits and _"),
        ("name", "runs", "name: 'runs' is taken by the workflow; not allowed: benchmarks, data"),
        ("arms", {"design": "imported", "runs": {}}, "arms.design: its runs were trained elsewhere; type reward-ab"),
        ("seeds", ["010"], "seeds.0: '010' begins with 0; write 10, as YAML reads such numbers by eights: 010 is 8"),
        ("bootstrap", True, "config: bootstrap: True is a truth value, as YAML reads yes and no, too; write a number"),
        ("arms/arms/b/weights", {"format": False}, "arms.arms.b: weights: False is a truth value, as YAML reads yes a"),
        ("arms", {"design": "factorial", "weights": ELEVEN}, "arms.weights: has 11 entries; at most 10 allowed"),
        ("prompt", {"template": "{question}" + "x" * 120_000}, "prompt.template: the longest text, of 120010 characte"),
        ("prompt", {"date": "2024-02-31"}, "'2024-02-31' is no date"),
        ("data/evaluation/test/too_long", "refuse", "evaluation.test.too_long: only data.train has this key"),
        ("prompt", {"template": "x"}, "prompt.template: must contain {question} exactly once"),
        ("components/format/function", "no.py:f", "components.format: no.py:f: there is no file no.py"),
        ("arms/arms/b/training", THINKING, "arms.arms.b.training.chat_template_kwargs: all arms are judged on the s"),
        ("training", {"chat_template_kwargs": {"tokenize": False}}, "training.chat_template_kwargs.tokenize: not to b"),
        ("keep_models", 10, "keep_models: 10 keeps no model of arm a, which ends at step 10, and the final model is"),
        ("exports", ["rldynamics"], "config: exports: there is no such key any more; take it out, and read rollo"),
        ("training/learning_rat", 1, "training: learning_rat: no setting of TRL's GRPOConfig; did you mean learning_r"),
        ("training/loss_type", "gspo", "training: loss_type: 'gspo' is not allowed; allowed: grpo, dapo"),
        ("training/torch_compile", True, "training (arm a): torch_compile: compiled layers cannot be watched; chang"),
        ("gradients", {"backward": "trl", "every": 5}, "gradients: every: backward: trl measures nothing; leave every"),
        ("arms/arms/b/training", {"fp16": True}, "training (arm b): fp16: small component gradients would vanish"),
        ("training", {"num_generations": 1, "scale_rewards": "batch"}, "training (arm a): scale_rewards: batch scales"),
        ("evaluation/greedy", False, "evaluation: nothing to evaluate: set greedy: true or samples above 0"),
        ("arms/arms/base", {"weights": {"format": 1}}, "arms: 'base' is taken by the workflow"),
        ("lora", {"target_modules": ["q_proj", "lm_head"]}, "lora.target_modules: lm_head: TRL trains no adapter"),
        ("lora", {"target_modules": ["q_proj", ""]}, "lora.target_modules: an empty name or list is no layer; name"),
        ("arms/arms/b/resources", {"nodes": 2}, "arms.arms.b.resources: nodes: not to be set here; set launch.nodes"),
        ("arms/arms/b/resources", {"mem_mb": 1.5}, "arms.arms.b.resources.mem_mb: 1.5 is not allowed; input should"),
        ("arms/arms/b/resources", {"mem_mb": "64GB"}, "arms.arms.b.resources: mem_mb: '64GB' is a text; write"),
        ("launch", {"gpus": 2, "processes": 2}, "launch: processes: with GPUs a run has one process a GPU; leave it"),
        ("launch", {"resources": {"runtime": "long"}}, "launch.resources: runtime: 'long' is no time; write"),
        ("arms/arms/b/launch", {"gpus": 0}, "arms.arms.b.launch.gpus: a study trains all its arms on GPUs, or all on"),
        ("primary", {"dataset": "tset"}, "primary.dataset: unknown data set 'tset'; data sets: test"),
        ("primary", {"mode": "sampled"}, "primary.mode: sampled is switched off; set evaluation.samples above 0, or"),
        ("primary", {"metric": "acc"}, "primary.metric: unknown metric 'acc'; metrics in mode greedy: accuracy_stri"),
        ("primary", {"contrasts": [{"arm": "x"}]}, "primary.contrasts.0: unknown arm 'x'; arms here: a, b"),
        ("primary", {"contrasts": [{"arm": "a"}]}, "primary.contrasts.0: a against a; name two arms that differ"),
        ("primary", {"contrasts": [{"arm": "b"}, {"arm": "a", "against": "b"}]}, "contrasts.1: a against b is listed"),
        ("claims", {"c": BETTER | {"arm": "x"}}, "claims.c.arm: unknown arm 'x'; arms here: a, b"),
        ("claims", {"c": BETTER | {"against": "x"}}, "claims.c.against: unknown arm 'x'; arms here: a, b, base"),
        ("claims", {"c": BETTER | {"arm": "a"}}, "claims.c: compares a with itself; name two arms that differ, or"),
        ("claims", {"c": BETTER | {"direction": "same"}}, "claims.c: direction same needs a margin above 0: set mar"),
        ("claims", {"c": BETTER | {"says": "one\ntwo"}}, "claims.c.says: more than one line; write the text in one"),
        ("evaluation/answer_format", None, "evaluation: nothing judges the answers; set answer_format"),
        ("evaluation/metrics", {"tokens": CONSTANT}, "there is a metric tokens already"),
        ("evaluation/metrics", {"sample": CONSTANT}, "sample is a column of every study's answers; choose another"),
        ("evaluation/metrics", {"x": {}}, "needs a function, or the name of a component, and not both"),
        ("evaluation/metrics", {"x": {"component": "fromat"}}, "metrics.x.component: unknown component 'fromat'; comp"),
        ("evaluation/metrics", {"x": {"component": "format", "parameters": {"a": 1}}}, "parameters: the component's"),
        ("evaluation/metrics", {"x": {**CONSTANT, "range": [1, 1]}}, "write the lowest score first"),
        ("evaluation/metrics", {"x": LENGTH}, "metrics.x: token_length asks for completion_ids, which is known only i"),
        ("control", "a", "control: 'a' is the baseline, which the others are compared with; name another arm, or set"),
        ("components/length", {**LENGTH, "scored": "where_trained"}, "components.length: scored: where_trained, and"),
        ("arms", LEFT_OUT | {"extra": {"full": {"weights": {}}}}, "arms.extra.full: the design makes an arm of this n"),
        ("sft", {"data": DATA | {"too_long": "drop"}}, "sft.data: too_long: only data.train has this key"),
        ("sft", {"data": DATA, "completion": "none"}, "sft.completion: 'none' holds none of {solution}, {working}"),
        ("sft", {"data": DATA, "completion": []}, "sft.completion: no template"),
        ("data/evaluation/test", {"source": "ifeval", "split": "train"}, "data.evaluation.test: ifeval has no answers"),
        ("seeds", {"looks": [1, 3]}, "seeds.looks: the first look has one seed, which cannot show how seeds differ"),
        ("seeds", {"looks": [3, 2]}, "seeds.looks: not ascending; each look needs more seeds than the look before"),
    ],
)
def test_a_bad_config_is_one_line(config, path, value, message):
    assert message in refusal(changed(config, path, value))


def test_greedy_is_refused_where_it_is_switched_off(config):
    config["evaluation"] |= {"greedy": False, "samples": 4}
    told = refusal(config | {"primary": {"mode": "greedy"}})
    assert told.startswith("primary.mode: greedy is switched off; set evaluation.greedy to true")


def test_two_files_of_one_job_cannot_import_different_files_by_one_name(config, tmp_path):
    for folder, arguments in (("a", "completions"), ("b", "scores, groups, weights, state"), ("c", "completions")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"import my_own_helper\n\ndef f({arguments}): ...\n")
        (tmp_path / folder / "my_own_helper.py").write_text("")
    of_a, of_c = ({"function": f"{folder}/mine.py:f"} for folder in "ac")
    told = "{}: imports my_own_helper from {}/my_own_helper.py, and {} imports my_own_helper from "
    metrics = {"evaluation": config["evaluation"] | {"metrics": {"x": of_a, "y": of_c}}}
    place = "evaluation.metrics"
    assert refusal(config | metrics, tmp_path).startswith(told.format(f"{place}.y", tmp_path / "c", f"{place}.x"))
    config["components"]["x"] = of_a
    config["arms"]["arms"]["b"]["combine"] = {"method": "b/mine.py:f"}
    line = refusal(config, tmp_path)
    assert line.startswith(told.format("arms.arms.b.combine", tmp_path / "b", "components.x"))
    assert line.endswith("my_own_helper.py; give the two files different names")


SEQUENCE = {"importance_sampling_level": "sequence"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "vespo"}, "loss_type: vespo weighs a completion by the sign of its one advantage"),
        (SEQUENCE, "importance_sampling_level: sequence has one ratio a completion: a placement would change nothing"),
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
