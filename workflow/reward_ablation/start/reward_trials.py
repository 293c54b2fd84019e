"""The batch with which a user's own reward functions are called once before the first job: a problem, and completions.

So a mistake in a function shows before a GPU is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.config.sections.data import WordProblems, further_columns
from reward_ablation.data.problems import PrepareSpec, normalised
from reward_ablation.data.sources import load
from reward_ablation.rewards.columns import decoded, json_columns
from reward_ablation.rewards.trial import Trial, made_up_completions
from reward_ablation.sampling.prompts import render_prompt
from reward_ablation.start.data_files import LARGEST, TEXTS
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

#: Completions of the group where the config has no valid number: TRL's default.
GROUP = 8
#: Most completions of the call, so that a plan does not wait for a slow function.
MOST = 64


def trial_of(study: Study) -> Trial:
    """A group of completions of the first problem of the training set.

    The problem is made up if reading the set needs a download, takes long, or fails. Errors on it are warnings.
    """
    config = study.config
    problem = _prepared(study.root / config.root / study.problems_file) or _of_source(study)
    made_up = problem is None
    problem = problem or _made_up(study)
    wanted = config.training.get("num_generations")
    number = min(wanted, MOST) if isinstance(wanted, int) and wanted > 0 else GROUP
    texts = made_up_completions(problem["answer"] or problem["question"], number)
    completions = [[{"role": "assistant", "content": text}] for text in texts] if config.prompt.chat else texts
    row = {
        "prompts": render_prompt(problem["question"], config.prompt),
        "problem_id": problem["id"],
        **{name: value for name, value in problem.items() if name != "id"},
    }
    columns: dict[str, list[Any]] = {name: [value] * len(texts) for name, value in row.items()}
    tokens = [list(range(1, len(text.split()) + 2)) for text in texts]  # at least an end token
    return Trial({**columns, "completions": completions, "completion_ids": tokens}, made_up)


def _prepared(path: Path) -> dict[str, Any] | None:
    """The first problem of a prepared set; None if it is not there."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return None
    with pq.ParquetFile(path) as file:
        rows = next(file.iter_batches(batch_size=1)).to_pylist()
        objects = json_columns(file.schema_arrow)
    return {name: decoded([value])[0] if name in objects else value for name, value in rows[0].items()}


def _of_source(study: Study) -> dict[str, Any] | None:
    """The first problem that will be prepared, of a set that is quickly read: generated, or a small local text file.

    A small Parquet file can need much memory.
    """
    spec = PrepareSpec.model_validate_json(study.train_data_spec)
    file = Path(getattr(spec.source, "path", None) or "")
    is_small = file.suffix.lower() in TEXTS and file.is_file() and file.stat().st_size <= LARGEST
    if not (is_small or isinstance(spec.source, WordProblems)):
        return None
    try:
        rows = normalised(load(spec.source, spec.golds), str(file), further_columns(spec.source))
    except StudyError:  # the job that prepares the set tells it
        return None
    return next((row for row in rows if row["answer"] or not spec.golds), None)


def _made_up(study: Study) -> dict[str, Any]:
    """A problem with the training set's columns."""
    further = dict.fromkeys(further_columns(study.config.data.train), "made up")
    texts = {"id": "made-up/0", "question": "What is 6 times 7?", "answer": "42", "solution": "6 times 7 is 42."}
    others = {"source": study.config.data.train.source, "split": "train", "level": None, "subject": None}
    return {**texts, **others, **further}
