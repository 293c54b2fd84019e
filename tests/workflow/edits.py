"""A tiny study with its own code, for tests that edit it and see what the plan says and what is trained."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.data.word_problems import generate

from .conftest import ROOT, TINY, Study

REWARDS = '''
from my_helpers import fits


def brevity(completions, completion_ids, *, limit: int, **columns):
    """1 for completions of at most `limit` tokens."""
    return [fits(len(ids), limit) for ids in completion_ids]
'''

HELPERS = """
def fits(length, limit):
    return float(length <= limit)
"""

#: Two arms with two seeds, one step each; a file of rewards and a file of problems are the user's.
EDITED = {
    **copy.deepcopy(TINY),
    "components": {
        **{name: TINY["components"][name] for name in ("correctness", "format")},
        "brevity": {"function": "my_rewards.py:brevity", "parameters": {"limit": 12}},
    },
    "arms": {
        "design": "list",
        "arms": {
            "mixed": {"weights": {"correctness": 1, "format": 0.5}},
            "short": {"weights": {"brevity": 1}},
        },
    },
}
EDITED["data"]["train"] = {"source": "file", "path": "problems.jsonl"}
EDITED["training"]["max_steps"] = 1


def copy_of_the_code(folder: Path, code: Path = ROOT) -> Path:
    """A copy of all that Snakemake runs of the repository."""
    for name in ("workflow", "profiles", "envs"):
        shutil.copytree(code / name, folder / name)  # compiled modules, too: they serve while the times are the same
    shutil.copy2(code / "Snakefile", folder)
    return folder


class Bench(Study):
    """A study with the code that it runs, a copy of the repository's."""

    @classmethod
    def new(cls, place: Path) -> Bench:
        """A study that has not been started."""
        (place / "study").mkdir(parents=True)
        bench = cls.of(Study(place / "study", EDITED), place)
        (bench.folder / "my_rewards.py").write_text(REWARDS)
        (bench.folder / "my_helpers.py").write_text(HELPERS)
        rows = [json.dumps({name: row[name] for name in ("question", "answer")}) for row in generate(64, 0, "train")]
        (bench.folder / "problems.jsonl").write_text("\n".join(rows) + "\n")
        return bench

    @classmethod
    def of(cls, study: Study, place: Path) -> Bench:
        """A copy of a study with the code that it ran, file times and Snakemake's records included."""
        if study.folder != place / "study":
            shutil.copytree(study.folder, place / "study")
        return cls(place / "study", study.config, copy_of_the_code(place / "code", study.code))

    def to_train(self) -> int:
        """Number of runs to train, by `reward-ablation plan`."""
        found = re.search(r"^study \w+: (\d+) of \d+ runs? to train\b", self.plan(), re.MULTILINE)
        return int(found[1])

    def would_train(self) -> set[str]:
        """Names of the runs that a dry run would train."""
        return set(re.findall(r"\btrain (\S+); GPUs", self.make("--dry-run", "--until", "train")))

    @contextmanager
    def without_records(self) -> Iterator[None]:
        """Inside this context, Snakemake's own records are away."""
        records = self.folder / ".snakemake"
        kept = records.rename(self.folder / "kept_records")
        yield
        shutil.rmtree(records, ignore_errors=True)  # a command makes none
        kept.rename(records)

    def train(self) -> set[str]:
        """Really start, as far as training; names of the runs that were trained, and what was printed in `printed`."""
        before = self.models()
        self.printed = self.make("--until", "train")
        after = self.models()
        for name in after:
            assert (self.results / "runs" / name / "run.json").is_file()
        return {name for name in after if after[name] != before.get(name)}

    def append(self, file: str, text: str) -> None:
        """Add lines to a file of the code."""
        with (self.code / "workflow" / "reward_ablation" / file).open("a") as stream:
            stream.write(text)
