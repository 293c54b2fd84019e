"""prime-rl and verifiers: saved rollouts, each with the value of each reward function.

`reward-ablation import` calls it for the formats `prime_rl` and `verifiers`, which share their files.

prime-rl writes `rollouts/step_N/train/effective/traces.jsonl`, whose lines are episodes with traces, or traces before
version 0.8.1; before 0.7 it wrote `train_rollouts.jsonl` in the form of verifiers' `results.jsonl`. verifiers writes
evaluations as `traces.jsonl`, and until version 0.3 also as `results.jsonl`.

An episode is an attempt at a problem, in which each agent has a trace: a list of nodes, which are messages. `effective`
are the rollouts that prime-rl's filters left, on which it trained.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from reward_ablation.config.base import Line
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import found
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row
from reward_ablation.imported.rows import Answers, Rollouts
from reward_ablation.system.errors import StudyError

#: Files of training, in the folder of a run.
TRAINING = ("rollouts/step_*/train/effective/traces.jsonl", "rollouts/step_*/train_rollouts.jsonl")

#: Files of an evaluation, in the folder of an evaluation or of a step.
EVALUATIONS = ("traces.jsonl", "results.jsonl", "eval/effective/traces.jsonl")

#: Version of verifiers' traces.
VERSION = 1

#: Why verifiers stops a rollout that did not end by itself.
LIMITS = (
    "max_turns",
    "max_input_tokens",
    "max_output_tokens",
    "max_total_tokens",
    "context_length",
    "compaction_failed",
)

#: prime-rl's metrics, each with the TRL metric that means the same.
METRICS = {
    "entropy/all/mean": "entropy",
    "loss/mean": "loss",
    "optim/grad_norm": "grad_norm",
    "optim/lr": "learning_rate",
}


class TrainingOptions(common.RolloutOptions):
    """Options of rollouts. `agent` is the agent whose rollouts are read, where an environment trains several."""

    agent: Line | None = None


class EvaluationOptions(common.AnswerOptions):
    """Options of answers. `agent` is the agent whose answers count, where an environment has several."""

    agent: Line | None = None


def read_rollouts(path: Path, options: Row) -> Rollouts:
    """Rollouts on which prime-rl trained."""
    chosen = validate_spec(TrainingOptions, options, "rollouts")
    missing: list[str] = []
    rows: list[Row] = []
    for file in found(path, *TRAINING):
        step = re.search(r"/step_(\d+)/", file.as_posix())
        if not step:
            raise StudyError(f"{file}: it is in no folder step_N; name the folder of the run")
        if file.name == "traces.jsonl":
            missing.append("prime-rl's effective rollouts lack those that failed, or that a filter took out.")
        else:
            missing.append("prime-rl counted steps from 0 before 0.7; here they count from 1.")
        trl_step = int(step[1]) + (file.name != "traces.jsonl")
        rows += [{**row, "step": trl_step} for row in _rows(file, chosen.agent, missing)]
    if any(math.isnan(row["advantage"]) for row in rows):
        missing.append("Some rollouts have no advantage, or several.")
    log = path / "metrics.jsonl"
    lines = [(line, line) for line in common.records(log)] if log.is_file() else []
    return common.rollouts(path, rows, chosen, missing, common.step_metrics(lines, METRICS))


def read_answers(path: Path, options: Row) -> Answers:
    """Answers of one evaluation. Each reward and metric is a metric; `reward` is the weighted sum of the rewards."""
    chosen = validate_spec(EvaluationOptions, options, "evaluation")
    file = common.one_file(path, found(path, *EVALUATIONS))
    missing: list[str] = []
    rows = list(_rows(file, chosen.agent, missing))
    mode = common.mode_of(None, chosen, missing, several=len({row["problem_id"] for row in rows}) < len(rows))
    for row in rows:
        row |= {"question": row["prompt"], "mode": mode}
        row["scores"] = {**row["further"], **row["scores"]}
    return common.answers(file, rows, chosen.metric, missing)


def _rows(file: Path, agent: str | None, missing: list[str]) -> Iterator[Row]:
    """A row for each line, which is a rollout, a trace, or an episode with traces, by the version that wrote it."""
    for line in common.records(file):
        if "example_id" in line.value:
            missing.append("The files do not tell rewards from metrics; each is a score.")
            yield _output(line)
        elif "nodes" in line.value:
            yield _trace(line, line, missing)
        elif line["traces"]:
            yield _trace(_trace_of(line, agent), line, missing)
        else:
            missing.append("Episodes that failed before their first reply have no rollout.")


def _output(line: Record) -> Row:
    """A line of `results.jsonl` or `train_rollouts.jsonl`."""
    environment = line.label("env_name") or line.label("task")
    return {
        "problem_id": f"{environment}/{line.label('example_id')}" if environment else line.label("example_id"),
        "prompt": common.plain_text(line["prompt"]),
        "completion": common.plain_text(line["completion"]),
        "gold": line.gold("answer"),
        "tokens": line.inner("token_usage").value.get("output_tokens"),
        "truncated": None if line["is_truncated"] is None else line.flag("is_truncated"),
        "total": line.score("reward"),
        "advantage": line.score("advantage") if "advantage" in line.value else math.nan,
        "scores": line.inner("metrics").scores(),
        "further": {"reward": line.score("reward")},
    }


def _trace_of(line: Record, agent: str | None) -> Record:
    """The trace of the agent that is trained, or of the agent that the option names."""
    named = [(trace.inner("agent").label("name") or "agent", trace) for trace in line.each("traces")]
    trained = {name for name, trace in named if trace.inner("agent").value.get("trainable", True)}
    agent = common.the_one(line.where, "agent", trained if agent is None else dict(named), agent)
    chosen = [trace for name, trace in named if name == agent]
    if len(chosen) > 1:
        raise StudyError(f"{line.where}: {len(chosen)} traces of agent {agent} in an episode; only one is read")
    return chosen[0]


def _trace(trace: Record, line: Record, missing: list[str]) -> Row:
    """The row of a trace in a line. The nodes before the first sampled node are the prompt."""
    if trace.value.get("version", VERSION) != VERSION:
        raise StudyError(f"{trace.where}: version {trace['version']!r:.20}; only {VERSION} is read")
    nodes, rewards, task = trace.each("nodes"), trace.inner("rewards"), trace.inner("task")
    first = next((at for at, node in enumerate(nodes) if node.value.get("sampled")), len(nodes))
    prompt = common.plain_text([node["message"] for node in nodes[:first]])
    problem = task.label("key") or task.label("hash") or common.prompt_id(prompt)
    environment = line.inner("env").label("name") or line.label("env_name")
    scores, total = _rewards(rewards)
    if any(isinstance(reward, int | float) for reward in rewards.value.values()):
        missing.append("prime-rl 0.7 wrote rewards times their weights; a reward of weight 0 has the score 0.")
    calls = [call for call in trace.each("calls") if not call.value.get("error")]
    trained_on = sum(value == 1 for node in nodes for value in node.numbers("mask"))
    advantages = {value for node in nodes for value in node.numbers("advantages")}
    return {
        "problem_id": f"{environment}/{problem}" if environment else problem,
        "prompt": prompt,
        "completion": common.plain_text([node["message"] for node in nodes[first:]]),
        "gold": task.inner("data").gold("answer"),
        "tokens": trained_on or None,
        "truncated": trace.label("stop_condition") in LIMITS
        or any(call.value.get("finish_reason") == "length" for call in calls[-1:]),
        "total": total,
        "advantage": advantages.pop() if len(advantages) == 1 else math.nan,
        "scores": scores,
        "further": {**trace.inner("metrics").scores(), "reward": total},
    }


def _rewards(rewards: Record) -> tuple[dict[str, float], float]:
    """Scores, and their weighted sum without null rewards. A bare number is a reward times its weight."""
    scores = rewards.scores()
    given = [score for score in scores.values() if not math.isnan(score)]
    for name in rewards.value.keys() - scores.keys():
        reward = rewards.inner(name)
        scores[name] = reward.score("score")
        given.append(scores[name] * (reward.score("weight") if "weight" in reward.value else 1.0))
    return {name: scores[name] for name in rewards.value}, sum(given) if given else math.nan
