"""Rollouts of two steps and metrics, written as prime-rl's FileMonitor does, of records by verifiers."""

import json
from pathlib import Path

import orjson
import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, Episode, GroupInfo, TrainRunInfo, TrainWorkInfo
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, ModelCall, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, Usage, UserMessage

TASKS = [("What is 2 + 3?", "5"), ("How many legs has a cat?", "4")]
REPLIES = ["It is 5", "No idea", "4", "Four"]


def episode(step, question, answer, reply, advantage):
    data = WireTaskData(prompt=question, answer=answer)
    task = TraceTask(type="Sums", data=data, key=vf.Task(data).key, hash=vf.Task(data).hash)
    nodes = [
        MessageNode(message=SystemMessage(content="Answer briefly.")),
        MessageNode(parent=0, message=UserMessage(content=question)),
        MessageNode(
            parent=1,
            message=AssistantMessage(content=reply),
            sampled=True,
            token_ids=[9, 8, 7],
            mask=[False, True, True],
            logprobs=[-0.5, -0.25],
            advantages=[advantage] * 2,
        ),
    ]
    call = ModelCall(
        node=2, finish_reason="stop" if reply != "Four" else "length", usage=Usage(prompt_tokens=7, completion_tokens=2)
    )
    trace = Trace(
        task=task, agent=AgentInfo(config=WireAgentConfig()), nodes=nodes, calls=[call], ok=True, is_completed=True
    )
    trace.record_reward("correct", float(reply.endswith(answer)), 1.0)
    trace.record_reward("brief", 1 / len(reply.split()), 0.5)
    trace.record_metric("words", len(reply.split()))
    return Episode(
        env=EnvInfo(id="sums", name="sums"),
        task=task,
        group=GroupInfo(id=question),
        ok=True,
        traces=[trace],
        run=TrainRunInfo(id="run", work=TrainWorkInfo(step=step)),
    )


for step in (1, 2):
    path = Path("rollouts") / f"step_{step}" / "train" / "effective" / "traces.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as f:
        for number, reply in enumerate(REPLIES):
            question, answer = TASKS[number // 2]
            made = episode(step, question, answer, reply, 0.75 if reply.endswith(answer) else -0.75)
            f.write(
                orjson.dumps(
                    made.to_record(), default=str, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
                )
            )

with open("metrics.jsonl", "a", buffering=1) as f:
    for step in (1, 2):
        f.write(json.dumps({"step": step, "time": 1.5, "optim/lr": 1e-6, "optim/grad_norm": 0.5}) + "\n")
        f.write(json.dumps({"step": step, "time": 2.5, "train/agg/all/num_turns/mean": 1.0}) + "\n")
