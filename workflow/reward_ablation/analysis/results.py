"""Tables of finished studies as data frames.

Users call `load` in scripts of their own, and the command of the report reads its tables here, too::

    from reward_ablation.analysis.results import load

    study = load("results/demo")
    study["paired_differences"]              # a data frame
    study.columns("paired_differences")      # unit and meaning of each column
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import column_names, read_table
from reward_ablation.analysis.registry import TABLES, file_of
from reward_ablation.analysis.study_file import StudyFile, as_its_runs_say, read_study
from reward_ablation.study.run_folder import DESCRIPTION
from reward_ablation.system.errors import StudyError

#: Unit and meaning of the columns of all tables, by the column's name.
COLUMNS = Path(__file__).with_name("columns.csv")


class Results:
    """Tables of a finished study, by name: `results["paired_differences"]` is a data frame.

    Attributes
    ----------
    folder : Path
        The study's results folder.
    study : StudyFile
        Content of `study.json`. Times of declarations are those that the runs have on record.
    names : list of str
        Names of the tables that the study has.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study: StudyFile = as_its_runs_say(read_study(folder / DESCRIPTION), folder)

    @property
    def names(self) -> list[str]:
        """Names of the tables that the study has."""
        return [name for name in TABLES if (self.folder / "tables" / file_of(name)).is_file()]

    def __getitem__(self, name: str) -> pd.DataFrame:
        """A table as a data frame, the same rows and columns as in its file.

        Raises
        ------
        StudyError
            No table has this name, or its file is missing or damaged.
        """
        return read_table(self.path_of(name))

    def path_of(self, name: str) -> Path:
        """The file of a table. Raises StudyError if no table has this name."""
        if name not in TABLES:
            raise StudyError(f"{name!r}: no table has this name; tables here: {', '.join(self.names)}")
        return self.folder / "tables" / file_of(name)

    def columns(self, name: str) -> pd.DataFrame:
        """Unit and meaning of each column of a table: a data frame with one row per column of the table."""
        meanings = pd.read_csv(COLUMNS, index_col="column", keep_default_na=False)
        return meanings.loc[column_names(self.path_of(name))]


def load(folder: str | Path) -> Results:
    """The tables of a finished study.

    Parameters
    ----------
    folder : str or Path
        The study's results folder, such as `results/demo`; it has `study.json`.

    Raises
    ------
    StudyError
        The folder has no `study.json`, or this is damaged.
    """
    return Results(Path(folder))
