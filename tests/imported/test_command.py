"""`reward-ablation import` from the YAML to the report: two arms of TRL's files, and one that this project trained."""

import copy
import json
import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml

from reward_ablation.analysis.study_file import read_study
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported import results
from reward_ablation.imported.config import ImportConfig
from reward_ablation.imported.results import is_current, write_results
from reward_ablation.start.imported_runs import state_of
from reward_ablation.study import code_digest
from workflow.forks import BLANK
from workflow.starting import forking_python

from .studies import answers, trl_study, write_rows


def run(root: Path) -> str:
    command = [forking_python(), "-m", "reward_ablation.start.command_line", "import", "study.yaml", "--cores", "2"]
    done = subprocess.run(command, cwd=root, env={**os.environ, BLANK: "yes"}, capture_output=True, text=True)
    log = root / "results" / "mine" / "logs" / "snakemake.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    return done.stdout


@pytest.mark.parametrize("imports", [0, 1], ids=["the first", "a later one"])
def test_an_import_that_is_killed_between_its_moves_is_made_again(tmp_path, monkeypatch, imports):
    study = trl_study(tmp_path)
    folder = tmp_path / "results" / "mine"

    def read(written):
        config = validate_spec(ImportConfig, written, "study.yaml")
        state = state_of(config, written, tmp_path)
        if not is_current(folder, state):
            write_results(config, tmp_path, folder, state)
        return state

    for _ in range(imports):
        read(study)
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    swapped = copy.deepcopy(study)
    seeds = swapped["arms"]["runs"]["full"]["seeds"]
    seeds[0], seeds[1] = seeds[1], seeds[0]
    move = results.shutil.move
    moved = []

    def killed(*names):
        if moved:
            raise KeyboardInterrupt
        moved.append(move(*names))

    with monkeypatch.context() as patch:
        patch.setattr(results.shutil, "move", killed)
        with pytest.raises(KeyboardInterrupt):
            read(swapped)
    (tmp_path / "results" / ".mine.importing" / "runs").mkdir(parents=True)  # as after a kill that nothing can catch
    state = read(study)
    assert {path: path.read_bytes() for path in before} == before
    assert is_current(folder, state)


REWARD = """
from helper import score
from reward_ablation.rewards.parameters import FilePath

def reward(completions, *, words: FilePath, **columns):
    return [score for _ in completions]
"""


@pytest.mark.parametrize(
    "edited",
    [
        *("rewards/reward.py", "rewards/helper.py", "words.txt", "module.py", "logs/state", "trainer_state.json"),
        "v/1.jsonl",
    ],
)
def test_an_import_is_current_until_anything_that_it_reads_changes(tmp_path, edited):
    files = {"rewards/reward.py": REWARD, "rewards/helper.py": "score = 1.0", "words.txt": "one"}
    files |= {"module.py": "def reward(completions, **columns):\n    return [1.0 for _ in completions]"}
    files |= {"logs/state": "", "trainer_state.json": "{}", "v/1.jsonl": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    runs = {"v": {"seeds": {0: "v"}, "rollouts": {"format": "verl", "metrics": "../logs/state"}}}
    runs |= {"t": {"seeds": {0: "completions"}, "rollouts": {"format": "trl"}}}
    of_file = {"function": "rewards/reward.py:reward", "parameters": {"words": "words.txt"}}
    components = {"file": of_file, "module": {"function": "module:reward"}, "own": {"function": "boxed_answer"}}
    study = {"name": "mine", "arms": {"design": "imported", "runs": runs}, "components": components}
    config = validate_spec(ImportConfig, study, "study.yaml")
    write_rows(tmp_path / "completions" / "completions_00001.parquet", [])
    before = state_of(config, study, tmp_path)
    assert before == state_of(config, study, tmp_path)
    assert before != state_of(config, {**study, "bootstrap": 100}, tmp_path)
    (tmp_path / edited).write_text(files[edited].replace("1.0", "2.0").replace("[score", "[-score") + " ")
    for of_process in (code_digest.content, code_digest.source, code_digest.text_of_function):
        of_process.cache_clear()
    assert before != state_of(config, study, tmp_path)


@pytest.mark.slow
def test_two_imported_arms_and_one_of_this_project_twice(tmp_path):
    study = trl_study(tmp_path)
    original = tmp_path / "original"
    runs = [each.model_dump() for each in read_study(original / "study.json").runs]
    seeds = {each["seed"]: f"original/{each['folder']}" for each in runs if each["arm"] == "no_correctness"}
    study["arms"]["runs"]["no_correctness"] = {"rollouts": {"format": "reward_ablation"}, "seeds": seeds}
    study["evaluation"] = answers(tmp_path, original, runs)
    study["components"] = {"boxed": {"function": "boxed_answer"}}
    problems = pd.DataFrame({"question": ["gsm8k:0", "gsm8k:1"], "answer": ["1", "2"]})
    problems.to_csv(tmp_path / "golds.csv", index=False)
    study["golds"] = {"path": "golds.csv", "by": "prompt", "key": "question", "answer": "answer"}
    claim = {"says": "format costs", "metric": "correct", "arm": "no_format", "direction": "higher"}
    study["claims"] = {"costs": claim}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))

    told = run(tmp_path)
    assert "- full: 2 runs from trl files." in told
    assert "- no_correctness: 2 runs trained by this project." in told
    folder = tmp_path / "results" / "mine"
    report = (folder / "report.html").read_text()
    assert "2 runs trained by this project" in report
    assert "http://" not in report.partition("Content-Security-Policy")[2][:300]
    tables = folder / "tables"
    assert (pd.read_csv(tables / "similarity_by_step.csv")["arm"] == "no_correctness").all()
    rewards = pd.read_csv(tables / "rewards_by_step.csv")
    assert set(rewards.loc[rewards["quantity"] == "boxed", "arm"]) == {"full", "no_format"}
    assert not (folder / "figures" / "cost.pdf").exists()
    assert (folder / "figures" / "primary.pdf").exists()
    (claim,) = pd.read_csv(tables / "claims.csv").to_dict("records")
    assert (claim["claim"], claim["against"], claim["runs_then"]) == ("costs", "full", 6)  # known after all runs
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and "logs" not in path.parts}
    assert "unchanged since the last import" in run(tmp_path)
    assert {path.name for path, before in made.items() if path.stat().st_mtime_ns != before} == set()

    (file,) = (tmp_path / "trl" / "full" / "s0" / "completions").glob("*_00006.parquet")
    pd.read_parquet(file).assign(correctness=0.25).to_parquet(file)
    assert "read 6 runs" in run(tmp_path)
    rewards = pd.read_csv(tables / "rewards_by_step.csv").set_index(["arm", "seed", "step", "quantity"])["mean"]
    assert rewards["full", 0, 6, "correctness"] == 0.25
    assert json.loads((folder / "study.json").read_text())["claims"][0]["declared"] == claim["declared"]
