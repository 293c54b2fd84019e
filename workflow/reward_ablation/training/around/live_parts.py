"""What a run's trainer gives its measurements to (its sink): it writes them in parts, and shows the rollouts meanwhile.

`run` makes one in each process. It is apart from `parts`, on which checkpoints depend: a change here leaves checkpoints
usable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from accelerate.utils import gather_object

from reward_ablation.sampling.prompts import render_prompt
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.live_rollouts import append_rollouts
from reward_ablation.training.around.parts import PartWriter


class LivePartWriter(PartWriter):
    """A `PartWriter` that also appends rollouts, with `texts` of problems by id, to `rollouts.jsonl`, for `watch`."""

    def __init__(self, work: Path, process: int, texts: Mapping[str, dict[str, Any]]):
        super().__init__(work / "parts", process)
        self.work = work
        self.texts = texts
        self._rollouts: list[pa.Table] = []
        self.last_rows: list[dict[str, Any]] = []  # in the first process: rows of the last step that generated any

    def add(self, name: str, table: pa.Table, step: int) -> None:
        super().add(name, table, step)
        if name == "rollouts":
            self._rollouts.append(table)

    def end_step(self) -> None:
        super().end_step()
        if not self._rollouts:  # the same in all processes: the step trains on rollouts of an earlier step
            return
        tables, self._rollouts = gather_object(self._rollouts), []
        if self.process == 0:
            self.last_rows = [row for table in tables for row in table.to_pylist()]
            append_rollouts(self.work, [row | self.texts.get(row["problem_id"], {}) for row in self.last_rows])


def texts_of_problems(problems: Path, spec: RunSpec) -> dict[str, dict[str, Any]]:
    """Of each prepared problem, by its id: `prompt`, the text of the user's turn, and `gold`, the right answer."""
    rows = pq.read_table(problems, columns=["id", "question", "answer"]).to_pylist()
    prompts = [render_prompt(row["question"], spec.prompt) for row in rows]
    asked = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
    return {row["id"]: {"prompt": text, "gold": row["answer"]} for row, text in zip(rows, asked, strict=True)}
