"""Markers of parameters come from the type hints of a function, not from the values."""

from pathlib import Path

from pydantic import PositiveInt

from reward_ablation.rewards.parameters import FilePath, FolderPath, Mark, NotInSpec, marks_of, with_whole_paths


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
