"""A reward function that compares completions sees whole groups, in how many processes a run is trained."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from trl import GRPOConfig

from reward_ablation.spec.run import ArmSpec, RunSpec
from reward_ablation.study.core_digest import training_digest
from reward_ablation.training.core.build import with_whole_groups
from reward_ablation.training.core.settings import halved
from reward_ablation.training.core.whole_groups import cuts_groups
from specs import arm_spec
from workflow.starting import forking_python

from . import scoring_in_processes as scoring
from .conftest import spec_with


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each of four processes got from `WholeGroups`. No process has a whole group, and one of them scores none."""
    folder = tmp_path_factory.mktemp("told")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    command = [forking_python(), "-m", *launcher, scoring.__file__, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


def test_scores_and_logged_columns_are_those_of_one_call(told):
    def together(function, part):
        return [value for of_process in told for value in of_process[function][part]]

    expected = scoring.ranked([*scoring.TEXTS], scoring.PROBLEMS, lambda *_: None, lambda *_: None, "of this process")
    assert together("ranked", "scores") == expected
    assert together("partly_logged", "scores") == [None] * scoring.ROWS
    assert [text for each in told for text in each["ranked"]["extra"]["text"]] == scoring.TEXTS
    values = [value for each in told for value in each["partly_logged"]["extra"]["of the last group"]]
    assert values[-scoring.GROUP :] == ["p2"] * scoring.GROUP
    assert len(values) == scoring.ROWS
    assert len(together("ranked", "metrics")) == scoring.ROWS // scoring.GROUP


def test_an_error_in_one_process_is_raised_in_all(told):
    assert {each["failing"]["error"] for each in told} == {"PassingError: the judge is away"}
    [error] = {each["logging_too_little"]["error"] for each in told}
    assert error.startswith("StudyError: components.logging_too_little: log_extra: the column 'verdict' has 1 values")


CUT = {"num_generations": 8, "per_device_train_batch_size": 4}


@pytest.mark.parametrize(
    ("training", "processes", "cut"),
    [
        ({**CUT, "gradient_accumulation_steps": 2}, 2, False),
        ({**CUT, "generation_batch_size": 24}, 2, True),
        ({"num_generations": 4, "per_device_train_batch_size": 6}, 2, True),  # one group of three is cut
        ({"num_generations": 4, "per_device_train_batch_size": 6, "steps_per_generation": 2}, 1, False),
        ({}, 2, False),  # TRL's defaults: 8 and 8
    ],
)
def test_the_plan_and_the_trainer_agree_on_layouts_that_cut_groups(training, processes, cut, monkeypatch, tmp_path):
    spec = ArmSpec.read(arm_spec(training=training, processes=processes))
    assert spec.cuts_groups == cut
    monkeypatch.setattr(GRPOConfig, "world_size", processes)
    for settings in (training, halved(training, 1)):  # a smaller micro-batch leaves the generations as they are
        config = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **settings)
        rows = config.per_device_train_batch_size * config.steps_per_generation
        assert cuts_groups(rows, config.num_generations, processes) == cut


def test_only_runs_whose_own_function_saw_parts_of_groups_have_another_code():
    def code(function, processes):
        arm = arm_spec(components={"a": {"function": function}}, weights={"a": 1}, training=CUT, processes=processes)
        return training_digest(ArmSpec.read(arm).functions)

    assert code("token_length", 2) == code("token_length", 1)
    assert code("mine.py:rank", 2) != code("mine.py:rank", 1) == training_digest([])


@pytest.mark.parametrize("processes", [1, 2])
def test_functions_that_may_compare_completions_get_whole_groups_where_a_layout_cuts_them(processes):
    functions = {"correctness": "own.py:rank", "format": "relative_length", "length": "token_length"}
    spec = RunSpec.read(spec_with(components={name: {"function": text} for name, text in functions.items()}))
    components = {name: lambda completions, **columns: [] for name in functions}
    rows = {"per_device_train_batch_size": 2, "steps_per_generation": 1, "num_generations": 4}
    wrapped = with_whole_groups(components, spec, SimpleNamespace(**rows, world_size=processes))
    changed = [name for name in components if wrapped[name] is not components[name]]
    assert changed == ["correctness", "format"] * (processes == 2)
