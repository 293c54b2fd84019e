"""Pages of the report on how to reproduce the study: config, arms and runs, environment, commands.

The rule `report_pages` writes them. Their digest is a param of the rule, so that another config or environment makes
them again. The full check of a start asks for the installed packages.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from reward_ablation.analysis.registry import RULES
from reward_ablation.config.secrets import without_secrets
from reward_ablation.spec.canonical import canonical
from reward_ablation.study.answers_record import read_record
from reward_ablation.study.core_digest import code_of
from reward_ablation.study.primary import declaration_text, recorded_primary
from reward_ablation.study.shown_paths import without_places
from reward_ablation.study.standing import as_runs_say, is_begun, standing_at_begin
from reward_ablation.study.study import Study
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text

#: Stages whose code digests the page of commands lists, in addition to that of training.
STAGES = ("data", "models", "evaluation", *(rule.module for rule in RULES.values()), "figures")

#: The folder of the Snakefile.
HOME = Path(__file__).parents[3]

#: Name of the config file in the commands of the page.
CONFIG_FILE = "study.yaml"


@dataclass(frozen=True)
class ReportPages:
    """The pages of a study."""

    #: The config as Snakemake has read it, with the changes of the command line.
    config: Mapping[str, Any]
    study: Study

    def digest(self, wildcards: Any) -> str:
        """Digest of the pages; the config enters as JSON, because YAML of 1,000 arms takes 0.5 s."""
        configs = [dict(self.config), self.study.config.model_dump(mode="json", by_alias=True)]
        content = [json.dumps(_shown(configs, self.study.root)), self._other_pages]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]

    def write(self, folder: Path, described: Path) -> None:
        """Write each page to its file; `described`, the path of study.json, has the time of the primary question."""
        pages = {"config": config_page(self.config, self.study), **self._other_pages}
        pages["arms"] = arms_page(self.study, self._declaration(described))
        for name, text_of_page in pages.items():
            with atomic_path(folder / f"{name}.html") as temporary:
                temporary.write_text(text_of_page, encoding="utf-8")

    def _declaration(self, described: Path) -> str:
        """Lines on since when the primary question is declared, by the records of begun runs, and what it replaced."""
        primary = recorded_primary(read_record(described))
        folders = [described.with_name("runs") / name for name in self.study.runs]
        if primary is None:
            return ""
        began = [standing_at_begin(folder) for folder in folders if is_begun(folder)]
        primary = as_runs_say(primary, "primary", primary.key, began)
        replaced = [f"before: {question}; declared {question.declared}" for question in reversed(primary.earlier)]
        return "\n".join([declaration_text(primary), *replaced]) + "\n"

    @cached_property
    def _other_pages(self) -> dict[str, str]:
        """The pages but that of the config; the page of arms is still without the declaration."""
        packages = installed()
        lock = lock_of(packages)
        return {
            "arms": arms_page(self.study),
            "environment": environment_page(packages, lock, locked(HOME / lock)),
            "commands": commands_page(self.study, lock, HOME / lock),
        }


def _shown(values: Any, root: Path) -> Any:
    """The values in JSON's types, without secrets, and without folders outside the study's. Others become text."""
    return without_places(without_secrets(json.loads(json.dumps(values, default=str))), root)


def as_yaml(values: Any, root: Path) -> str:
    """Values as YAML, in their order, as `_shown`. Characters outside ASCII are escaped."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C, a tenth of the time
    return yaml.dump(_shown(values, root), Dumper=dumper, sort_keys=False, allow_unicode=False)


def config_page(config: Mapping[str, Any], study: Study) -> str:
    """The config as it was read, and with every default."""
    return page(
        f"Config of {study.config.name}",
        "The config as Snakemake read it, with what the command line changed, and below it with every default",
        section("As read"),
        text(as_yaml(dict(config), study.root)),
        section("With every default"),
        text(as_yaml(study.config.model_dump(mode="json", by_alias=True), study.root)),
    )


