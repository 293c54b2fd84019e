"""When a study runs its own code: no command and no dry run imports a reward file; a start does, in another process."""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path

import pytest

from .conftest import TINY, Study, made_once
from .test_config import errors_of

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
LOOKS = [["--dry-run", "--forceall"], ["--summary"], ["--report", "report.html", "--", TABLE], ["--unlock"]]
#: What Snakemake answers as it does one of these.
ALIKE = [
    *([option] for option in ("-n", "--dag", "--list-rules", "--list-input-changes", "--print-compilation")),
    *([option] for option in ("--detailed-summary", "--rulegraph", "--filegraph", "--d3dag", "--list-target-rules")),
]
#: Every command but the preview, likewise.
COMMANDS = [
    *([command] for command in ("status", "verify", "prune")),
    ["plan", "--quick"],
    ["budget", "--hours", "4", "--run-hours", "1", "--questions", "100"],
]
POWER = ["power", "--effect", "0.5", "--seed-sd", "0.1"]
IN_THE_LONG_FORM = [pytest.param(words, marks=pytest.mark.long) for words in [*ALIKE, POWER]]


def with_files(study: Study) -> Study:
    study.folder.mkdir(parents=True, exist_ok=True)
    (study.folder / "mine.py").write_text(HOSTILE)
    (study.folder / "words.txt").write_text("a b")
    return study


def processes_of_imports(study: Study) -> list[str]:
    marker = study.folder / "MARKER"
    return marker.read_text().splitlines() if marker.exists() else []


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished study with a reward file that is hostile from now on."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARMLESS", "1")
            result = with_files(Study(folder, DONE)).snakemake("--", TABLE)
        assert result.returncode == 0, result.stdout + result.stderr

    return Study(made_once(tmp_path_factory, "hostile_reward", make), DONE)


@pytest.mark.parametrize(
    "words",
    [*LOOKS, *COMMANDS, *(pytest.param(words, marks=pytest.mark.long) for words in [*ALIKE, POWER])],
    ids=" ".join,
)
def test_looking_at_a_study_imports_no_reward_file(done, words):
    result = (done.command if words in [*COMMANDS, POWER] else done.snakemake)(*words)
    assert processes_of_imports(done) == []
    assert errors_of(result) == []
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.usefixtures("_blank_figures")
def test_a_preview_shows_what_is_finished_and_imports_no_reward_file_and_no_module_from_its_own_folder(done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy", copy_function=shutil.copy2)
    study = Study(tmp_path / "copy", {**done.config, "seeds": [0, 1]})
    [unevaluated] = study.results.glob("evaluation/*/brief-*/seed0")
    shutil.rmtree(unevaluated)
    work = study.results / "preview" / ".work"
    work.mkdir(parents=True)
    for module in ("numpy", "pandas", "pyarrow", "reward_ablation"):
        (work / f"{module}.py").write_text(f"open({str(study.folder / 'MARKER')!r}, 'w').write('imported')\n")
    result = study.command("preview")
    assert processes_of_imports(study) == []
    assert result.returncode == 0, result.stdout + result.stderr
    assert "study tiny: preview of 1 of 4 runs\n" in result.stdout
    name = f"{unevaluated.parent.name}/seed0"
    assert f"- Trained, and not evaluated on all evaluation sets shown: {name}.\n" in result.stdout


@pytest.mark.parametrize("words", [["plan", "--quick"], ["status"]], ids=" ".join)
def test_looking_at_a_new_study_says_the_same_as_with_the_file_imported(tmp_path, words, monkeypatch):
    study = with_files(Study(tmp_path, CONFIG))
    looked = study.command(*words)
    assert (looked.returncode, processes_of_imports(study)) == (0, []), looked.stderr
    monkeypatch.setenv("HARMLESS", "1")
    monkeypatch.setenv("REWARD_ABLATION_RUN_CODE", "yes")
    imported = study.command(*words)
    assert imported.stdout == looked.stdout


def test_a_start_imports_the_file_in_a_process_of_its_own_before_any_job(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    result = study.snakemake()
    assert result.returncode == 1
    told = "error: components.brevity: mine.py:brevity: mine.py ends the process that imports it, by exit status 7"
    assert errors_of(result) == [told]
    assert "Traceback" not in result.stderr
    [importing] = processes_of_imports(study)
    assert importing.split()[0] != importing.split()[1]
    assert not (study.results / "models").exists()
    assert study.snakemake("--until", "prepare_train").returncode == 0  # trains nothing, so it imports nothing
    assert len(processes_of_imports(study)) == 1


def test_the_plan_calls_each_reward_and_ends_with_its_error(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    result = study.command("plan", "--offline")
    assert result.returncode == 1
    told = "error: components.brevity: mine.py:brevity: mine.py ends the process that imports it, by exit status 7"
    assert result.stderr.splitlines()[-1] == told
    assert result.stdout.startswith("study tiny: 4 of 4 runs to train, ")
    assert not study.results.exists()


def test_a_start_that_only_scores_imports_the_metrics_alone(done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy", copy_function=shutil.copy2)
    study = Study(tmp_path / "copy", done.config)
    shutil.rmtree(study.results / "scores")
    result = study.snakemake()
    [error] = errors_of(result)
    assert error.startswith("error: evaluation.metrics.even: mine.py:even: mine.py ends the process that imports it")
    assert len(processes_of_imports(study)) == 1


def test_a_missing_import_is_one_line_before_any_job(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    (tmp_path / "mine.py").write_text(HOSTILE.replace("import os", "import nobodys_helper", 1))
    [error] = errors_of(study.snakemake())
    assert "components.brevity: mine.py:brevity: mine.py does not load: mine.py, line 2, " in error
    assert "ModuleNotFoundError: No module named 'nobodys_helper'; imports are looked for in " in error
    assert not (study.results / "models").exists()


def test_a_faulty_reward_is_one_line_before_any_job(tmp_path, monkeypatch):
    monkeypatch.setenv("HARMLESS", "1")
    study = with_files(Study(tmp_path, CONFIG))
    faulty = HOSTILE.replace("return [float(len(ids)", "return [0.5]\n    return [float(len(ids)", 1)
    (tmp_path / "mine.py").write_text(faulty)
    [error] = errors_of(study.snakemake())
    assert error.startswith("error: components.brevity: mine.py:brevity: ")
    assert "problem word_problems/train/0: the function returned 1 scores for 4 completions" in error
    assert not (study.results / "models").exists()


def test_a_method_of_combination_is_imported_at_the_start_only(tmp_path):
    study = with_files(Study(tmp_path, CONFIG))
    study.config["components"]["brevity"] = {"function": "token_length", "parameters": {"target": 12, "width": 12}}
    study.config["arms"]["arms"]["mixed"]["combine"] = {"method": "mine.py:own_sum"}
    assert study.command("plan", "--quick").returncode == 0
    assert processes_of_imports(study) == []
    [error] = errors_of(study.snakemake("--until", "train"))
    assert error.startswith("error: arms.mixed.combine: mine.py:own_sum: mine.py ends the process that imports it")
    assert os.getpid() not in map(int, processes_of_imports(study)[0].split())
