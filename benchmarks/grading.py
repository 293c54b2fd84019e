"""The cost and the agreement of three graders: this grader, `math_verify.verify` and TRL's `accuracy_reward`.

    python benchmarks/grading.py --json FILE [--data FOLDER] [--rounds 10]

Needs gsm8k_train.jsonl, gsm8k_test.jsonl, math500.jsonl and math_train.jsonl. The three graders
judge the same chunks of completions in turns. The ratio of their rates is taken within a turn, and the median over
turns is reported. No pair of gold and answer comes twice, so that no cache helps.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from reward_ablation.rewards import grade
from reward_ablation.rewards.grading.exact import exact_value
from reward_ablation.rewards.grading.math_worker import math_worker
from reward_ablation.rewards.grading.normalisation import normalise

ROOT = Path(__file__).parents[1]
RATE_GOAL = 20_000
FILES = ("gsm8k_train", "gsm8k_test", "math500", "math_train")

#: Completion, gold, and whether the completion was made to be right.
Sample = tuple[str, str, bool]


def load(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows of each data set, with the gold as `answer`."""
    missing = [name for name in FILES if not (folder / f"{name}.jsonl").is_file()]
    if missing:
        sys.exit(f"error: {folder}: no {missing[0]}.jsonl; name the folder of the data sets with --data")
    rows = {name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()] for name in FILES}
    for name in ("gsm8k_train", "gsm8k_test"):
        for row in rows[name]:
            row["solution"], row["answer"] = row["answer"], row["answer"].split("\n#### ")[1]
    return {name: [row for row in of_name if row["answer"]] for name, of_name in rows.items()}


def gsm8k_answer(gold: str, other: str, rng: Random) -> tuple[str, bool]:
    """A right or a wrong number in a style of models, and whether it is right."""
    if rng.random() < 0.4:
        return other, exact_value(normalise(other)) == exact_value(normalise(gold))
    number = int(gold.replace(",", ""))
    styles = [gold, f"{number:,}", rf"\${number}", rf"\${number:,}", f"{number}.00", f"{number} dollars", f"{number}."]
    return rng.choice([gold, gold, *styles]), True


def math_answer(gold: str, other: str, rng: Random, wrong: float = 0.4) -> tuple[str, bool]:
    """A right answer restyled, or a wrong answer (another's gold, another sign, one more); and whether it is right."""
    value = exact_value(normalise(gold))
    if rng.random() < wrong:
        if value is not None and rng.random() < 0.4:
            return str(-value if value and rng.random() < 0.5 else value + 1), False
        return other, normalise(other) == normalise(gold)
    styles = [
        gold,
        gold,
        gold.replace(r"\frac", r"\dfrac"),
        gold.replace(" ", ""),
        re.sub(r"([,=+])", r" \1 ", gold),
        gold.replace("(", r"\left(").replace(")", r"\right)") if r"\left" not in gold else gold.replace(r"\left", ""),
        re.sub(r"\\text\{([^{}]*)\}", r"\1", gold),
        re.sub(r"\\frac\{(\d)\}\{(\d)\}", r"\\frac\1\2", gold),
        f"x = {gold}" if value is not None else gold,
        decimal(value) or gold,
        reordered(gold),
    ]
    return rng.choice(styles), True


def decimal(value: Fraction | None) -> str | None:
    """A fraction as a decimal; None for an integer or without an exact decimal of six places."""
    if value is None or value.denominator == 1:
        return None
    text = f"{float(value):.6f}".rstrip("0")
    return text if Fraction(text) == value else None


def reordered(gold: str) -> str:
    """A list or sum of two plain parts the other way round; anything else as it is."""
    if match := re.fullmatch(r"([\w\\{}]+), ?([\w\\{}]+)", gold):
        return f"{match[2]}, {match[1]}"
    if match := re.fullmatch(r"([\w\\{}^]+) ?\+ ?([\w\\{}^]+)", gold):
        return f"{match[2]} + {match[1]}"
    return gold


