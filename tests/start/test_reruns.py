"""What Snakemake asks for each job of a study: params and inputs of a training job."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

from snakemake.common import get_function_params
from snakemake.io import is_flagged
from snakemake.rules import Rule

from reward_ablation.start.internals import per_job
from reward_ablation.start.reruns import Reruns
from reward_ablation.study.resolve import resolve


def test_a_wrapped_function_has_the_parameters_and_the_result_of_its_own(config, tmp_path):
    study = resolve(config, "study.yaml", tmp_path)
    spec = per_job(study.spec_of_run)
    assert get_function_params(spec) is get_function_params(spec)  # not worked out again
    assert get_function_params(spec) == inspect.signature(study.spec_of_run).parameters
    for name, run in study.runs.items():
        assert spec(SimpleNamespace(run=name)) == run.spec


def test_options_are_no_reason_to_train_again_and_the_spec_is(config, tmp_path):
    """Snakemake does not record a param whose function takes the output."""
    study = resolve(config, "study.yaml", tmp_path)
    assert Rule._is_deriving_function(per_job(study.options_of_run))
    assert not Rule._is_deriving_function(per_job(study.spec_of_run))


def test_no_param_of_a_run_asks_for_resources(config, tmp_path):
    """Snakemake would work out all resources of each job while it plans."""
    study = resolve(config, "study.yaml", tmp_path)
    for function in (study.spec_of_run, study.options_of_run):
        assert not {"resources", "threads"} & set(inspect.signature(function).parameters)


def test_inputs_are_ancient_to_a_trained_run_only(config, tmp_path):
    study = resolve(config, "study.yaml", tmp_path)
    trained, other = list(study.runs)[:2]
    root = study.config.root
    folder = tmp_path / root / "runs" / trained
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    reruns = Reruns(None, study)
    files = {"model": f"{root}/{study.model_file}", "problems": f"{root}/{study.problems_file}"}
    for name, is_trained in ((trained, True), (other, False)):
        inputs = reruns.inputs_of_run(SimpleNamespace(run=name))
        assert inputs == files
        assert [is_flagged(file, "ancient") for file in inputs.values()] == [is_trained, is_trained]
