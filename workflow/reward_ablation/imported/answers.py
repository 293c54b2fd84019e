"""Answers of evaluated models, checked to be answers to the same questions, and written as this project's files.

`results` makes an `Evaluation` of all files of answers that the YAML names.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from reward_ablation.imported.alike import digest_of, model_name
from reward_ablation.imported.config import Source
from reward_ablation.imported.readers import reader
from reward_ablation.imported.rows import Answers, check_ids, checked
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet

#: Metrics of every study, where measured. They are in the files of answers, all other metrics in the files of scores.
OF_ALL_TASKS = ("tokens", "truncated")

#: The order in which answers of two models are compared.
ORDER = [("problem_id", "ascending"), ("mode", "ascending"), ("sample", "ascending")]

#: What is compared of the questions of two models: the text and the right answer, by identifier.
QUESTION = ["problem_id", "question", "gold"]

#: The metric of right and wrong answers.
CORRECT = "correct"


class Evaluation:
    """Answers of all models to one set of questions. All have the same identifiers, modes and samples as the first."""

    def __init__(self, dataset: str, files: dict[tuple[str, int | None], Source]):
        self.dataset = dataset
        self.answers = {model: _read(source) for model, source in files.items()}
        first, *others = self.answers
        self.doubts: list[str] = []
        for other in others:
            tables, sources = (self.answers[first].table, self.answers[other].table), (files[first], files[other])
            _check_same(*tables, *(source.path for source in sources))
            self.doubts += _check_questions(tables, sources, (model_name(*first), model_name(*other)))
        self.doubts += _equal_answers(self.answers)
        common = [set(answers.metrics) for answers in self.answers.values()]
        self.metrics = [name for name in self.answers[first].metrics if all(name in each for each in common)]
        self.unmeasured = [name for name in OF_ALL_TASKS if name not in self.metrics or self._unknown(name)]
        self.own = [CORRECT, *(name for name in self.metrics if name not in OF_ALL_TASKS)]  # in the files of scores

    def _unknown(self, name: str) -> bool:
        return any(answers.table[name].null_count for answers in self.answers.values())

    @property
    def missing(self) -> list[str]:
        """Sentences on what the files lack, and on what may be wrong in them."""
        words = [sentence for answers in self.answers.values() for sentence in answers.missing] + self.doubts
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
    def questions(self) -> set[str]:
        """The texts of all questions."""
        return set(next(iter(self.answers.values())).table["question"].to_pylist())

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
        questions = pa.Table.from_pandas(first.rename(columns={own: name for name, own in columns.items()}), schema)
        write_parquet(questions, folder / "data" / "evaluation" / f"{self.dataset}.parquet")


def _read(source: Source) -> Answers:
    read: Answers = reader(source.format).read_answers(source.path, source.options)
    table = checked("answers", read.table, str(source.path))
    varied = check_ids(table, "question", str(source.path), source.format != "table")
    return Answers(table, [*read.missing, *varied])


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
            f"{lacks}: no scored {mode} answer {sample} to {problem}, which {has} has ({len(apart)} answers differ); "
            "evaluate all models on the same questions, equally often"
        )


def _check_questions(
    tables: tuple[pa.Table, pa.Table], sources: tuple[Source, Source], names: tuple[str, str]
) -> list[str]:
    """Refuse questions that differ under the same identifiers; a sentence where they may be the same questions."""
    # Other formats may write an answer, or a prompt, in another way.
    one, other = ({row["problem_id"]: row for row in table.select(QUESTION).to_pylist()} for table in tables)
    one_path, other_path = (source.path for source in sources)
    golds = [(name, row["gold"], other[name]["gold"]) for name, row in one.items()]
    differ = [each for each in golds if None not in each and each[1] != each[2]]
    if differ and sources[0].format == sources[1].format:
        problem, gold, other_gold = differ[0]
        raise StudyError(
            f"{other_path}: the right answer to {problem} is {other_gold!r:.40}, and {gold!r:.40} in {one_path}; "
            "evaluate all models on the same questions"
        )
    texts = {row["question"] for row in one.values()}
    apart = [other[name] for name, row in one.items() if row["question"] != other[name]["question"]]
    if moved := [row for row in apart if row["question"] in texts]:
        raise StudyError(
            f"{other_path}: {moved[0]['problem_id']} is {moved[0]['question']!r:.40}, which has another id in "
            f"{one_path}; give each question one id in the answers of all models"
        )
    if len(apart) == len(one) and all(None in each for each in golds):
        raise StudyError(
            f"{other_path}: all questions have another text than in {one_path}, and no right answers show that they "
            "are the same; evaluate all models on the same questions"
        )
    words = {"other texts": len(apart), "right answers of another form": len(differ)}
    return [
        f"{count} of {len(one)} questions have {what} in the answers of {names[1]} than in those of {names[0]}."
        for what, count in words.items()
        if count
    ]


def _equal_answers(answers: dict[tuple[str, int | None], Answers]) -> list[str]:
    """A sentence for models with the same answers throughout: a file may have been named or copied twice."""
    first: dict[bytes, str] = {}
    words = []
    for model, read in answers.items():
        columns = [CORRECT, *read.metrics] if read.table["completion"].null_count else ["completion"]
        digest, name = digest_of(read.table.sort_by(ORDER), columns), model_name(*model)
        if digest is not None and first.setdefault(digest, name) != name:
            words.append(f"{name} and {first[digest]} have the same answers throughout: is each file of its own model?")
    return words
