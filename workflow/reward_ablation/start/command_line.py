"""The command `reward-ablation`: what a study would do, how far it is, and what it found.

Users type it. All commands but `import` take the study's YAML; further YAML files change it. `run`, `report`, `preview`
and `import` start Snakemake. The others read the study and the records on disk, start no job, and work while the study
runs; only `prune --delete` is refused then. A command imports its modules when called, so that `--help` is quick.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from reward_ablation.system.errors import StudyError, one_line_errors

if TYPE_CHECKING:  # loading these takes longer than to print the help
    from reward_ablation.start.decide import Decisions
    from reward_ablation.study.study import Study

#: The folder of the Snakefile.
HOME = Path(__file__).parents[3]
#: The study of a command that names none, as Snakemake's.
DEFAULT = Path("config/config.yaml")

app = typer.Typer(
    help="Ablate the rewards of language models trained with GRPO. Begin with `reward-ablation plan STUDY.yaml`.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[STUDY.yaml]...",
        help=f"The study; further files change it.  [default: {DEFAULT}]",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--config", "-C", metavar="KEY=VALUE", help="Change a key of the study. May be given several times."),
]
AnyCode = Annotated[
    bool, typer.Option("--any-code", help="Keep finished runs and answers that other code or other inputs made.")
]
Pilot = Annotated[str | None, typer.Option(metavar="FOLDER", help="Results of a study to take the variances from.")]
Number = Annotated[float | None, typer.Option(metavar="NUMBER", show_default=False)]
Questions = Annotated[float | None, typer.Option(metavar="NUMBER", help="Questions of the evaluation set.")]


def opened(files: list[Path] | None, changes: list[str] | None, submits: bool = False) -> Study:
    """The study of its files, the environment and `--config`. Its warnings are printed to stderr."""
    from reward_ablation.start.config_files import read_config
    from reward_ablation.start.decide import with_diverged
    from reward_ablation.start.overrides import AUTO, values_given, with_overrides
    from reward_ablation.start.results_folder import ResultsFolder
    from reward_ablation.study.resolve import resolve

    files, tell = files or [DEFAULT], partial(print, file=sys.stderr)
    given = values_given(changes or [])
    settled = with_overrides(read_config(files, tell), files, given, os.environ, tell)
    if settled.auto and submits:
        raise StudyError(AUTO)
    study = with_diverged(resolve(settled.config, settled.source, Path.cwd()))
    folder = ResultsFolder(study.results)
    for warning in [*study.warnings, *folder.other_config(files)]:
        tell(f"warning: {warning}")
    return study


def decided(study: Study, any_code: bool = False) -> Decisions:
    from reward_ablation.start.decide import Decisions

    return Decisions(study, code_counts=not any_code)


@app.command()
def plan(
    files: Files = None,
    config: Changes = None,
    any_code: AnyCode = False,
    slurm: Annotated[bool, typer.Option("--slurm", help="Check the jobs for Slurm, not for this machine.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the hub.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Check the config alone; run no code of rewards.")] = False,
    adopt: Annotated[
        Path | None, typer.Option(metavar="RESULTS", help="First take over finished runs of a results folder.")
    ] = None,
) -> None:
    """Print what a start would do, why, and for how long.

    Then check all that a start or its jobs would refuse: data, prompts, models, GPUs, room on the disk, TRL's rules,
    and one call of each reward. The exit status is 1 where anything is refused.
    """
    from reward_ablation.start import adopt as taking_over
    from reward_ablation.start.plan import plan_of, plan_text

    decisions = decided(opened(files, config, submits=slurm), any_code)
    if adopt is not None:
        print(f"{taking_over.adopt(adopt, decisions, calls_files=not quick)}\n")
        decisions = decided(opened(files, config, submits=slurm), any_code)
    planned = plan_of(decisions)
    print(plan_text(planned))
    for line in taking_over.elsewhere_lines(decisions):
        print(line)
    if not quick:
        _check(decisions, slurm, offline)


def _check(decisions: Decisions, slurm: bool, offline: bool) -> None:
    """Print all that would end the start or one of its jobs, and end with status 1 where there is any."""
    from reward_ablation.start.full_check import Work, full_check, refuse

    made = decisions.inputs_to_make
    trained = frozenset(name for name, each in decisions.runs.items() if each.trains)
    work = Work(
        runs=trained,
        trains=bool(trained) or (decisions.study.config.sft is not None and decisions.study.model_file in made),
        evaluates=bool(decisions.evaluations),
        scores=bool(decisions.scorings),
        makes=frozenset(made),
        code_counts=decisions.code_counts,
        submits=slurm,
        site=HOME / "profiles" / "slurm" / "site.yaml" if slurm else None,
    )
    if work.trains or work.evaluates or work.scores or made:
        sys.stdout.flush()
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # nothing is left beside the files of rewards
        refuse(full_check(decisions.study, work, partial(print, file=sys.stderr, flush=True), offline))
        print("\nchecked: nothing was found that would stop this start")


@app.command()
def run(
    files: Files = None,
    config: Changes = None,
    any_code: AnyCode = False,
    slurm: Annotated[bool, typer.Option("--slurm", help="Submit the jobs to Slurm, by profiles/slurm.")] = False,
    cores: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="Cores of this machine to use.", show_default="all; with --slurm as in the profile"
        ),
    ] = None,
    snakemake: Annotated[str, typer.Option(metavar="OPTIONS", help="Further options of Snakemake, in quotes.")] = "",
) -> None:
    """Make everything that is missing, from models to figures.

    After a stop, the same command goes on.
    """
    from reward_ablation.start.config_files import read_config

    read_config(files or [DEFAULT], partial(print, file=sys.stderr))  # its errors in other words than Snakemake's
    profile = HOME / "profiles" / "slurm"
    where = ["--cores", cores or "all"]
    if slurm:
        here = ["--local-cores", cores] if cores else []  # else as in the profile
        where = ["--profile", str(profile), "--slurm-study-site", str(profile / "site.yaml"), *here]
    kept = ["--rerun-triggers", "mtime", "input"] if any_code else []
    _snakemake(files, config, [*kept, *where, *_words(snakemake)])


@app.command()
def status(files: Files = None, config: Changes = None, any_code: AnyCode = False) -> None:
    """Print how far each run is, and what failed."""
    from reward_ablation.start.status import ask_slurm, read_status, status_text

    decisions = decided(opened(files, config), any_code)
    jobs, slurm_silent = ask_slurm()
    print(status_text(read_status(decisions, jobs), slurm_silent))


@app.command()
def watch(
    files: Files = None,
    config: Changes = None,
    any_code: AnyCode = False,
    port: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port of the page, or the next one that is free.")
    ] = 8765,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the page into a file for others instead, with some completions."),
    ] = None,
) -> None:
    """Show runs, curves and completions in the browser.

    The page works while the study trains, and after it. It shows what each run does, the rewards by step, and what the
    models wrote. Open the address that is printed, in a browser on this machine. From another machine, first type
    `ssh -L 8765:127.0.0.1:8765 HOST` there. Ctrl-C ends the page and nothing else.
    """
    from reward_ablation.start.watched import watched
    from reward_ablation.watch.page import write_page
    from reward_ablation.watch.server import serve

    if export is not None and (export.suffix != ".html" or export.is_dir()):
        raise StudyError(f"--export {export}: is no page; name a file such as study.html")
    study = watched(opened(files, config), not any_code)
    if export is None:
        serve(study, port, partial(print, flush=True))
    else:
        print(f"{export}: {write_page(study, export)}")


@app.command()
def report(files: Files = None, config: Changes = None) -> None:
    """Write the report of a finished study, one HTML file."""
    study = opened(files, config)
    _snakemake(files, config, ["--report", f"{study.config.root}/report.html"])


@app.command()
def preview(
    files: Files = None,
    config: Changes = None,
    any_code: AnyCode = False,
    cores: Annotated[int, typer.Option(metavar="NUMBER", help="Cores of this machine to use.")] = 1,
) -> None:
    """Make tables and figures of the runs that are finished.

    They lie in the folder `preview` of the results, and the study goes on meanwhile.
    """
    from reward_ablation.start.preview import Preview, finished_part

    decisions = decided(opened(files, config), any_code)
    sys.exit(Preview(decisions.study, finished_part(decisions), HOME, cores).make(partial(print, flush=True)))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The runs, their weights and how to read them.")],
    cores: Annotated[int, typer.Option(metavar="NUMBER", help="Cores of this machine to use.")] = 1,
) -> None:
    """Make tables and a report of runs trained elsewhere.

    The YAML names the runs and the format of their files, such as TRL's or verl's logs; docs/import.md has an example.
    All files are checked before anything is written. The results folder is below the folder of the YAML.
    """
    from reward_ablation.start.imported_runs import import_runs

    sys.exit(import_runs(file, HOME, cores, partial(print, flush=True)))


@app.command()
def power(
    files: Files = None,
    config: Changes = None,
    effect: Annotated[list[float] | None, typer.Option(metavar="NUMBER", help="Effect to find. Up to three.")] = None,
    pilot: Pilot = None,
    questions: Questions = None,
    seed_sd: Number = None,
    question_sd: Number = None,
    answer_sd: Number = None,
    mean: Number = None,
) -> None:
    """Print which effects this study, or a larger one, would find."""
    stated = _given(locals())
    from reward_ablation.start.power import power as power_of

    print(power_of(opened(files, config), stated))


@app.command()
def budget(
    files: Files = None,
    config: Changes = None,
    gpu_hours: Number = None,
    hours: Number = None,
    run_hours: Annotated[float | None, typer.Option(metavar="NUMBER", help="Hours of one run.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="YAML", help="Weights of contrasts: {ARM: NUMBER}.")] = None,
    write: Annotated[str | None, typer.Option(metavar="FILE", help="YAML to write the chosen seeds to.")] = None,
    pilot: Pilot = None,
    questions: Questions = None,
    seed_sd: Number = None,
    question_sd: Number = None,
    answer_sd: Number = None,
    mean: Number = None,
) -> None:
    """Print which further seeds tell most in a number of hours."""
    stated = _given(locals())
    from reward_ablation.start.budget import budget as budget_of
    from reward_ablation.start.overrides import value_of

    if weights is not None:
        stated["weights"] = value_of("--weights", weights)
    decisions = decided(opened(files, config))
    print(budget_of(decisions.study, decisions.present, stated))


@app.command()
def verify(files: Files = None, config: Changes = None) -> None:
    """Read every recorded file again, and name damaged ones.

    The exit status is 1 where a file is damaged.
    """
    from reward_ablation.start.files import verify as read_again

    tell_progress = partial(print, file=sys.stderr, flush=True)
    sys.exit(1 if read_again(opened(files, config), partial(print, flush=True), tell_progress) else 0)


@app.command()
def prune(
    files: Files = None,
    config: Changes = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them, but no run of more than an hour.")] = False,
    costly: Annotated[bool, typer.Option("--costly", help="With --delete: delete such runs, too.")] = False,
) -> None:
    """Print what the study does not need, or delete it."""
    from reward_ablation.start.files import prune_text, remove, unneeded
    from reward_ablation.start.results_folder import ResultsFolder

    if costly and not delete:
        raise StudyError("prune: --costly deletes nothing by itself; add --delete")
    study = opened(files, config)
    folder = ResultsFolder(study.results)
    leftovers = unneeded(study)
    if not leftovers or not delete:
        print(prune_text(study, leftovers))
        return
    with folder.claim(space=0):
        remove(study, leftovers, print, costly)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `power` or `budget` that the user has stated."""
    return {
        name: value for name, value in options.items() if value not in (None, []) and name not in ("files", "config")
    }


