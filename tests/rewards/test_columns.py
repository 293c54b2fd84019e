"""JSON columns reach reward functions decoded, and the type hints of a function mark its parameters."""

from pathlib import Path

from pydantic import PositiveInt

from reward_ablation.config.sections import data
from reward_ablation.rewards.arguments import OF_PROBLEMS, OF_TRAINER
from reward_ablation.rewards.columns import with_values
from reward_ablation.rewards.parameters import FilePath, FolderPath, Mark, NotInSpec, marks_of, with_whole_paths


def test_each_call_gets_values_of_its_own_and_other_columns_stay_texts():
    given = []

    def first(completions, **columns):
        given.append(repr(columns))
        columns["tests"][1]["a"].append("changed")

    function = with_values(first, ["tests"])
    assert function.__name__ == "first"
    for _ in range(2):
        function(completions=["x", "y"], tests=[None, '{"a": [1, 2.5, null]}'], answer=["[1]", "2"])
    assert given == [repr({"tests": [None, {"a": [1, 2.5, None]}], "answer": ["[1]", "2"]})] * 2


def test_names_that_the_config_knows_are_those_of_the_trainer_and_of_problems():
    assert {*OF_TRAINER} <= {*data.TAKEN_COLUMNS}
    assert {*OF_PROBLEMS} <= {*data.TAKEN_COLUMNS, *data.OF_FILES}


def component(
    completions,
    *,
    weight: float,
    attempts: NotInSpec[PositiveInt] = 3,
    template: FilePath,
    more: FilePath | None = None,
    model: FolderPath = "m",
    **columns,
): ...


def test_markers_are_found_in_type_hints_and_relative_paths_start_from_the_root():
    expected = {"attempts": Mark.NOT_IN_SPEC, "template": Mark.FILE, "more": Mark.FILE, "model": Mark.FOLDER}
    assert marks_of(component) == expected
    given = {"template": "a/b.txt", "more": None, "model": "/m", "weight": 1.0, "attempts": 2}
    assert with_whole_paths(component, given, Path("/study")) == given | {"template": "/study/a/b.txt"}
