"""What Snakemake asks for each job: its params, and a priority."""

from pathlib import Path
from types import SimpleNamespace

from snakemake.common import get_function_params

from reward_ablation.start.internals import per_job
from reward_ablation.start.rule_params import RuleParams, verbatim
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD
from reward_ablation.system.files import write_json


def test_params_are_the_jobs_own_and_snakemake_reads_their_signatures_once(config, tmp_path):
    study = resolve(config, "study.yaml", tmp_path)
    params = RuleParams(study)
    spec = per_job(params.spec_of_run)
    # Snakemake would work out all resources of each job while it plans, if a param asked for them.
    assert list(get_function_params(spec)) == ["wildcards"]
    assert get_function_params(spec) is get_function_params(spec)  # not worked out again
    for name, run in study.runs.items():
        wildcards = SimpleNamespace(run=name)
        assert (spec(wildcards), params.code_of_run(wildcards)) == (run.spec, run.code)
    assert verbatim("{braces}")(SimpleNamespace()) == "{braces}"


def test_any_code_is_an_option_of_whole_runs_alone(config, tmp_path):
    study = resolve(config, "study.yaml", tmp_path)
    whole, *others = study.runs
    write_json({}, study.results / "runs" / whole / HIDDEN_RECORD)
    for code_counts in (True, False):
        options = {
            name: RuleParams(study, lambda counts=code_counts: counts).options_of_run(SimpleNamespace(run=name))
            for name in study.runs
        }
        assert options.pop(whole) == study.runs[whole].options + ("" if code_counts else " --any-code")
        assert options == {name: study.runs[name].options for name in others}


def test_first_comparisons_come_first(config):
    config |= {"seeds": [3, 0], "baseline": "b"}
    config["arms"]["arms"]["same_as_a"] = config["arms"]["arms"]["a"]  # shares the runs of a
    study = resolve(config, "study.yaml", Path())
    order = RuleParams(study)
    wildcards = [{"run": run} for run in study.runs]
    training = sorted(wildcards, key=lambda each: -order.priority_of_run(SimpleNamespace(**each)))
    assert [each["run"][0] + each["run"][-1] for each in training] == ["b3", "a3", "b0", "a0"]
    evaluations = [{"dataset": "test"}, *training]  # the base model's first
    scorings = [{"model": "base"}, *({"model": each["run"]} for each in training)]
    for jobs in (evaluations, scorings):
        priorities = [order.priority_of_answers(each) for each in jobs]
        assert priorities == sorted(priorities, reverse=True)
        assert len(set(priorities)) == len(jobs)
        assert min(priorities) > max(order.priority_of_run(SimpleNamespace(**each)) for each in training)
        assert order.first > max(priorities)
    assert order.priority_of_run(SimpleNamespace(run="gone-00000000/seed0")) == 0  # no run of the study
