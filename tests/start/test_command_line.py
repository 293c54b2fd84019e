"""The command `reward-ablation`: its help, what it reads, and what it refuses in one line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from reward_ablation.start import command_line
from reward_ablation.start.command_line import app
from reward_ablation.start.overrides import GIVEN
from reward_ablation.system.errors import StudyError

COMMANDS = ("plan", "run", "status", "watch", "report", "preview", "import", "power", "budget", "verify", "prune")


@pytest.fixture
def folder(config, tmp_path, monkeypatch):
    """A working folder with a study, as `config/config.yaml` and as `study.yaml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    for file in ("config/config.yaml", "study.yaml"):
        (tmp_path / file).write_text(yaml.safe_dump(config))
    return tmp_path


def asked(*words):
    result = CliRunner().invoke(app, [*words], catch_exceptions=True)
    if isinstance(result.exception, StudyError):
        raise result.exception
    return result


def test_help_names_every_command_in_one_line():
    lines = asked("--help").output.splitlines()
    told = {line.split()[0]: line for line in lines[lines.index("Commands:") + 1 :]}
    assert tuple(told) == COMMANDS
    assert not any(line.endswith("...") for line in told.values())
    assert all(re.search(r"Usage: .*STUDY\.yaml", asked(command, "--help").output) for command in COMMANDS)


def test_no_heavy_library_is_loaded_for_help_and_status(folder):
    code = "import sys; from reward_ablation.start.command_line import app; app(standalone_mode=False); "
    code += "print(sorted({'torch', 'transformers', 'pandas', 'snakemake', 'matplotlib'} & {*sys.modules}))"
    for words in (["--help"], ["status", "study.yaml"]):
        result = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert result.stdout.endswith("\n[]\n"), result.stdout + result.stderr


def test_further_files_and_values_change_the_study(folder, monkeypatch):
    (folder / "more.yaml").write_text("seeds: [0, 1, 2]\n")
    for words, told in (
        ([], "4 of 4 runs to train, 5 evaluations to make\n"),  # the study of Snakemake
        (["study.yaml", "more.yaml"], "6 of 6 runs"),
        (["study.yaml", "more.yaml", "-C", "seeds=[7]"], "2 of 2 runs"),
    ):
        assert asked("plan", "--quick", *words).output.startswith(f"study study: {told}")
    monkeypatch.setenv("REWARD_ABLATION__SEEDS", "[0]")
    result = asked("plan", "study.yaml", "--quick")
    assert "study study: 2 of 2 runs" in result.output
    assert "seeds: [0], by REWARD_ABLATION__SEEDS" in result.output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["plan", "list.yaml"], "list.yaml: is not a mapping; write the study's keys"),
        (["plan", "study.yaml", "-C", "seeds"], "--config seeds: is not KEY=VALUE; write such as --config seeds="),
        (["plan", "study.yaml", "-C", "seeds=[0]", "-C", "seeds=[1]"], "--config seeds: is given twice"),
        (["prune", "study.yaml", "--costly"], "prune: --costly deletes nothing by itself"),
        (["run", "study.yaml", "--snakemake", "'"], "--snakemake: No closing quotation"),
        (["run", "study.yaml", "--snakemake", "-n --config seeds=[0]"], "--snakemake: --config: name the study and"),
        (["plan", "study.yaml", "more.txt"], "more.txt: is not a config file; let its name end in .yaml"),
        (["watch", "study.yaml", "--export", "study.yaml"], "--export study.yaml: is no page; name a file such as"),
    ],
)
def test_what_is_refused_is_one_line(folder, words, line):
    (folder / "list.yaml").write_text("[1]\n")
    (folder / "more.txt").write_text("seeds: [0]\n")
    with pytest.raises(StudyError) as error:
        asked(*words)
    assert str(error.value).startswith(line)
    assert not (folder / "results").exists()


def test_an_error_is_one_line_with_status_1(folder):
    command = [sys.executable, "-m", "reward_ablation.start.command_line", "plan", "nowhere.yaml"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "error: nowhere.yaml: no such file; name a config, such as config/demo.yaml\n"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("run", "config/config.yaml --cores all"),
        ("run a.yaml b.yaml --cores 3", "a.yaml b.yaml --cores 3"),
        ("run a.yaml --slurm --cores 3", "a.yaml --profile {s} --slurm-study-site {s}/site.yaml --local-cores 3"),
        ("run a.yaml --any-code --snakemake '-n b.csv'", "a.yaml --rerun-triggers mtime input --cores all -n b.csv"),
        ("report study.yaml", "study.yaml --report results/study/report.html"),
    ],
)
def test_run_and_report_become_snakemake(folder, monkeypatch, words, options):
    """Values are handed on as the plan reads them: Snakemake would read the numbers of a list or mapping as texts."""
    monkeypatch.setenv(GIVEN, "replaced")  # and taken away after the test
    for name in ("a.yaml", "b.yaml"):
        (folder / name).write_text("seeds: [0]\n")
    started = []
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    asked(*shlex.split(words), "-C", "training={max_steps: 30}", "-C", "seeds=[1, 2]")
    assert json.loads(os.environ[GIVEN]) == {"training": {"max_steps": 30}, "seeds": [1, 2]}
    home = str(command_line.HOME)
    begin = [sys.executable, "-m", "snakemake", "--snakefile", f"{home}/Snakefile", "--configfile"]
    assert started == [[*begin, *options.format(s=f"{home}/profiles/slurm").split()]]