def arms_page(study: Study, declaration: str = "") -> str:
    """The resolved study; `declaration` has lines on when the primary question was declared."""
    config = study.config
    arms = [
        [
            name,
            *(f"{weight:g}" if key in config.scored_in(arm) else "not scored" for key, weight in arm.weights.items()),
            canonical(_shown(arm.training, study.root)) if arm.training else "none",
            f"runs/{study.folders[study.keys[name]]}",
        ]
        for name, arm in study.arms.items()
    ]
    components = [
        [name, each["function"], canonical(each["parameters"]), each["placement"], each["scored"]]
        for name, each in _shown({name: dict(part) for name, part in config.components.items()}, study.root).items()
    ]
    datasets = {name: canonical(_shown(json.loads(spec), study.root)) for name, spec in study.datasets.items()}
    seeds = ", ".join(map(str, study.summary["seeds"]))
    seeds += "".join(f"; of {arm}: {', '.join(map(str, own))}" for arm, own in config.arms.seeds.items() if own)
    return page(
        f"Arms and runs of {config.name}",
        f"Arms: {len(study.arms)}, by design {config.arms.design}; seeds: {seeds}; runs: {len(study.runs)}; baseline: "
        f"{study.summary['baseline']}; control: {config.control or 'none'}",
        section("Arms"),
        table(["arm", *config.components, "training settings of its own", "runs, one folder a seed"], arms),
        section("Primary question"),
        text(f"{study.question}\n{declaration}"),
        section("Components"),
        table(["component", "function", "parameters", "placement", "scored"], components),
        section("Evaluation sets"),
        table(["data set and key", "spec"], datasets.items()),
        *(text(warning) for warning in study.warnings),
    )


def installed() -> dict[str, str]:
    """Version of each installed package, by the name that the locks write."""
    # By the names of their folders, NAME-VERSION.dist-info: each start asks, and to read them takes longer.
    folders = (folder for entry in sys.path for folder in Path(entry).glob("*-*.*-info"))
    packages = (folder.stem.split("-")[:2] for folder in folders if folder.suffix in (".dist-info", ".egg-info"))
    return dict(sorted((re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in packages))


def lock_of(packages: Mapping[str, str]) -> str:
    """The lock that the packages are taken to be installed from. Only the lock for GPUs has vLLM."""
    return f"envs/{'gpu' if 'vllm' in packages else 'cpu'}.txt"


def locked(path: Path) -> dict[str, str]:
    """Versions that a lock names, by package; empty where the file does not exist."""
    lines = path.read_text().splitlines() if path.is_file() else []
    pins = (re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {pin[1]: pin[2] for pin in pins if pin}


def environment_page(packages: Mapping[str, str], lock: str, pins: Mapping[str, str]) -> str:
    """The packages of this environment beside those of its lock. The page of provenance says what trained the runs."""
    differing = [name for name, pin in pins.items() if name in packages and packages[name] != pin]
    compared = f"{len(differing) or 'none'} of them in another version than {lock} has"
    rows = [[name, number, pins.get(name, "not in it")] for name, number in packages.items()]
    return page(
        "Environment",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {len(packages)} packages, "
        f"{compared if pins else f'{lock} does not exist'}. This is the environment that the workflow was started in; "
        "the page of provenance has the packages and hardware that trained each run",
        table(["package", "version", lock], rows),
    )


def training_codes(study: Study) -> list[list[str]]:
    """Rows with the digests of the training code. Arms that are scored by other components may have another."""
    arms: dict[str, dict[str, None]] = {}
    for run in study.runs.values():
        arms.setdefault(run.code, {})[run.arm] = None
    return [[f"training of {', '.join(names)}" if len(arms) > 1 else "training", code] for code, names in arms.items()]


def commands_page(study: Study, lock: str, lock_file: Path) -> str:
    """The commands that install the environment and make the results again, with the digests of the code."""
    root = study.config.root
    kind = Path(lock).stem
    digest = hashlib.sha256(lock_file.read_bytes()).hexdigest() if lock_file.is_file() else "no such file"
    commands = [
        f"make install{' LOCK=gpu' if kind == 'gpu' else ''} && source .venv/bin/activate",
        f"snakemake --configfile {CONFIG_FILE} --cores all",
        f"snakemake --configfile {CONFIG_FILE} --report {shlex.quote(f'{root}/report.html')}",
    ]
    code = [*training_codes(study), *([stage, code_of(stage)] for stage in STAGES)]
    return page(
        f"How to reproduce {study.config.name}",
        f"Save the first part of the page on the config as {CONFIG_FILE} in a copy of this workflow whose code has the "
        "digests below, and run these commands there. On the CPU, runs of one seed on one machine have the same bytes; "
        "on GPUs, sums are taken in an order that may differ. On a cluster, --profile profiles/slurm replaces --cores",
        text("\n".join(commands) + "\n"),
        section("Environment"),
        text(f"{lock}: sha256 {digest}\nPython {platform.python_version()}, snakemake {version('snakemake')}\n"),
        section("Code"),
        table(["stage", "digest of its code, comments left out"], code),
    )
