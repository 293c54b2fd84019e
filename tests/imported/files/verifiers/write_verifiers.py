"""Writes an evaluation's results.jsonl with verifiers' own writer."""

from pathlib import Path

from verifiers.types import State
from verifiers.utils.save_utils import save_outputs, state_to_output

QUESTIONS = [("What is 2 + 3?", "5"), ("How many legs has a cat?", "4")]
REPLIES = ["It is 5", "No idea", "4", "Four"]
states = []
for number, reply in enumerate(REPLIES):
    question, answer = QUESTIONS[number // 2]
    correct, brief = float(reply.endswith(answer)), 1 / len(reply.split())
    states.append(
        State(
            example_id=number // 2,
            answer=answer,
            task="sums",
            info={},
            reward=correct + 0.5 * brief,
            prompt=[{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question}],
            completion=[{"role": "assistant", "content": reply}],
            timing={"generation_ms": 1.0, "scoring_ms": 1.0, "total_ms": 2.0},
            is_completed=True,
            is_truncated=reply == "Four",
            metrics={"correct": correct, "brief": brief},
            usage={"input_tokens": 7.0, "output_tokens": 2.0},
        )
    )
save_outputs([state_to_output(state) for state in states], Path("."), mode="w")
