"""The command `reward-ablation import`: tables, figures and a report of runs that were trained elsewhere.

`start.command_line` calls it. The package `imported` reads the files and makes a results folder of them. This module
locks that folder, reads nothing where nothing changed, and has a second Snakemake make the tables (`start.described`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.config import ImportConfig
from reward_ablation.imported.readers import READERS
from reward_ablation.imported.readers.trl import trainer_states
from reward_ablation.imported.results import is_current, stamps, write_results
from reward_ablation.spec.parts import without_defaults
from reward_ablation.start.config_files import contents_of
from reward_ablation.start.described import DescribedStudy, make_tables
from reward_ablation.study.code_digest import PACKAGE
from reward_ablation.study.core_digest import code_of, scoring_modules
from reward_ablation.study.run_folder import DESCRIPTION
from reward_ablation.study.specs_of_config import component_spec
from reward_ablation.system.locks import hold_lock
from reward_ablation.system.plain_values import printable

#: The report, in the results folder.
REPORT = "report.html"


def import_runs(file: Path, home: Path, cores: int, tell: Callable[[str], None]) -> int:
    """Import the runs of a YAML, and make their tables; 1 where a table, figure, summary or report failed, else 0."""
    written = contents_of(file)
    config: ImportConfig = validate_spec(ImportConfig, written, str(file))
    base = file.parent
    folder = base / config.root
    state, shown = state_of(config, written, base), folder.as_posix()
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The lock lies beside the folder, which a refused import does not make.
    busy = f"{shown}: {{holder}} imports runs there; wait until it is done"
    with hold_lock(folder.with_name(f".{folder.name}.lock"), busy) as lock:
        changed = not is_current(folder, state)
        if changed:
            write_results(config, base, folder, state)
        study = read_study(folder / DESCRIPTION)
        tell(f"study {study.name}: {'read' if changed else 'unchanged since the last import:'} {len(study.runs)} runs")
        for line in study.imported:
            tell(f"- {printable(line)}")
        return make_tables(folder, shown, rules_know(study, folder, config), home, cores, tell, lock, REPORT)


def state_of(config: ImportConfig, written: Any, base: Path) -> dict[str, Any]:
    """What decides an import: the YAML, the code that reads and scores, and size and time of all files it reads."""
    rollouts = [*config.rollouts_of(base).values()]
    sources = [*rollouts, *config.answers_of(base).values()]
    paths = [source.path for source in sources]
    for source in rollouts:
        if source.format == "trl":
            paths += trainer_states(source.path)
        elif source.format == "verl" and source.options.get("metrics"):
            paths.append(source.path / str(source.options["metrics"]))
    paths += [Path(source.options["questions"]) for source in sources if "questions" in source.options]
    paths += [base / config.golds.path] if config.golds else []
    components = {
        name: without_defaults(component_spec(component, base, name)) for name, component in config.components.items()
    }
    readers = {f"imported.readers.{READERS[source.format]}" for source in sources}
    built_in = scoring_modules(component.function for component in config.components.values())
    code = code_of("imported.results", *sorted(readers), *(name.removeprefix(f"{PACKAGE}.") for name in built_in))
    state = {"study": written, "code": code, "components": components, "files": stamps(list(dict.fromkeys(paths)))}
    read_again: dict[str, Any] = json.loads(json.dumps(state))  # the keys of JSON are texts, such as those of seeds
    return read_again


def rules_know(study: StudyFile, folder: Path, config: ImportConfig) -> DescribedStudy:
    """What the rules of tables and figures need to know of imported runs: above all which tables have no rows."""
    runs = list(dict.fromkeys(run.name for run in study.runs))
    models = [*(["base"] if study.has_base else []), *runs]
    here = study.trained_here.runs
    measured = any((folder / run.folder / "gradients.parquet").is_file() for run in here)
    has = {  # whether the tables of these rules have rows
        "evaluation": bool(study.datasets),
        "reward_hacking": bool(study.datasets) and study.has_base,
        "gradients": measured,
        "cost": bool(here) and len(here) == len(study.runs),
    }
    methods = has["cost"] and bool(study.arms_with_methods)
    asked = {"combination": methods, "claims": bool(study.claims)}
    return DescribedStudy(
        answers_folder="evaluation",
        runs=runs,
        datasets=study.datasets,
        keeping_runs=[],
        scores=[f"scores/{model}/{dataset}.parquet" for model in models for dataset in study.datasets],
        trained_on=[],
        asked_tables=[rule for rule, is_asked in asked.items() if is_asked],
        mixed_provenance="tell",
        figures=config.figures.model_dump(),
        claims=[claim.name for claim in study.claims],
        empty_tables=[rule for rule, has_rows in has.items() if not has_rows],
        base=["base"] if study.has_base else [],
    )
