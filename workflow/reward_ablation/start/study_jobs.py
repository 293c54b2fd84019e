"""The jobs that need the whole study: they write `study.json` and the report's pages on the study.

python -m reward_ablation.start.study_jobs describe --config FILE --output study.json
python -m reward_ablation.start.study_jobs pages --config FILE --study study.json --output FOLDER

`--config` is the config of the start, with all overrides, as `handed_config` wrote it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from reward_ablation.report.pages import ReportPages
from reward_ablation.start.declarations import describe_study
from reward_ablation.start.stale import with_diverged
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.strict_text import load_json


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.start.study_jobs")
    parser.add_argument("job", choices=["describe", "pages"])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--study", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    config = load_json(arguments.config.read_bytes())
    study = with_diverged(resolve(config, str(arguments.config), Path.cwd()))
    if arguments.job == "describe":
        describe_study(study, arguments.output)
    else:
        ReportPages(config, study).write(arguments.output, arguments.study)


if __name__ == "__main__":
    main()