def samples(rows: list[dict[str, Any]], count: int, make: Callable[..., tuple[str, bool]], seed: int) -> list[Sample]:
    """Completions that end in a box. No two have the same pair of gold and answer."""
    rng, made, seen = Random(seed), [], set()
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row.get("subject", ""), []).append(row["answer"])
    for row in rng.sample(rows, len(rows)):
        answer, right = make(row["answer"], rng.choice(groups[row.get("subject", "")]), rng)
        if (row["answer"], answer) not in seen and len(made) < count:
            seen.add((row["answer"], answer))
            reasoning = re.sub(r"\\boxed|\n####.*", "", row["solution"])
            made.append((rf"{reasoning} The final answer is $\boxed{{{answer}}}$.", row["answer"], right))
    return made


def ours(chunk: list[Sample]) -> list[bool]:
    return [grade(completion, gold).status == "correct" for completion, gold, _ in chunk]


def math_verify(chunk: list[Sample]) -> list[bool]:
    from math_verify import parse, verify

    return [bool(verify(parse(f"${gold}$"), parse(completion))) for completion, gold, _ in chunk]


def trl(chunk: list[Sample]) -> list[bool]:
    from trl.rewards import accuracy_reward

    contents = [[{"role": "assistant", "content": completion}] for completion, _, _ in chunk]
    return [reward == 1 for reward in accuracy_reward(contents, [f"${gold}$" for _, gold, _ in chunk])]


GRADERS = {"ours": ours, "math_verify": math_verify, "trl": trl}


def compare(made: list[Sample], rounds: int) -> dict[str, Any]:
    """Rates and verdicts of the three graders on the same chunks, in turns."""
    for grader in GRADERS.values():  # done once: imports, tables of the parser, start of the worker
        grader([(r"$\boxed{1+x}$", "x+1", True), (r"$\boxed{x^2}$", r"\frac{x}{2}", False)])
    names, size = list(GRADERS), len(made) // rounds
    rates: dict[str, list[float]] = {name: [] for name in names}
    verdicts: dict[str, list[bool]] = {name: [] for name in names}
    for turn in range(rounds):
        chunk = made[turn * size : (turn + 1) * size]
        for name in names[turn % 3 :] + names[: turn % 3]:
            start = time.perf_counter()
            verdicts[name] += GRADERS[name](chunk)
            rates[name].append(size / (time.perf_counter() - start))
    result: dict[str, Any] = {"count": size * rounds, "rounds": rounds, "graders": {}}
    for name in names:
        ratios = [mine / theirs for mine, theirs in zip(rates["ours"], rates[name], strict=True)]
        marks = [
            (mine, theirs, right)
            for mine, theirs, (_, _, right) in zip(verdicts["ours"], verdicts[name], made, strict=False)
        ]
        result["graders"][name] = {
            "per_second": statistics.median(rates[name]),
            "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
            "not_as_made": sum(theirs != right for _, theirs, right in marks),
            "differs": sum(mine != theirs for mine, theirs, _ in marks),
            "differs_and_ours_as_made": sum(mine != theirs and mine == right for mine, theirs, right in marks),
        }
    result["disagreements"] = [
        {"gold": gold, "completion": completion[-120:], "right": right, **{name: verdicts[name][i] for name in names}}
        for i, (completion, gold, right) in enumerate(made[: size * rounds])
        if len({right, *(verdicts[name][i] for name in names)}) > 1
    ]
    return result


def gsm8k_rate(rows: list[dict[str, Any]], rounds: int) -> dict[str, float]:
    """Gradings per CPU second: solutions as they are, three in five against their own gold, the rest against others."""
    rng = Random(0)
    work = [(row["solution"], row["answer"] if rng.random() < 0.6 else rng.choice(rows)["answer"]) for row in rows]
    rates = []
    for _ in range(rounds):
        start = time.process_time()
        for completion, gold in work:
            grade(completion, gold, "hash")
        rates.append(len(work) / (time.process_time() - start))
    return {"median": statistics.median(rates), "lowest": min(rates), "highest": max(rates), "count": len(work)}


