"""Make the tasks of config/instructions.yaml: questions of the demo, each with instructions that a program can verify.

python config/instructions/make_tasks.py
"""

import json
from itertools import islice
from pathlib import Path

from reward_ablation.data.word_problems import Problem, Split, problems

COUNTS: dict[Split, int] = {"train": 320, "test": 100}


def task(problem: Problem) -> dict:
    """A question; its instructions in the format of IFEval; two of them again, each in a column of its own."""
    short = {"id": "length_constraints:number_words", "kwargs": {"num_words": 20, "relation": "less than"}}
    name = {"id": "keywords:existence", "kwargs": {"keywords": [problem.name]}}
    unmarked = {"id": "keywords:forbidden_words", "kwargs": {"forbidden_words": ["answer"]}}
    return {"question": problem.question, "instructions": [short, name, unmarked], "short": [short], "name": [name]}


if __name__ == "__main__":
    for split, count in COUNTS.items():
        lines = [json.dumps(task(problem)) for problem in islice(problems(0, split), count)]
        Path(__file__).with_name(f"{split}.jsonl").write_text("\n".join(lines) + "\n")
