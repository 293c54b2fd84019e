"""Different code, packages or hardware of a study's runs: a table and a sentence report this, or it is refused."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables, run_rule
from reward_ablation.analysis.provenance import sentence
from reward_ablation.study.provenance import attempts_of_final_state
from reward_ablation.system.errors import StudyError

ARMS = {"first": {"a": 1.0}, "second": {"a": 2.0}, "third": {"a": 3.0}}


@pytest.fixture
def root(tmp_path) -> Path:
    """A study of three arms with two seeds, all trained alike."""
    MadeUpStudy(arms=ARMS, steps=4, rollouts=2).write(tmp_path)
    return tmp_path


def edit(root: Path, arm: int, seed: int, change) -> None:
    path = root / f"runs/{list(ARMS)[arm]}-{arm:08x}/seed{seed}/run.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def other_code(record) -> None:
    record["code"] = "0the4"


def other_torch(record) -> None:
    record["attempts"][-1]["packages"]["torch"] = "2.12.1"


def moved(record) -> None:
    """A run that was interrupted after two of four steps and went on on another GPU."""
    first = record["attempts"][0]
    second = copy.deepcopy(first)
    first.update(to_step=3, ended="killed")
    second.update(from_step=2)
    second["hardware"]["gpus"] = ["<script>"]
    record["attempts"] = [first, second]


def table_of(root: Path) -> pd.DataFrame:
    return made_tables(root, "provenance")["provenance"]


def test_what_all_runs_have_in_common_is_told(root):
    table = table_of(root)
    assert list(table["quantity"]) == [
        *["code", "surrounding code", "python", "torch", "transformers", "trl"],
        *["machine", "CPUs", "GPUs", "processes"],
    ]
    columns = ["mixed", "runs", "split_runs", "arms"]
    assert table[columns].drop_duplicates().values.tolist() == [[False, 6, 0, "all arms"]]
    assert sentence(table) == (
        "the same for all 6 runs: code c0de, python 3.11.7, torch 2.13.0, transformers 5.17.0, trl 1.16.0, x86_64, "
        "1 x NVIDIA H200"
    )
    assert sentence(table.assign(runs=1)).startswith("one run: code c0de, python 3.11.7, ")


def test_what_differs_is_told_with_its_runs_and_arms(root):
    edit(root, 1, 0, other_torch)
    edit(root, 2, 1, moved)
    edit(root, 1, 0, lambda record: record.update(modules={"reward_ablation.training.around.run": "0the4"}))
    made = table_of(root)
    table = made.set_index(["quantity", "value"])
    assert table.loc["torch", ["runs", "arms"]].values.tolist() == [[5, "all arms"], [1, "second"]]
    assert table.loc["GPUs", ["runs", "split_runs"]].values.tolist() == [[6, 1], [1, 1]]
    # also code that decides no number
    assert list(table[table["mixed"]].index.unique("quantity")) == ["surrounding code", "torch", "GPUs"]
    told = "GPUs 1 x NVIDIA H200 (6 runs: all arms), 1 x <script> (1 run: third). "
    assert f"torch 2.13.0 (5 runs: all arms), 2.12.1 (1 run: second); {told}" in sentence(made)
    assert sentence(made).endswith("same for all: code c0de, python 3.11.7, transformers 5.17.0, trl 1.16.0, x86_64")
    page = (root / "tables" / "provenance.html").read_text()
    assert "1 x &lt;script&gt; (1 run: third)" in page
    assert "<script>" not in page


def test_a_comparison_says_in_what_its_runs_differ(root):
    for arm in range(3):  # another code of a seed confounds no comparison within seeds
        edit(root, arm, 1, other_code)
    edit(root, 1, 0, other_code)
    edit(root, 1, 0, other_torch)
    differences = made_tables(root, "evaluation")["paired_differences"].groupby("arm")["provenance"].unique()
    assert differences.map(list).to_dict() == {"second": ["differs in code, torch"], "third": ["same"]}


def test_an_attempt_of_which_no_step_is_left_does_not_count():
    """Checkpoints at steps 10 and 20, kills at 7, 15 and 25, and a last start with only the end of the run to do."""
    steps = [(0, 7), (0, 15), (10, 25), (20, 30), (30, 30)]
    attempts = [{"from_step": start, "to_step": end} for start, end in steps]
    assert [(a["from_step"], a["to_step"]) for a in attempts_of_final_state(attempts)] == [(0, 15), (10, 25), (20, 30)]
    back = [{"from_step": 0, "to_step": 12}, {"from_step": 10, "to_step": 15}, {"from_step": 5, "to_step": 30}]
    assert attempts_of_final_state(back) == [back[0], back[2]]  # the checkpoint at 10 was damaged
    killed = [{"from_step": 0, "to_step": 0}, {"from_step": 8, "to_step": 30}]  # before it wrote how far it was
    assert attempts_of_final_state(killed) == killed


def write_provenance(root: Path, mixed: str) -> None:
    run_rule("provenance", root, root / "tables", "--mixed-provenance", mixed)


def test_mixed_provenance_is_refused_on_request(root):
    write_provenance(root, "refuse")
    edit(root, 0, 0, other_code)
    with pytest.raises(StudyError) as error:
        write_provenance(root, "refuse")
    told = str(error.value)
    assert told.startswith("runs of different provenance (mixed: code 0the4 (1 run: first), c0de (5 runs: all arms)")
    assert told.endswith("delete the runs that are to be trained again, or set mixed_provenance: tell")
    write_provenance(root, "tell")


def test_the_digests_of_the_runs_change_with_any_record(root):
    """The digests make the other tables again, even if the table of provenance does not change."""
    write_provenance(root, "tell")
    tables = root / "tables"
    before = (tables / "runs.sha256").read_text()
    subprocess.run(["sha256sum", "--check", "runs.sha256"], cwd=tables, check=True, stdout=subprocess.DEVNULL)
    provenance = (tables / "provenance.parquet").read_bytes()
    edit(root, 1, 0, lambda record: record.update(wall_seconds=record["wall_seconds"] + 1))
    write_provenance(root, "tell")
    assert (tables / "provenance.parquet").read_bytes() == provenance
    assert (tables / "runs.sha256").read_text() != before
