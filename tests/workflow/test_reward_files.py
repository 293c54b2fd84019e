"""When a study runs its own code: no command and no dry run imports a reward file; a start does, in another process."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

from .conftest import TINY, Study, made_once, printed, refusal

pytestmark = pytest.mark.slow

#: A reward file that ends any process that imports it, unless HARMLESS is set.
HOSTILE = """
import os
from pathlib import Path

from reward_ablation.rewards.parameters import FilePath

if not os.environ.get("HARMLESS"):
    with open(Path(__file__).with_name("MARKER"), "a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\\n")
    os._exit(7)


def brevity(completions, completion_ids, *, words: FilePath, limit: int = 2 * 5, **columns):
    return [float(len(ids) <= limit) for ids in completion_ids]


def even(completions, **columns):
    return [float(len(text) % 2) for text in completions]


def own_sum(scores, groups, weights, state):
    raise AssertionError
"""
ENDS = "mine.py ends the process that imports it, by exit status 7"
CONFIG = copy.deepcopy(TINY)
CONFIG["components"]["brevity"] = {"function": "mine.py:brevity", "parameters": {"words": "words.txt"}}
CONFIG["arms"]["arms"] = {"brief": {"weights": {"brevity": 1}}, "mixed": {"weights": {"brevity": 1, "format": 1}}}
CONFIG["training"]["max_steps"] = 1
CONFIG["evaluation"]["metrics"] = {"even": {"function": "mine.py:even"}}
#: What is trained of it; the tests of starts need no more.
DONE = {**CONFIG, "seeds": [0], "evaluation": {**CONFIG["evaluation"], "samples": 0}}

#: Needs all answers and scores, and no figure.
TABLE = "results/tiny/tables/evaluation_by_run.csv"
#: Options that look at a study, with what a finished study needs for it.
LOOKS = [["--dry-run", "--forceall"], ["--summary"], [TABLE, "--report", "report.html"], ["--unlock"]]
#: What Snakemake answers as it does one of these.
ALIKE = [[option] for option in ("--dag", "--list-rules", "--list-input-changes", "--print-compilation")]
#: Every command but the preview, likewise.
COMMANDS = [
    *([command] for command in ("status", "verify", "prune")),
    ["plan", "--quick"],
    ["budget", "--hours", "4", "--run-hours", "1", "--questions", "100"],
    ["power", "--effect", "0.5", "--seed-sd", "0.1"],
]


def with_files(study: Study) -> Study:
    study.folder.mkdir(parents=True, exist_ok=True)
    (study.folder / "mine.py").write_text(HOSTILE)
    (study.folder / "words.txt").write_text("a b")
    return study


def imports(study: Study) -> list[str]:
    """Of each process that imported the file: its number, and its parent's."""
    marker = study.folder / "MARKER"
    return marker.read_text().splitlines() if marker.exists() else []


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished study with a reward file that is hostile from now on."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARMLESS", "1")
            with_files(Study(folder, DONE)).make(TABLE)

    return Study(made_once(tmp_path_factory, "hostile_reward", make), DONE)


@pytest.mark.parametrize(
    "words", [*LOOKS, *COMMANDS, *(pytest.param(words, marks=pytest.mark.long) for words in ALIKE)], ids=" ".join
)
def test_looking_at_a_study_imports_no_reward_file(done, words):
    printed((done.command if words in COMMANDS else done.snakemake)(*words))
    assert imports(done) == []


@pytest.mark.usefixtures("_blank_figures")
def test_a_preview_shows_what_is_finished_and_imports_no_reward_file_and_no_module_from_its_own_folder(done, tmp_path):
    study = done.copied(tmp_path / "copy")
    study.config["seeds"] = [0, 1]
    [unevaluated] = study.results.glob("evaluation/*/brief-*/seed0")
    shutil.rmtree(unevaluated)
    work = study.results / "preview" / ".work"
    work.mkdir(parents=True)
    for module in ("numpy", "pandas", "reward_ablation"):
        (work / f"{module}.py").write_text(f"open({str(study.folder / 'MARKER')!r}, 'w').write('imported')\n")
    told = study.told("preview")
    assert imports(study) == []
    assert "study tiny: preview of 1 of 4 runs\n" in told
    name = f"{unevaluated.parent.name}/seed0"
    assert f"- Trained, and not evaluated on all evaluation sets shown: {name}.\n" in told


def test_looking_at_a_new_study_says_the_same_as_with_the_file_imported(tmp_path, monkeypatch):
    study = with_files(Study(tmp_path, CONFIG))
    looked = study.plan()
    assert imports(study) == []
    monkeypatch.setenv("HARMLESS", "1")
    monkeypatch.setenv("REWARD_ABLATION_RUN_CODE", "yes")
    assert study.plan() == looked


def test_a_start_imports_the_file_in_a_process_of_its_own_before_any_job(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    told = f"error: components.brevity: mine.py:brevity: {ENDS}"
    plan = study.command("plan", "--offline")  # calls each reward
    assert refusal(plan) == told
    assert plan.stdout.startswith("study tiny: 4 of 4 runs to train, ")
    assert not study.results.exists()
    assert refusal(study.snakemake()) == told
    number, parent = imports(study)[-1].split()
    assert number != parent
    assert not (study.results / "models").exists()
    before = imports(study)
    study.make("--until", "prepare_train")  # trains nothing, so it imports nothing
    assert imports(study) == before


def test_a_start_that_only_scores_imports_the_metrics_alone(done, tmp_path):
    study = done.copied(tmp_path / "copy")
    shutil.rmtree(study.results / "scores")
    assert refusal(study.snakemake()).startswith(f"error: evaluation.metrics.even: mine.py:even: {ENDS}")
    assert len(imports(study)) == 1


def test_a_method_of_combination_is_imported_at_the_start_only(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    study.config["components"]["brevity"] = {"function": "token_length", "parameters": {"target": 12, "width": 12}}
    study.config["arms"]["arms"]["mixed"]["combine"] = {"method": "mine.py:own_sum"}
    study.plan()
    assert imports(study) == []
    error = refusal(study.snakemake("--until", "train"))
    assert error.startswith(f"error: arms.mixed.combine: mine.py:own_sum: {ENDS}")
    assert len(imports(study)) == 1
