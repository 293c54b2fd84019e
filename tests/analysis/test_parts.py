"""The commands of all tables and of the summary accept parts of a study, as in `reward-ablation preview`."""

import json

import pytest

from analysis.made_up import MadeUpStudy, write_tables
from reward_ablation.analysis.study_file import read_study
from reward_ablation.report.__main__ import main as summary_main
from reward_ablation.start.preview import CAUTION, READ
from reward_ablation.study.partial import missing_lines, part_of
from reward_ablation.system.files import write_json

ARMS = {
    "full": {"correctness": 1.0, "format": 0.5, "random": 0.0},
    "no_format": {"correctness": 1.0, "format": 0.0, "random": 0.0},
    "random_only": {"correctness": 0.0, "format": 0.0, "random": 1.0},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    sets = {"one": 6, "two": 6}
    MadeUpStudy(arms=ARMS, seeds=(0, 1, 2), steps=2, rollouts=4, datasets=sets, control="random_only").write(root)
    return root


@pytest.mark.parametrize(
    ("runs", "datasets"),
    [
        (["no_format 2"], ["two"]),  # without baseline, control and the primary data set
        (["full 0", "no_format 1"], ["one", "two"]),  # no seed in common
    ],
)
def test_a_part_goes_through_all_commands(study, tmp_path, runs, datasets):
    whole = read_study(study / "study.json")
    content = json.loads((study / "study.json").read_text())
    content |= {"scores": {}, "primary": whole.primary.model_dump()}
    shown = [run.folder for run in whole.runs if f"{run.arm} {run.seed}" in runs]
    part = part_of(content, shown, datasets)
    missing = missing_lines(content, part, [])
    for folder in READ:
        (tmp_path / folder).symlink_to(study / folder)
    note = {"runs": len(shown), "planned": len(whole.runs), "missing": missing, "caution": CAUTION}
    write_json({**part, "preview": note}, tmp_path / "study.json")

    tables = write_tables(tmp_path)
    picture = tmp_path / "primary.png"
    picture.write_bytes(b"a picture")
    summary_main(["--study", str(tmp_path / "study.json"), "--figure", str(picture)])
    words = (tables / "summary.md").read_text()
    assert words.startswith(f"# made_up\n\n**Preview of {len(runs)} of 9 runs.** Estimates")
    assert "A preview is no look of a sequential rule" in words
    for line in missing:
        assert f"\n- {line}\n" in words
