"""`study.json` for a part of a study, with some runs and evaluation sets, and sentences on what is missing.

`reward-ablation preview` writes such a file for the finished runs. All later stages read the study without its diverged
runs in the same way (`analysis.study_file`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from reward_ablation.system.errors import StudyError

#: How many names a line lists, a free choice. Further names are counted.
MOST_NAMED = 8

#: Keys of `study.json` that have an entry for each evaluation set.
_BY_DATASET = ("answers", "scores", "questions")


def part_of(content: dict[str, Any], folders: Collection[str], datasets: Collection[str]) -> dict[str, Any]:
    """The content of `study.json` for some runs (by folder), their arms and seeds, and some evaluation sets.

    The question stays, without contrasts of other arms. Claims are about the whole study. Without a run of the
    baseline, the first arm stands in for it.
    """
    runs = [run for run in content["runs"] if run["folder"] in folders]
    arms, seeds = {run["arm"] for run in runs}, {run["seed"] for run in runs}
    names = [arm["name"] for arm in content["arms"] if arm["name"] in arms]
    primary = content["primary"]
    contrasts = [each for each in primary["contrasts"] if {each["arm"], each["against"]} <= arms]
    return {
        **content,
        **{key: {name: content[key][name] for name in content[key] if name in datasets} for key in _BY_DATASET},
        "runs": runs,
        "arms": [arm for arm in content["arms"] if arm["name"] in arms],
        "seeds": [seed for seed in content["seeds"] if seed in seeds],
        "datasets": [name for name in content["datasets"] if name in datasets],
        "baseline": content["baseline"] if content["baseline"] in arms else names[0],
        "control": content["control"] if content["control"] in arms else None,
        "primary": {**primary, "contrasts": contrasts},
        "claims": [],
        "withdrawn_claims": [],
    }


def without_diverged(content: Any) -> Any:
    """The content of `study.json` without diverged runs, with sentences on these (`left_out`); others as they are."""
    if not isinstance(content, dict) or not content.get("diverged"):
        return content
    folders = {run["folder"] for run in content["runs"]} - {run["folder"] for run in content["diverged"]}
    if not folders:
        raise StudyError("all runs of this study diverged; lower the learning rate")
    part = part_of(content, folders, content["datasets"])
    arms = {"base", *(arm["name"] for arm in part["arms"])}
    claims = [claim for claim in content.get("claims", []) if {claim["arm"], claim["against"]} <= arms]
    lines = missing_lines({**content, "claims": []}, part, [])
    if unjudged := [claim["name"] for claim in content.get("claims", []) if claim not in claims]:
        lines.append(f"Claims that cannot be judged: {listed(unjudged)}.")
    return {**part, "claims": claims, "withdrawn_claims": content.get("withdrawn_claims", []), "left_out": lines}


def missing_lines(whole: dict[str, Any], part: dict[str, Any], trained: Sequence[str]) -> list[str]:
    """Sentences on what a `part` of a study leaves out. `trained` are runs that are trained but not in the part."""
    lines = _diverged(whole)
    arms = [arm["name"] for arm in part["arms"]]
    if without := [arm["name"] for arm in whole["arms"] if arm["name"] not in arms]:
        lines.append(f"Arms without a finished run: {listed(without)}.")
    if seeds := [
        f"{arm} ({listed(missing)})" for arm in arms if (missing := _seeds_of(whole, arm) - _seeds_of(part, arm))
    ]:
        lines.append(f"Arms without all of their seeds, with the seeds that are missing: {listed(seeds)}.")
    if trained:
        lines.append(f"Trained, and not evaluated on all evaluation sets shown: {listed(trained)}.")
    if sets := [name for name in whole["datasets"] if name not in part["datasets"]]:
        lines.append(f"Evaluation sets without answers of enough models: {listed(sets)}.")
    return lines + _comparisons_left_out(whole, part)


def _diverged(content: dict[str, Any]) -> list[str]:
    """A sentence for each run that diverged, of which at most `MOST_NAMED` are written out."""
    steps = {run["folder"]: run["step"] for run in content.get("diverged", [])}
    runs = [run for run in content["runs"] if run["folder"] in steps]
    names = [f"{run['arm']}, seed {run['seed']}, diverged at step {steps[run['folder']]}." for run in runs]
    return names[:MOST_NAMED] + ([f"{len(names) - MOST_NAMED} more runs diverged."] if len(names) > MOST_NAMED else [])


def _comparisons_left_out(whole: dict[str, Any], part: dict[str, Any]) -> list[str]:
    """Sentences on the comparisons that a part of a study cannot show."""
    lines, primary = [], whole["primary"]
    if part["baseline"] != whole["baseline"]:
        lines.append(
            f"Differences to the baseline {whole['baseline']} cannot be shown; {part['baseline']} stands in for it."
        )
    if whole["control"] and not part["control"]:
        lines.append(f"Differences to the control {whole['control']} cannot be shown.")
    shown = part["primary"]["contrasts"]
    missing = [f"{each['arm']} against {each['against']}" for each in primary["contrasts"] if each not in shown]
    if primary["dataset"] not in part["datasets"]:
        lines.append(f"The primary question is about {primary['dataset']}, which is not shown.")
    elif missing:
        lines.append(
            f"Primary contrasts that cannot be shown: {listed(missing)}. The p-values of the others are corrected for "
            "those shown alone."
        )
    if whole.get("claims"):
        lines.append("Claims are judged when the study is finished.")
    return lines


def _seeds_of(content: dict[str, Any], arm: str) -> set[int]:
    return {run["seed"] for run in content["runs"] if run["arm"] == arm}


def listed(names: Collection[Any], most: int = MOST_NAMED) -> str:
    """The first names in words, and the number of the others, such as `0, 1 and 8 more`."""
    shown = [str(name) for name in (sorted(names) if isinstance(names, set) else names)]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
