"""What Snakemake asks for of each job: inputs, params and a priority."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.common import get_function_params
from snakemake.io import is_flagged

from reward_ablation.start.internals import per_job
from reward_ablation.start.reruns import Reruns
from reward_ablation.start.rule_params import RuleParams, verbatim
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD
from reward_ablation.system.files import write_json

from .left_behind import LeftBehind

#: What is asked of Snakemake's workflow in a job.
IN_A_JOB = SimpleNamespace(
    is_main_process=False, dag_settings=SimpleNamespace(rerun_triggers=["params"]), execution_settings=SimpleNamespace()
)


@pytest.mark.parametrize("there", [True, False])
def test_a_trained_run_asks_for_no_job_that_makes_its_inputs(config, tmp_path, there):
    study = resolve(config, "study.yaml", tmp_path)
    trained, other = list(study.runs)[:2]
    root = study.config.root
    LeftBehind(study).finish(study.runs[trained])
    for file in study.trained_on if there else []:
        LeftBehind(study).made(file, "")
    reruns = Reruns(IN_A_JOB, study)
    files = {"model": [f"{root}/{study.model_file}"], "problems": [f"{root}/{study.problems_file}"]}
    for name, is_trained in ((trained, True), (other, False)):
        inputs = reruns.inputs_of_run(SimpleNamespace(run=name))
        assert inputs == ({} if is_trained and not there else files)  # what is missing would run the job again
        for flag in ("ancient", "before_update"):
            assert all(is_flagged(file, flag) == is_trained for [file] in inputs.values())


@pytest.fixture
def evaluated(config, tmp_path):
    """A study with a base model and an evaluation set, and the files of these."""
    study = resolve(config, "study.yaml", tmp_path)
    [dataset] = study.datasets
    files = {"model": study.model_file, "problems": f"data/evaluation/{dataset}.parquet"}
    for name, file in files.items():
        LeftBehind(study).made(file, name)
        files[name] = f"{study.config.root}/{file}"
    return study, dataset, files


def with_metric(config, root):
    """The study with a metric of its own."""
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    return resolve(config, "study.yaml", root)


class Wildcards(SimpleNamespace):
    """As Snakemake's: with `get` and `items`."""

    def items(self):
        return vars(self).items()

    def get(self, name):
        return getattr(self, name, None)


def workflow_with(**more):
    """What is asked of Snakemake's workflow while it plans."""
    compared = ("params_changed", "input_changed", "code_changed", "software_stack_changed", "incomplete")
    persistence = SimpleNamespace(**{name: lambda job, file=None: ["changed"] for name in compared})
    dag = SimpleNamespace(forcefiles=set())
    return SimpleNamespace(**{**vars(IN_A_JOB), "is_main_process": True}, persistence=persistence, dag=dag, **more)


@pytest.mark.parametrize("of_run", [False, True])
def test_inputs_of_answers_are_ancient_once_these_are_there(evaluated, of_run):
    study, dataset, files = evaluated
    run = next(iter(study.runs))
    paths = {name: [file] for name, file in files.items()}
    LeftBehind(study).finish(study.runs[run])
    for there in (False, True):
        reruns = Reruns(workflow_with(), study)
        inputs = reruns.inputs_of_answers(Wildcards(run=run) if of_run else Wildcards())
        if of_run:
            assert inputs.pop("run") == [f"{study.config.root}/runs/{run}/run.json"]
        assert inputs == paths
        assert is_flagged(inputs["problems"][0], "before_update") == there
        assert is_flagged(inputs["model"][0], "before_update") == there
        LeftBehind(study).answer(run if of_run else "base", dataset)


@pytest.mark.parametrize("ask", [Reruns.inputs_of_answers, lambda reruns, of: reruns.inputs_of("models/none")(of)])
def test_snakemakes_own_record_is_no_reason_to_make_a_result(evaluated, ask):
    workflow = workflow_with()
    ask(Reruns(workflow, evaluated[0]), Wildcards())
    decided = [SimpleNamespace(rule=SimpleNamespace(name=name)) for name in ("evaluate", "fetch", "prepare_train")]
    other = SimpleNamespace(rule=SimpleNamespace(name="tables_training"))
    compared = [each for name, each in vars(workflow.persistence).items() if name != "incomplete"]
    for changed in compared:
        assert [(changed(job), changed(job, file="a")) for job in decided] == [([], False)] * 3
        assert changed(other) == ["changed"]


@pytest.mark.parametrize("missing", ["answers", "scores", "model"])
def test_scores_stay_beside_their_answers(evaluated, config, tmp_path, missing):
    """Whatever the base model: it is fetched, and the next start compares it with that of the answers."""
    study, dataset = with_metric(config, tmp_path), evaluated[1]
    name = f"base/{dataset}.parquet"
    files = {"answers": f"{study.answers_folder}/{name}", "scores": f"{study.scores_folder}/{name}"}
    LeftBehind(study).answer("base", dataset)
    LeftBehind(study).made(files["scores"], "scores", code=study.scoring.code)
    (study.results / {**files, "model": study.model_file}[missing]).unlink()
    inputs = Reruns(workflow_with(), study).inputs_of_scores(Wildcards(model="base", dataset=dataset, kind=""))
    assert inputs.pop("reward_models", []) == []
    read = {"answers": files["answers"], "problems": study.evaluation_files[0]}
    assert inputs == {name: [f"{study.config.root}/{file}"] for name, file in read.items()}
    assert all(is_flagged(file, "before_update") == (missing == "model") for [file] in inputs.values())
    run = next(iter(study.runs))
    inputs = Reruns(workflow_with(), study).inputs_of_scores(Wildcards(model=run, dataset=dataset, kind=""))
    assert inputs["run"] == [f"{study.config.root}/runs/{run}/run.json"]
    assert not is_flagged(inputs["run"][0], "ancient")


def test_options_of_an_evaluation(config, tmp_path):
    study = resolve({**config, "keep_models": 3}, "study.yaml", tmp_path)
    workflow = workflow_with()
    for triggers, more in ((["params"], []), (["mtime"], ["any-code"])):
        workflow.dag_settings = SimpleNamespace(rerun_triggers=triggers)
        # The base model keeps none.
        for wildcards, kept in ((Wildcards(run=next(iter(study.runs))), ["kept"]), (Wildcards(), [])):
            options = Reruns(workflow, study).options_of_evaluation(wildcards)
            assert sorted(options.split(" --")) == sorted(["", *kept, *more])


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
