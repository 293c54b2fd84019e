"""`python -m reward_ablation.figures`, but what is written of each drawn figure is a blank page and its caption.

Rendering takes nine tenths of the time of all figures.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures import __main__ as figures
from reward_ablation.system.errors import one_line_errors


def save_blank(figure: Figure, paper: Figure, name: str, study: StudyFile, output: Path) -> None:
    (output / "pages").mkdir(parents=True, exist_ok=True)
    blank = Figure((3, 2))
    for file in figures.files_of(name):
        if file.endswith(".txt"):
            (output / file).write_text(figures.take_caption(paper) + "\n")
        else:
            blank.savefig(output / file)


if __name__ == "__main__":
    figures.save = save_blank
    with one_line_errors():
        figures.main()
