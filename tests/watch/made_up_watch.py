"""A watched study of made-up runs, and rows as a run in training appends them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.made_up import MadeUpStudy
from reward_ablation.study.live_rollouts import FILE
from reward_ablation.study.run_folder import WORK
from reward_ablation.system.files import write_parquet
from reward_ablation.watch.study_data import RunState, States, Watch

#: What a page must show as text.
HOSTILE = """</script><script>document.title = 'ran'</script><img src=x onerror="document.title = 'ran'">
{{ 7 * 7 }} &lt;b&gt; \u202egnp.exe\u202c \x1b[31mred\x00 \ud800 \u2028"""


def watch_of(made_up: MadeUpStudy, root: Path, state: str = "done") -> Watch:
    """Write a made-up study, and watch it. All runs are in one state."""
    made_up.write(root)
    plan, arms = made_up.plan(), list(made_up.arms)
    runs = [(arms.index(run["arm"]), run["seed"], root / run["folder"]) for run in plan["runs"]]
    states = States(
        [RunState(state, 0.5, "step 3 of 6", f"on node17, {root}/log") for _ in runs], "all done", ["a line"]
    )
    problems = root / "data" / "train.parquet"
    write_parquet(pd.DataFrame({"id": ["gsm8k:0"], "question": [f"How many? {HOSTILE!a}"], "answer": ["4"]}), problems)
    return Watch("made_up", made_up.components, made_up.arms, runs, problems, lambda: states)


def with_completions(watch: Watch, text: str) -> None:
    """Give all rollouts of finished runs one text, which Parquet can hold."""
    for rollouts in watch.rollouts:
        write_parquet(pd.read_parquet(rollouts.result).assign(completion=text), rollouts.result)


def rows_of(step: int, **columns: Any) -> list[dict[str, Any]]:
    """Four rows of a step."""
    return [
        {"step": step, "problem_id": "a", "completion": f"text {n}", "tokens": 10 + n, "truncated": n == 3}
        | {"total": n / 4, "score_correctness": None if n == 1 else float(n), "prompt": "How?", "gold": "4"}
        | columns
        for n in range(4)
    ]


def lines_of(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def live_file(run: Path) -> Path:
    """The growing file of a run, empty."""
    path = run / WORK / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path
