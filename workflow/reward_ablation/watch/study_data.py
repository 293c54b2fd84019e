"""What the page shows of a study, as JSON: states and means that are new, and the completions of a run's step.

`reward-ablation watch` makes one `Watch` of the study. The server asks it for each answer, in threads that may run at
once, and `page` when it writes a file.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from reward_ablation.figures.style import COLOURS, DASHES
from reward_ablation.system.errors import StudyError
from reward_ablation.watch.rollout_files import UNREADABLE, RunRollouts

#: Seconds for which states are kept, and after which an answer reads no further run.
KEPT_SECONDS, READING_SECONDS = 4.0, 1.0
#: Most completions of an answer, and most characters of each of their texts.
MOST_ROWS, MOST_CHARACTERS = 1000, 20_000
#: Categories of characters that nobody sees, or that change how others are shown: control and format characters (such
#: as bidi marks), halves of characters, private and unassigned ones, and breaks of lines and paragraphs.
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


class RunState(NamedTuple):
    """The state of a run, in the words of `reward-ablation status`."""

    state: str
    done: float | None  # share of the run's steps, in [0, 1]; None where not known
    step: str  # `step 3 of 40`
    facts: str  # all that is known, names of machines and files included


class States(NamedTuple):
    """The states of all runs, in the study's order."""

    runs: list[RunState]
    counts: str  # `2 running, 1 done`
    lines: list[str]  # on evaluations, and on other jobs that failed


class Watch:
    """A study that is watched, `runs` by arm, seed and folder. `problems` has questions and golds. Threads may ask."""

    def __init__(
        self,
        name: str,
        components: list[str],
        arms: dict[str, dict[str, float]],
        runs: list[tuple[int, int, Path]],
        problems: Path,
        read_states: Callable[[], States],
    ):
        self.name = name
        self.about = {
            "name": name,
            "series": ["total reward", *components, "tokens"],  # a component may be called reward
            "arms": [_arm(number, arm, weights) for number, (arm, weights) in enumerate(arms.items())],
            "runs": [{"arm": arm, "seed": seed} for arm, seed, _ in runs],
        }
        self.columns = ["total", *(f"score_{component}" for component in components), "tokens"]
        self.rollouts = [RunRollouts(folder, self.columns) for _, _, folder in runs]
        self.problems = problems
        self.read_states = read_states
        self.epoch = secrets.token_hex(8)  # pages of an earlier server have rows that this one does not know
        self._states: tuple[float, States] | None = None
        self._sent: list[list[Any]] = []  # all entries of `points` so far
        self._lock = threading.Lock()

    def states(self) -> States:
        """The states, which may be some seconds old."""
        if self._states is None or time.monotonic() - self._states[0] > KEPT_SECONDS:
            try:
                self._states = (time.monotonic(), self.read_states())
            except (OSError, StudyError):  # a run may remove a file while the states are read
                if self._states is None:
                    raise
        return self._states[1]

    def answer(self, since: int) -> dict[str, Any]:
        """States, and means that are new since an answer whose `next` was `since`; `more` says to ask at once."""
        # Entries of `points` are `[run, step, mean of each series]`; an entry `[run]` makes the run's earlier ones
        # void.
        with self._lock:
            more, states = self.look(), self.states()
            return {
                **{"epoch": self.epoch, "next": len(self._sent), "more": more, "points": self._sent[max(0, since) :]},
                **{"now": time.strftime("%H:%M:%S"), "counts": states.counts, "lines": states.lines},
                "states": [[run.state, run.done, run.facts] for run in states.runs],
                **({} if since else {"about": self.about}),
            }

    def look(self) -> bool:
        """Read what is new in the files of runs, for about a second; whether more may be left."""
        until = time.monotonic() + READING_SECONDS
        for number, rollouts in enumerate(self.rollouts):
            void, steps, more = rollouts.look()
            self._sent += [[number]] * void
            self._sent += [[number, step, *rounded(rollouts.means[step])] for step in steps]
            if more or time.monotonic() > until:
                return True
        return False

    def rows(self, run: int, step: int, most: int = MOST_ROWS, characters: int = MOST_CHARACTERS) -> dict[str, Any]:
        """Completions of a run's step: at most so many, evenly among all, with so many characters of each text."""
        with self._lock:
            rows = self.rollouts[run].rows(step)
        chosen = rows if len(rows) <= most else [rows[number * len(rows) // most] for number in range(most)]
        texts = self._texts({row.get("problem_id") for row in chosen if "prompt" not in row})
        shown = []
        for row in chosen:
            question, gold = texts.get(row.get("problem_id"), (None, None))
            written = (row.get("completion"), row.get("prompt", question), row.get("gold", gold))
            values = rounded(row.get(name) for name in self.columns)
            shown.append([values, bool(row.get("truncated")), *(visible(text, characters) for text in written)])
        return {"all": len(rows), "rows": shown}

    def _texts(self, problems: set[Any]) -> dict[Any, tuple[str, str]]:
        """Question and gold of problems, by identifier; none where the training set cannot be read."""
        try:
            columns = ["id", "question", "answer"]
            found = pq.read_table(self.problems, columns=columns, filters=[("id", "in", problems)])
        except UNREADABLE:
            return {}
        return {row["id"]: (row["question"], row["answer"]) for row in found.to_pylist()}


def _arm(number: int, name: str, weights: dict[str, float]) -> dict[str, str]:
    """An arm with weights, colour and dashes as in figures, which give dashes in widths of a line; here that is 2."""
    dashes: Any = DASHES[number % len(DASHES)]
    return {
        "name": name,
        "weights": ", ".join(f"{part} {weight:g}" for part, weight in weights.items() if weight) or "no weights",
        "colour": COLOURS[number % len(COLOURS)],
        "dash": "" if dashes == "solid" else " ".join(f"{2 * length:g}" for length in dashes[1]),
    }


def rounded(values: Iterable[Any]) -> list[float | None]:
    """Numbers with four digits; None for what is no finite number."""
    return [
        float(f"{value:.4g}") if isinstance(value, int | float) and math.isfinite(value) else None for value in values
    ]


def visible(text: Any, most: int) -> str:
    """A text whose invisible characters are written as `<U+202E>`, and which ends with a note if it is cut."""
    whole = "" if text is None else str(text)
    shown = whole[:most]
    strange = (char for char in set(shown) if char not in "\n\t" and unicodedata.category(char) in INVISIBLE)
    note = f" [cut: {most:,} of {len(whole):,} characters are shown]" if len(whole) > most else ""
    return shown.translate({ord(char): f"<U+{ord(char):04X}>" for char in strange}) + note
