"""Answers of evaluated models, checked to be answers to the same questions, and written as this project's files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from reward_ablation.imported.config import Source
from reward_ablation.imported.readers import reader
from reward_ablation.imported.rows import Answers, checked
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet

#: Metrics that every study has where the answers have them; they are in the file of answers, other metrics in that of
#: scores.
OF_ALL_TASKS = ("tokens", "truncated")

#: The metric of right and wrong answers.
CORRECT = "correct"


class Evaluation:
    """Answers of all models to one set of questions.

    `files` has the files by arm and seed; `names` has the name of each model's run.
    """

    def __init__(self, dataset: str, files: dict[tuple[str, int | None], Source]):
        self.dataset = dataset
        self.answers = {model: _read(source) for model, source in files.items()}
        first, *others = self.answers
        for other in others:
            _check_same(self.answers[first].table, self.answers[other].table, files[first].path, files[other].path)
        common = [set(answers.metrics) for answers in self.answers.values()]
        self.metrics = [name for name in self.answers[first].metrics if all(name in each for each in common)]
        self.unmeasured = [name for name in OF_ALL_TASKS if name not in self.metrics or self._unknown(name)]
        self.own = [CORRECT, *(name for name in self.metrics if name not in OF_ALL_TASKS)]

    def _unknown(self, name: str) -> bool:
        return any(answers.table[name].null_count for answers in self.answers.values())

    @property
    def missing(self) -> list[str]:
        """Sentences on what the files lack."""
        words = [sentence for answers in self.answers.values() for sentence in answers.missing]
        lost = {name for answers in self.answers.values() for name in answers.metrics} - set(self.metrics)
        words += [f"The metric {name} is left out: some models' answers lack it." for name in sorted(lost)]
        if self.unmeasured:
            words.append(
                f"The answers do not have {' and '.join(self.unmeasured)} of each answer, so these are left out."
            )
        if ("base", None) not in self.answers:
            words.append("The model before training was not evaluated: nothing says how far training moved any arm.")
        return list(dict.fromkeys(words))

    @property
    def modes(self) -> list[str]:
        """Modes of the answers: greedy, sampled or both."""
        return sorted(set(next(iter(self.answers.values())).table["mode"].to_pylist()))

    def write(self, folder: Path, names: dict[tuple[str, int | None], str]) -> None:
        """Write answers, scores and questions below a results folder."""
        for model, answers in self.answers.items():
            table, name = answers.table, f"{names[model]}/{self.dataset}.parquet"
            labels = {column: table[column] for column in ("problem_id", "mode", "sample")}
            known = {
                column: table[column] if column not in self.unmeasured else pa.nulls(len(table), pa.float64())
                for column in OF_ALL_TASKS
            }
            write_parquet(
                pa.table({**labels, "completion": table["completion"], **known}), folder / "evaluation" / name
            )
            scores = {metric: table[metric].cast(pa.float64()) for metric in self.own}
            write_parquet(pa.table({**labels, **scores}), folder / "scores" / name)
        first = next(iter(self.answers.values())).table.to_pandas().drop_duplicates("problem_id")
        columns = {"id": "problem_id", "question": "question", "answer": "gold", "level": "level", "subject": "subject"}
        schema = pa.schema([(name, pa.string()) for name in columns])
        questions = pa.Table.from_pandas(first.rename(columns={of: name for name, of in columns.items()}), schema)
        write_parquet(questions, folder / "data" / "evaluation" / f"{self.dataset}.parquet")


def _read(source: Source) -> Answers:
    read: Answers = reader(source.format).read_answers(source.path, source.options)
    return Answers(checked("answers", read.table, str(source.path)), read.missing)


def _check_same(one: pa.Table, other: pa.Table, one_path: Path, other_path: Path) -> None:
    """Refuse models that answered other questions, or not as often: they could not be compared question by question."""
    labels = [
        {tuple(row.values()) for row in table.select(["problem_id", "mode", "sample"]).to_pylist()}
        for table in (one, other)
    ]
    apart = labels[0] ^ labels[1]
    if apart:
        problem, mode, sample = min(apart)
        lacks, has = (other_path, one_path) if (problem, mode, sample) in labels[0] else (one_path, other_path)
        raise StudyError(
            f"{lacks}: no {mode} answer {sample} to {problem}, which {has} has ({len(apart)} answers differ); "
            "evaluate all models on the same questions, equally often"
        )
