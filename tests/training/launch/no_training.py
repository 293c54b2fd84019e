"""The training command without training. It shows the layout of a run at once and on any machine."""

from __future__ import annotations

from pathlib import Path

#: What a run's own process ends with where it would begin to train.
ENDS = "import of reward_ablation.training.around.run halted"

#: A process of several leaves a mark and waits until all have: the first that ends has the launcher end the others.
SITE = """
import os, sys, time
if "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1] == "reward_ablation.training":
    sys.modules["reward_ablation.training.around.run"] = None
    if "RANK" in os.environ:
        marks = [os.path.join(os.path.dirname(__file__), f"rank{n}") for n in range(int(os.environ["WORLD_SIZE"]))]
        open(marks[int(os.environ["RANK"])], "w").close()
        while not all(map(os.path.exists, marks)):
            time.sleep(0.05)
"""


def make_no_training(folder: Path) -> None:
    """Write what each Python that finds this folder reads at its start."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITE)