def _words(options: str) -> list[str]:
    """The words of --snakemake. Options that would name another study or other changes are refused."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise StudyError(f"--snakemake: {error}; write the options as in a shell") from None
    for word in words:
        if word.startswith(("--config", "-C", "--snakefile", "-s")):
            raise StudyError(f"--snakemake: {word}: name the study and its changes as arguments and -C of this command")
    return words


def _snakemake(files: list[Path] | None, changes: list[str] | None, options: list[str]) -> NoReturn:
    """Become Snakemake, so that Ctrl-C and signals reach it. It gets the changes as this command reads them."""
    from reward_ablation.start.overrides import GIVEN, values_given

    snakefile = HOME / "Snakefile"
    if not snakefile.is_file():
        raise StudyError(f"{snakefile}: no such file; install the project from a clone: pip install --editable CLONE")
    files = files or [DEFAULT]
    if irregular := [str(file) for file in files if not file.is_file()]:
        raise StudyError(f"{irregular[0]}: can be read once only; write the study to a file")
    if given := values_given(changes or []):
        os.environ[GIVEN] = json.dumps(given)
    chosen = ["--configfile", *(f"./{file}" if str(file).startswith("-") else str(file) for file in files)]
    words = ["--snakefile", str(snakefile), *chosen, *options]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *words])


def main() -> None:
    gc.set_threshold(50_000)  # the garbage collector takes an eighth of a short command's time
    with one_line_errors():
        app(prog_name="reward-ablation")


if __name__ == "__main__":
    main()
