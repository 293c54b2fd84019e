"""Do two checkouts of this repository make the same bytes of rollouts, gradients, metrics, weights and answers?

    python benchmarks/same_bytes.py OLD_CHECKOUT NEW_CHECKOUT

Trains some tiny variants of the demo with the code of each checkout, on the CPU and offline. Both checkouts get the
same specs, base model and problems, which the new checkout makes. Then the commands of the other stages run: data, the
demo model, a supervised start, and evaluations of all trained models. At last the new code goes on with runs that the
old code began. Prints the SHA-256 of each file. The exit status is 1 if a file differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "workers" / "trained_bytes.py"
#: Settings of every case: some steps of few short completions.
TINY = {"max_steps": 3, "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 16}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear"}
EQUAL = {"correctness": 1.0, "format": 1.0, "length": 1.0}
#: Changes of the demo's config, by the case's name. A case whose name ends in "interrupted" is stopped and resumed.
CASES: dict[str, dict[str, Any]] = {
    "one backward pass": {"keep_models": 2, "gradients": {"whole": [2]}},
    "beta and placements": {
        "components": {"correctness": {"placement": "last_token"}, "format": {"placement": "answer_span"}},
        "training": {"beta": 0.1, "num_iterations": 2, "gradient_accumulation_steps": 2},
        "gradients": {"whole": [2]},
    },
    "normalised by component": {"training": {"multi_objective_aggregation": "normalize_then_sum", "beta": 0.05}},
    "single rollouts, TRL's backward pass": {
        "training": {"num_generations": 1},
        "gradients": {"every": "off", "backward": "trl"},
    },
    "LoRA, interrupted": {"lora": LORA},
    "combined by gradients, interrupted": {
        "arms": {"design": "list", "weights": None, "arms": {"full": {"weights": EQUAL, "combine": "upgrad"}}}
    },
    "accumulation and two epochs, interrupted": {
        "data": {"train": {"count": 8}},
        "training": {"max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 2},
    },
}


#: A supervised start of two steps.
SFT = {
    "data": {"source": "word_problems", "count": 16, "split": "train"},
    "training": {"max_steps": 2, "per_device_train_batch_size": 4},
    "lora": {**LORA, "lora_dropout": 0.0},
}


def in_checkout(checkout: Path, *arguments: str) -> None:
    """Run the worker with the code of a checkout.

    Raises
    ------
    subprocess.CalledProcessError
        If the worker fails.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout.resolve() / "workflow"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "2",  # peft writes a set of names in the order of their hashes
    }
    command = [sys.executable, "-P", str(WORKER), *arguments]  # -P: no module from beside the worker
    subprocess.run(command, check=True, env=environment, cwd=checkout, stdout=sys.stderr)


def compared(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> tuple[list[str], bool]:
    """Lines of the table, and whether all files are the same.

    Parameters
    ----------
    old, new : dict of str to dict of str to str
        SHA-256 of each file, by the case's name and the file's path.
    """
    lines, all_same = [], True
    for case in old:
        for name in sorted({*old[case], *new[case]}):
            first, second = old[case].get(name, "no such file"), new[case].get(name, "no such file")
            all_same &= first == second
            verdict = f"same       {first}" if first == second else f"different  {first} {second}"
            lines.append(f"{case:42}{name:36}{verdict}")
    return lines, all_same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="checkout of the code before the change")
    parser.add_argument("new", type=Path, help="checkout of the code after it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases.json").write_text(json.dumps({"training": TINY, "cases": CASES, "sft": SFT}))
        in_checkout(arguments.new, "make", folder)
        digests = []
        for number, checkout in enumerate((arguments.old, arguments.new)):
            in_checkout(checkout, "train", folder, str(number))
            digests.append(json.loads((Path(folder) / f"digests{number}.json").read_text()))
        in_checkout(arguments.old, "begin", folder, "2")
        in_checkout(arguments.new, "finish", folder, "2")
        finished = json.loads((Path(folder) / "digests2.json").read_text())
    for case, files in finished.items():
        begun = f"{case} by old, finished by new"
        digests[0][begun], digests[1][begun] = digests[0][case], files
    lines, all_same = compared(*digests)
    print("\n".join([*lines, "all files are the same" if all_same else "some files differ"]))
    sys.exit(0 if all_same else 1)


if __name__ == "__main__":
    main()
