"""The time of a judge for a batch, in round trips to an endpoint that answers after 200 ms.

    python benchmarks/judge.py --json FILE [--completions 256] [--concurrency 32] [--turns 5]

The endpoint is on this machine, in a process of its own. A round trip is the endpoint's time for one request: 256
completions with 32 requests in flight take at least 8 round trips. Then the same batch is read from kept answers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the endpoint is the tests' own

from endpoint import endpoint, says
from reward_ablation.rewards import endpoint as requests
from reward_ablation.rewards.components.judge import judge
from reward_ablation.rewards.request_records import asking

TEMPLATE = Path(__file__).parents[1] / "config" / "templates" / "judge.txt"
SECONDS = 0.2
GOAL = 10.0


def serve() -> None:
    """Answer until stdin is closed; the first line of stdout is the URL."""
    with endpoint(lambda request: says({"score": 0.5}, seconds=SECONDS)) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def timed(url: str, completions: list[str], concurrency: int, folder: Path) -> float:
    """Seconds for a batch, with answers kept in a folder."""
    start = time.perf_counter()
    with asking(folder, None):
        scores = judge(
            completions,
            question=["What is 9 * 8?"] * len(completions),
            model="judge",
            template=str(TEMPLATE),
            endpoint=url,
            concurrency=concurrency,
        )
    assert scores == [0.5] * len(completions)
    return time.perf_counter() - start


def benchmark(count: int, concurrency: int, turns: int) -> dict[str, Any]:
    """Seconds of each turn, with requests and with kept answers. The first turn includes connections and imports."""
    command = [sys.executable, __file__, "--serve", "--json", "-"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert server.stdin
        assert server.stdout
        url = server.stdout.readline().strip()
        asked, kept = [], []
        for turn in range(turns):
            completions = [f"{turn}: {number} is 72" for number in range(count)]
            asked.append(timed(url, completions, concurrency, Path(folder)))
            requests._kept.cache_clear()  # as a new process
            kept.append(timed(url, completions, concurrency, Path(folder)))
        server.stdin.close()
    return {"completions": count, "concurrency": concurrency, "seconds": SECONDS, "asked": asked, "kept": kept}


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    asked, seconds = sorted(result["asked"]), result["seconds"]
    rounds = [time_of_batch / seconds for time_of_batch in (statistics.median(asked), asked[0], asked[-1])]
    least = -(-result["completions"] // result["concurrency"])
    return "\n".join(
        [
            "| completions | requests in flight | seconds | round trips | fewest possible | goal "
            "| seconds with kept answers |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            f"| {result['completions']} | {result['concurrency']} | {statistics.median(asked):.2f} | {rounds[0]:.1f} "
            f"({rounds[1]:.1f} to {rounds[2]:.1f}) | {least} | {GOAL:.0f} | {statistics.median(result['kept']):.3f} |",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="file for the result")
    parser.add_argument("--completions", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    result = benchmark(options.completions, options.concurrency, options.turns)
    options.json.write_text(json.dumps(result, indent=1))
    print(table(result))
    return None


if __name__ == "__main__":
    main()
