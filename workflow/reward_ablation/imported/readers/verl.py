"""verl: the JSONL files of `trainer.rollout_data_dir` and `trainer.validation_data_dir`, one for each step.

`reward-ablation import` calls it for rollouts and answers in the format `verl`.

A line has `input`, `output`, `gts`, `score` and `step`, and the further values that the reward function gave. The
trainer that is verl's default since version 0.9 writes such values in validation only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from reward_ablation.analysis.words import counted
from reward_ablation.config.base import Line, NonNegativeInt
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import found, parts
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row
from reward_ablation.imported.rows import Answers, Rollouts
from reward_ablation.system.errors import StudyError

#: Fields that are no scores of components.
FIELDS = ("input", "output", "gts", "score", "step", "uid", "request_id")

#: A `uid` of the form PROMPT_SESSION_OUTPUT, which tells the outputs of one agent's session apart.
PROMPT_SESSION_OUTPUT = re.compile(r".+_\d+_\d+")

#: verl's metrics, each with the TRL metric that means the same. `actor/ppo_kl` is no distance from the reference model.
METRICS = {
    "actor/entropy": "entropy",
    "actor/grad_norm": "grad_norm",
    "actor/kl_loss": "kl",
    "actor/lr": "learning_rate",
    "response_length/clip_ratio": "completions/clipped_ratio",
    "response_length/mean": "completions/mean_length",
}


class TrainingOptions(common.RolloutOptions):
    """Options of rollouts. `metrics` is the file of verl's file logger, by its path below the path of the run."""

    metrics: Line | None = None


class ValidationOptions(common.AnswerOptions):
    """Options of answers. `step` is the step of the validation; default: the last one."""

    step: NonNegativeInt | None = None


def read_rollouts(path: Path, options: Row) -> Rollouts:
    """Rollouts of training."""
    chosen = validate_spec(TrainingOptions, options, "rollouts")
    missing = [
        "verl's files have no numbers of tokens, no marks of cut completions, and no advantages.",
        "verl's files have no problem ids; a problem is its prompt.",
    ]
    rows, uids = [], []
    files: dict[int, Path] = {}
    for line, file in ((each, part) for part in parts(path, "*.jsonl") for each in common.records(part)):
        scores, total = line.scores(leave_out=FIELDS), line.score("score")
        rows.append({**_row(line), "total": total, "scores": scores, "further": {"score": total}})
        uids.append(_prompt_uid(line))
        if (other := files.setdefault(rows[-1]["step"], file)) != file:
            raise StudyError(f"{line.where}: step {rows[-1]['step']} is in {other}, too; take one of the two out")
    if several := _tell_groups_apart(rows, uids):
        missing.append(
            f"{counted(several, 'group')} of a prompt that occurs again in a step: each is a problem of its own."
        )
    fields = {name for row in rows for name in row["scores"]}
    if not fields:
        missing.append("The files have no scores of components; scores: {NAME: score} takes their sum as one.")
    if "overlong_reward" in fields:
        missing.append("verl's score leaves out DAPO's overlong penalty if compute_score returns a dictionary.")
    lines = common.records(path / chosen.metrics) if chosen.metrics else ()
    metrics = common.step_metrics(((line, line.inner("data")) for line in lines), METRICS)
    return common.rollouts(path, rows, chosen, missing, metrics)


def read_answers(path: Path, options: Row) -> Answers:
    """Answers of one validation. Without the option `metric`, `acc`, else `reward`, else the total is the metric."""
    chosen = validate_spec(ValidationOptions, options, "evaluation")
    steps = {file.stem: file for file in found(path, "*.jsonl") if file.stem.isdecimal() or path.is_file()}
    last = max(steps, key=lambda stem: (len(stem), stem), default=None)
    step = common.the_one(path, "step", steps, last if chosen.step is None else str(chosen.step))
    sessions: dict[str, Row] = {}
    for line in common.records(steps[step]):
        uid = line.label("uid") or ""
        # Of an agent's session, whose last output's score verl repeats for all; any other line is an answer of its own.
        session = uid.rpartition("_")[0] if PROMPT_SESSION_OUTPUT.fullmatch(uid) else line.where
        numbers = {**line.scores(leave_out=FIELDS), "score": line.score("score")}
        row = {**_row(line), "scores": numbers}
        sessions[session] = {**row, "question": row["prompt"]}
    rows, missing = list(sessions.values()), ["verl's files have no problem ids; a problem is its prompt."]
    several = len({row["problem_id"] for row in rows}) < len(rows)
    mode = common.mode_of(None, chosen, missing, several)
    here = {name for row in rows for name in row["scores"]}
    metric = chosen.metric or next((name for name in ("acc", "reward", "score") if name in here), None)
    return common.answers(path, [{**row, "mode": mode} for row in rows], metric, missing)


def _prompt_uid(line: Record) -> str | None:
    """The uid of a line's prompt; null where the trainer gave none."""
    uid = line.label("uid")
    return uid.rsplit("_", 2)[0] if uid and PROMPT_SESSION_OUTPUT.fullmatch(uid) else uid


def _tell_groups_apart(rows: list[Row], uids: list[str | None]) -> int:
    """Give further groups of a prompt in a step, by uid, an id of their own, if lines share uids; count them."""
    if None in uids or len(set(uids)) == len(uids):
        return 0
    seen: dict[tuple[int, str], list[str | None]] = {}
    further = 0
    for row, uid in zip(rows, uids, strict=True):
        of_prompt = seen.setdefault((row["step"], row["problem_id"]), [])
        if uid not in of_prompt:
            of_prompt.append(uid)
            further += len(of_prompt) > 1
        if index := of_prompt.index(uid):
            row["problem_id"] += f"-{index + 1}"
    return further


def _row(line: Record) -> Row:
    prompt, gold = line.text("input"), line["gts"]
    return {
        "step": line.whole("step"),
        "problem_id": common.prompt_id(prompt),
        "prompt": prompt,
        "completion": line.text("output"),
        "gold": gold if isinstance(gold, str | None) else json.dumps(gold, ensure_ascii=False),
    }
