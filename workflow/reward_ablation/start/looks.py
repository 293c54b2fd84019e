"""The looks of a sequential study, which the rule `describe` takes, and `plan` and `status` print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reward_ablation.study.looks import looks_text, read_recorded_looks
from reward_ablation.study.standing import Standing, as_runs_say
from reward_ablation.study.study import Study
from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json


def describe_study(study: Study, path: str | Path, log: str | Path) -> None:
    """Write `study.json`, and in a sequential study the next look into it. All answers of the look exist by now.

    Recorded looks stay as they are. If the rule runs again, none of them is judged anew.
    """
    file = Path(path)
    study.describe(file, log)
    if study.looks is None:
        return
    record = read_recorded_looks(file)
    if record is not None and record.next_look is not None:
        # Imported only where a look is taken, because planning must stay quick.
        from reward_ablation.analysis.study_file import read_study
        from reward_ablation.design.looks import with_next_look

        record = with_next_look(read_study(file), file.parent, study.config.mixed_provenance == "refuse")
        write_json({**load_json(file.read_bytes()), "sequential": record.model_dump()}, file)
    with Path(log).open("a") as lines:
        lines.write(f"sequential seeds: {looks_text(record, study.question.contrasts)}\n")


def looks_line(study: Study, began: Sequence[Standing | None] = ()) -> str:
    """Which look is next, and which contrasts are open, as after the next start; empty for a study without looks.

    `began` has what stood declared when each of the study's runs began.
    """
    record = study.sequential
    if record is None:
        return ""
    coming = study.looks is not None and (study.known_looks is None or study.known_looks.key != study.looks.key)
    as_known = as_runs_say(record, "sequential", record.key, began)
    return f"sequential seeds: {looks_text(as_known, study.question.contrasts, coming)}"
