"""TRL's own check of a study's training settings before its first job; what has passed is not checked again."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from pathlib import Path

from reward_ablation.config.trl_settings import check_version
from reward_ablation.start.report_pages import installed
from reward_ablation.study.canonical import canonical
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path

#: In the results folder: a digest of what has passed, and of the packages and the code that it has passed with.
PASSED = ".settings_passed"


def check_training_settings(study: Study, folder: Path) -> None:
    """Have TRL check every distinct set of training settings and processes, in a process of its own.

    Importing TRL takes seconds: what it has passed for a start of this study is remembered in its results folder.

    Parameters
    ----------
    study : Study
    folder : Path
        The results folder.

    Raises
    ------
    StudyError
        TRL refuses one, or is not the version that the workflow needs.
    """
    check_version()
    settings = "\n".join(study.training_settings)
    packages = canonical({"python": sys.version, **installed()})
    asked = "\0".join([settings, packages, code_digest("reward_ablation.start.ask_trl")])
    digest = hashlib.sha256(asked.encode()).hexdigest()
    record = folder / PASSED
    if record.is_file() and record.read_text() == digest:
        return
    command = [sys.executable, "-m", "reward_ablation.start.ask_trl"]
    result = subprocess.run(command, input=settings, text=True, capture_output=True)
    if result.returncode:
        last_line = (result.stderr.strip().splitlines() or ["the check of the training settings died"])[-1]
        raise StudyError(last_line.removeprefix("error: "))
    with contextlib.suppress(OSError), atomic_path(record) as temporary:  # a folder that refuses is told of elsewhere
        temporary.write_text(digest)
