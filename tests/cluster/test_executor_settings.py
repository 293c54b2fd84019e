"""Settings of the executor: the parent plugin's other settings are refused, and all that its code reads exist."""

import ast
import inspect
import textwrap
from dataclasses import fields
from pathlib import Path

import pytest
import snakemake_executor_plugin_slurm as parent
from snakemake.cli import parse_args

import snakemake_executor_plugin_slurm_study as plugin

OURS = {field.name for field in fields(plugin.ExecutorSettings)}

#: Settings of the parent that do nothing here, or harm.
REFUSED = sorted({field.name for field in fields(parent.ExecutorSettings)} - OURS)

#: Functions of the parent that nothing calls here: no job is one of an array, and no job starts a Snakemake.
UNUSED = {"run_array_jobs", "_submit_array_jobs", "additional_general_args"}

#: Settings that the parent reads only where another setting says so.
READ_BESIDE = {"status_command", "efficiency_report_path", "efficiency_threshold"}


def test_the_settings_that_have_an_effect():
    kept = {"logdir", "keep_successful_logs", "delete_logfiles_older_than", "requeue"}
    assert {"site", "poll", "patience", *kept} == OURS
    assert {"array_jobs", "qos", "reservation", "partition_config", "no_account", "jobname_prefix"} <= set(REFUSED)
    assert {"exclude_failed_nodes", "status_command"} <= set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_without_effect_is_refused(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    option = f"--slurm-study-{name.replace('_', '-')}"
    with pytest.raises(SystemExit):
        parse_args(["--executor", "slurm-study", f"{option}=1"])
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {option}=1\n")


def test_settings_that_have_an_effect_are_taken(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["--slurm-study-site=here.yaml", "--slurm-study-logdir=logs", "--slurm-study-requeue"]
    _, args = parse_args(["--executor", "slurm-study", *words, "--slurm-study-poll", "5"])
    assert (args.slurm_study_site, args.slurm_study_poll) == (Path("here.yaml"), 5)
    assert args.slurm_study_requeue is True


@pytest.mark.parametrize(("name", "value"), [("poll", 0), ("patience", -1)])
def test_a_time_that_is_none_is_told(name, value, capsys):
    with pytest.raises(SystemExit):
        plugin.ExecutorSettings(**{name: value})
    assert capsys.readouterr().err.startswith(f"error: --slurm-study-{name}: must be at least ")


def test_what_the_parents_code_reads_is_there():
    """A setting that a later version of the parent reads must get a value in `ExecutorSettings`."""
    inherited = [
        function
        for name, function in vars(parent.Executor).items()
        if (inspect.isfunction(function) and name not in {*vars(plugin.Executor), *UNUSED}) or name == "__post_init__"
    ]
    read = {name for function in (*inherited, parent._select_logdir) for name in settings_read_by(function)}
    assert {"array_jobs", "delete_logfiles_older_than"} <= read, "else this test finds nothing"
    assert {name for name in read if not hasattr(plugin.ExecutorSettings, name)} <= READ_BESIDE


def settings_read_by(function) -> set[str]:
    """Names of the settings that a function reads."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if ast.unparse(node.value).endswith("executor_settings")}
