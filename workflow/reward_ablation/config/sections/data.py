"""Data sets for training and evaluation, and how their questions become prompts: the keys `data` and `prompt`.

`config.study_config` has them in the config. The jobs that prepare data, render prompts or train read their specs by
the same classes.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from reward_ablation.config.base import COMMIT, NAME_PATTERN, Line, Name, PositiveInt, Section, Seed

#: Commits on the hub that are used if a config names none. Those of a run's data are part of its spec.
REVISIONS = {
    "gsm8k": "cc7b047b6e5bb11b4f1af84efc572db110a51b3c",  # openai/gsm8k
    "math": "0530c78699ea5e8eb5530600900e1f328b48acad",  # DigitalLearningGmbH/MATH-lighteval
    "math500": "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",  # HuggingFaceH4/MATH-500
    "mbpp": "4bb6404fdc6cacfda99d4ac4205087b89d32030c",  # google-research-datasets/mbpp
    "humaneval": "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",  # openai/openai_humaneval
    "ifeval": "966cd89545d6b6acfd7638bc708b98261ca58e84",  # google/IFEval
}

KnownSource = Literal["gsm8k", "math", "math500", "mbpp", "humaneval", "ifeval"]
Split = Literal["train", "test", "validation", "prompt"]

#: Splits of each known data set.
SPLITS: dict[str, tuple[str, ...]] = {
    "gsm8k": ("train", "test"),
    "math": ("train", "test"),
    "math500": ("test",),
    "mbpp": ("train", "test", "validation", "prompt"),
    "humaneval": ("test",),
    "ifeval": ("train",),
}

#: Columns of known data sets besides those that all problems have. These data sets have no answers to compare with.
FURTHER_COLUMNS: dict[str, tuple[str, ...]] = {
    "mbpp": ("unit_tests",),
    "humaneval": ("code_before", "unit_tests"),
    "ifeval": ("instructions",),
}

#: Columns of all problems that a user's file may have. The workflow writes the other two, `source` and `split`.
OF_FILES = ("id", "question", "answer", "solution", "level", "subject")

#: Names that a further column cannot have: the workflow or TRL's trainer writes these columns, or gives them a meaning.
TAKEN_COLUMNS = (
    *("problem_id", "source", "split"),
    *("prompt", "prompts", "completion", "completions", "completion_ids"),
    *("trainer_state", "log_extra", "log_metric"),
    *("image", "images", "environment", "environments"),
)


Switch = Literal["refuse", "drop"]


class DataSet(Section):
    """Keys that every data set has."""

    limit: PositiveInt | None = Field(None, description="Keep only the first rows.")
    too_long: Switch = Field(
        "refuse",
        description="Only of data.train: problems whose prompt and max_completion_length do not fit into the model's "
        "context; drop leaves them out.",
    )


class HubData(DataSet):
    """A data set known to the workflow, from the hub at a pinned revision or from a local file."""

    source: KnownSource
    split: Split
    revision: str | None = Field(
        None, pattern=COMMIT, description="Commit hash on the hub; without it the one that this workflow pins."
    )
    path: Line | None = Field(None, description="A local copy in the hub's format, instead of the hub.")

    @model_validator(mode="before")
    @classmethod
    def _pin(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("path") is None and data.get("revision") is None:
            return {**data, "revision": REVISIONS.get(data.get("source", ""))}
        return data

    @model_validator(mode="after")
    def _has_the_split(self) -> HubData:
        if self.source == "math500" and self.split != "test":
            raise ValueError("split: math500 has the split test only; MATH's training problems are source: math")
        if self.split not in (splits := SPLITS[self.source]):
            raise ValueError(f"split: {self.source} has no split {self.split}; allowed: {', '.join(splits)}")
        return self


class FileData(DataSet):
    """A user's own problems: JSON, JSON Lines, CSV or Parquet."""

    source: Literal["file"]
    path: Line
    columns: dict[Name, Line | None] = Field(
        default_factory=dict,
        description="Our column: the file's column, or a field in it, such as reward_model.ground_truth or "
        "prompt.0.content. id, question, answer, solution, level and subject keep their names where they are left out. "
        "Any other name is a further column for components. answer: null says that the problems have no answers.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _can_be_columns(cls, columns: Any) -> Any:
        for ours, theirs in columns.items() if isinstance(columns, dict) else ():
            if ours in TAKEN_COLUMNS:
                raise ValueError(f"'{ours}' is a column of the workflow; give the further column another name")
            if not re.fullmatch(NAME_PATTERN, str(ours)) or len(str(ours)) > 80:
                raise ValueError(
                    f"{str(ours)[:80]!r} is no name of a column: letters, digits and _, with a letter first"
                )
            if theirs is None and ours != "answer":
                raise ValueError(f"{ours}: name the file's column; only answer can be null")
        return columns


#: Problems of each split of the word problems, for any seed.
WORD_PROBLEMS = {"train": 8040, "test": 8189}


class WordProblems(DataSet):
    """Deterministic GSM8K-style problems of one or two steps, generated by the workflow."""

    source: Literal["word_problems"]
    count: PositiveInt
    seed: Seed = 0
    split: Literal["train", "test"] = Field(
        description="The two splits, and the demo model's warm start, share no question."
    )

    @model_validator(mode="after")
    def _exist(self) -> WordProblems:
        if self.count > (most := WORD_PROBLEMS[self.split]):
            raise ValueError(f"count: the {self.split} split has {most} problems, not {self.count}; ask for fewer")
        return self


ProblemSource = Annotated[HubData | FileData | WordProblems, Field(discriminator="source")]


def further_columns(source: ProblemSource) -> tuple[str, ...]:
    """Columns of a prepared set besides those of every problem, sorted. They are known before the data are read."""
    if isinstance(source, FileData):
        return tuple(sorted({*source.columns} - {*OF_FILES}))
    return FURTHER_COLUMNS.get(source.source, ())


def has_answers(source: ProblemSource) -> bool:
    """Whether a source may have answers. A file may, unless the config says `answer: null`."""
    if isinstance(source, FileData):
        return source.columns.get("answer", "answer") is not None
    return source.source not in FURTHER_COLUMNS


class Data(Section):
    """The training set and the evaluation sets."""

    train: ProblemSource
    evaluation: dict[Name, ProblemSource] = Field(min_length=1)
    duplicates: Switch = Field("refuse", description="Questions that occur twice in one data set.")
    overlap: Switch = Field(
        "refuse",
        description="Training questions that also occur in an evaluation set; drop takes them out of training.",
    )

    @model_validator(mode="after")
    def _only_training_drops(self) -> Data:
        for name, source in self.evaluation.items():
            refuse_too_long(source, f"evaluation.{name}.")
        return self


def refuse_too_long(source: ProblemSource, where: str = "") -> None:
    """Refuse the key `too_long` of a set that is not trained on by GRPO."""
    if "too_long" in source.model_fields_set:
        raise ValueError(f"{where}too_long: only data.train has this key; take it out, and long questions as well")


def test_set_warnings(data: Data) -> list[str]:
    """A warning if the training set is the test split of a known data set, or IFEval; else an empty list."""
    train = data.train
    # IFEval's only split is called train, but models are judged on it.
    if not isinstance(train, HubData) or (train.split != "test" and train.source != "ifeval"):
        return []
    source = "math" if train.source == "math500" else train.source
    others = ", and on the 500 of MATH-500, which are among MATH's test problems," if train.source == "math" else ""
    has_training_split = source != "ifeval" and "train" in SPLITS[source]
    advice = f"; source: {source}, split: train has problems to train on" if has_training_split else ""
    return [
        f"data.train: training on test problems: {train.source} is a public benchmark; numbers on it{others} say "
        f"nothing of what a model can do, nor compare with anybody else's{advice}"
    ]


class Prompt(Section):
    """How a question becomes a prompt."""

    system: str | None = Field(None, description="System message; needs chat.")
    template: str = Field("{question}", description="User message; {question} stands for the question.")
    chat: bool = Field(True, description="Use the tokenizer's chat template; false: the bare template.")
    date: str = Field("2024-07-26", description="What a chat template that asks for today's date gets.")

    @field_validator("template")
    @classmethod
    def _has_question(cls, template: str) -> str:
        if template.count("{question}") != 1:
            raise ValueError("must contain {question} exactly once")
        return template

    @field_validator("date")
    @classmethod
    def _is_a_date(cls, date: str) -> str:
        try:
            if datetime.strptime(date, "%Y-%m-%d").strftime("%Y-%m-%d") == date:
                return date
        except ValueError:
            pass
        raise ValueError(f"{date!r} is no date; write it as '2024-07-26', in quotes")

    @model_validator(mode="after")
    def _system_needs_chat(self) -> Prompt:
        if self.system is not None and not self.chat:
            raise ValueError("system needs chat: true; without it, write the text into template")
        return self