def gold_spellings(rows: list[dict[str, Any]], answer_format: str) -> dict[str, int]:
    """Numbers of golds that are correct against themselves: in the solution, in a box, and with wider fractions."""
    spellings: list[tuple[str, Callable[[str], str]]] = [
        ("boxed", lambda gold: rf"\boxed{{{gold}}}"),
        ("spaced", lambda gold: rf"\boxed{{ ${gold}$ }}"),
        ("dfrac", lambda gold: rf"\boxed{{{gold}}}".replace(r"\frac", r"\dfrac")),
    ]
    counts = {"count": len(rows)}
    counts["solution"] = sum(grade(row["solution"], row["answer"], answer_format).status == "correct" for row in rows)
    for name, write in spellings:
        counts[name] = sum(grade(write(row["answer"]), row["answer"]).status == "correct" for row in rows)
    return counts


def settled_share(made: list[Sample]) -> float:
    """Share of the samples that never reach math-verify."""
    asked = 0
    with patch.object(math_worker, "judge", wraps=math_worker.judge) as judge:
        ours(made)
        asked = sum(len(call.args[0]) for call in judge.call_args_list)
    return 1 - asked / len(made)


def benchmark(data: Path, rounds: int, size: int) -> dict[str, Any]:
    rows = load(data)
    gsm8k = rows["gsm8k_train"] + rows["gsm8k_test"]
    result: dict[str, Any] = {"rate_goal": RATE_GOAL, "gsm8k_rate": gsm8k_rate(gsm8k, rounds)}
    print(f"GSM8K: {result['gsm8k_rate']['median']:,.0f} a CPU second", flush=True)
    result["golds"] = {name: gold_spellings(rows[name], "hash" if "gsm8k" in name else "boxed") for name in FILES}
    print(f"golds: {result['golds']}", flush=True)
    of_math = rows["math_train"] + rows["math500"]
    result["settled"] = settled_share(samples(of_math, 4 * size, math_answer, seed=1))
    print(f"settled without math-verify: {result['settled']:.1%}", flush=True)
    result["compared"] = {
        "GSM8K": compare(samples(gsm8k, size, gsm8k_answer, seed=2), rounds),
        "MATH": compare(samples(of_math, size, math_answer, seed=3), rounds),
        "MATH-500, half wrong": compare(
            samples(rows["math500"], size, partial(math_answer, wrong=0.5), seed=4), rounds
        ),
    }
    return result


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    rate = result["gsm8k_rate"]
    lines = [
        "| grader | data | verdicts per second | this grader is faster by | wrong verdicts | differs from this grader "
        "| this grader is right there |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    labels = {"ours": "this grader", "math_verify": "`math_verify.verify`", "trl": "TRL `accuracy_reward`"}
    for data, compared in result["compared"].items():
        for name, row in compared["graders"].items():
            ratio = row["ratio"]
            faster = (
                f"{ratio['median']:.1f} ({ratio['lowest']:.1f} to {ratio['highest']:.1f})" if name != "ours" else ""
            )
            other = (row["differs"], row["differs_and_ours_as_made"]) if name != "ours" else ("", "")
            lines.append(
                f"| {labels[name]} | {data} | {row['per_second']:,.0f} | {faster} "
                f"| {row['not_as_made']} of {compared['count']:,} | {other[0]} | {other[1]} |"
            )
    names = {
        "gsm8k_train": "GSM8K train",
        "gsm8k_test": "GSM8K test",
        "math500": "MATH-500",
        "math_train": "MATH train",
    }
    lines += [
        "",
        "| golds graded correct against themselves | golds | in the solution | in a box | with `$` | with `\\dfrac` |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for key, label in names.items():
        golds = result["golds"][key]
        lines.append(
            "| "
            + " | ".join([label, *(f"{golds[k]:,}" for k in ("count", "solution", "boxed", "spaced", "dfrac"))])
            + " |"
        )
    lines += [
        "",
        f"GSM8K solutions on one core: {rate['median']:,.0f} gradings per second ({rate['lowest']:,.0f} to "
        f"{rate['highest']:,.0f}). Goal: {result['rate_goal']:,}. MATH answers settled without math-verify: "
        f"{result['settled']:.1%}.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--rounds", type=int, default=10, help="turns of the graders")
    parser.add_argument("--size", type=int, default=500, help="completions a data set for the three graders")
    arguments = parser.parse_args()
    logging.disable()  # math-verify logs each text that it cannot read
    result = benchmark(arguments.data, arguments.rounds, arguments.size)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
