"""The training command without its training: what lays a run out is shown with it, at once and on any machine."""

from __future__ import annotations

from pathlib import Path

#: What a run's own process ends with where it would begin to train.
ENDS = "import of reward_ablation.training.around.run halted"

SITE = """
import sys
if "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1] == "reward_ablation.training":
    sys.modules["reward_ablation.training.around.run"] = None
"""


def make_no_training(folder: Path) -> None:
    """Write what each Python that finds this folder reads at its start."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITE)
