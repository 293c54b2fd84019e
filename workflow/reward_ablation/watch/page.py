"""Page of `reward-ablation watch`: its template with script and style, as served and as a file for others.

The server sends `page`, which asks it for numbers again and again. `reward-ablation watch --export` calls `write_page`,
whose file holds its numbers and asks nobody.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from random import Random
from statistics import fmean
from time import strftime
from typing import Any

from markupsafe import Markup

from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import TEMPLATES
from reward_ablation.watch.study_data import Watch, rounded

#: Bytes of an exported file that curves and completions may take. The page itself takes 25 kB, and all is below 2 MB.
MOST_BYTES = 1_700_000
#: What an exported file has at most. Steps of a run, completions of a step and characters of a text are free choices.
#: The script draws as many points of a curve. The numbers of all points have about seven bytes each.
STEPS, ROWS, CHARACTERS, POINTS, NUMBERS = 4, 12, 1200, 60, 100_000


def policy(connects: bool) -> str:
    """What a browser may do for the page: run the page's script and, if the page `connects`, ask its server."""
    script, style = (sha256(_part(name).encode()).digest() for name in ("page.js", "page.css"))
    own = "'self'" if connects else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{b64encode(script).decode()}'; "
        f"style-src 'sha256-{b64encode(style).decode()}'; img-src data:; "
        f"connect-src {own}; base-uri 'none'; form-action 'none'"
    )


@cache
def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def page(name: str, data: dict[str, Any] | None = None, sampled: str = "") -> str:
    """The page of the study `name`. With `data` it asks no server; `sampled` then says what it has."""
    return TEMPLATES.from_string(_part("page.html.j2")).render(
        name=name,
        policy=policy(connects=data is None),
        style=Markup(_part("page.css")),
        script=Markup(_part("page.js")),
        data=None if data is None else Markup(_json(data)),
        sampled=sampled,
    )


def _json(value: Any) -> str:
    """JSON for a script element, which would end at `</script>` within a text, too."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def write_page(watch: Watch, path: Path) -> str:
    """Write the page into one file, with a sample of the completions. Return the sentences on what was sampled."""
    while watch.look():
        pass
    states = watch.states()
    last = max((step for rollouts in watch.rollouts for step in rollouts.means), default=1)
    width = -(-last // max(1, min(POINTS, NUMBERS // (len(watch.rollouts) * len(watch.columns)))))
    points = _thinned(watch, width)
    texts = _sample(watch, MOST_BYTES - len(_json(points)))
    data = {
        "about": watch.about,
        "counts": states.counts,
        "now": strftime("%Y-%m-%d %H:%M"),
        "lines": [],  # like the facts, they name machines and files
        "states": [[run.state, run.done, run.step] for run in states.runs],
        "points": points,
        "width": width,  # steps of a point
        "last": last,
        "texts": texts,
    }
    kept = [len(of_step["rows"]) for of_run in texts.values() for of_step in of_run.values()]
    everything = sum(rollouts.count for rollouts in watch.rollouts)
    sampled = (
        f"This file has {sum(kept):,} of {everything:,} completions, chosen at random: at most {max(kept, default=0)} "
        f"of a step, and at most {STEPS} steps of a run, from its first to its last. Texts are cut after "
        f"{CHARACTERS:,} characters."
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page(watch.name, data, sampled), encoding="utf-8")
    return sampled


def _thinned(watch: Watch, width: int) -> list[list[Any]]:
    """Points of all curves, each the mean of `width` steps."""
    points: list[list[Any]] = []
    for number, rollouts in enumerate(watch.rollouts):
        for first, steps in groupby(sorted(rollouts.means), lambda step: (step - 1) // width * width + 1):
            series = zip(*(rollouts.means[step] for step in steps), strict=True)
            known = ([value for value in values if not isnan(value)] for values in series)
            points.append([number, first, *rounded(fmean(values) if values else nan for values in known)])
    return points


def _sample(watch: Watch, most_bytes: int) -> dict[int, dict[int, dict[str, Any]]]:
    """Random completions of evenly spaced steps, by run and step. Each step gets one before any step gets a second."""
    texts: dict[int, dict[int, dict[str, Any]]] = {}
    candidates = []
    for run, rollouts in enumerate(watch.rollouts):
        steps = sorted(rollouts.means)
        chosen = {steps[number * (len(steps) - 1) // (STEPS - 1)] for number in range(STEPS)} if steps else set()
        for turn, step in enumerate(sorted(chosen, reverse=True)):
            of_step = watch.rows(run, step, characters=CHARACTERS)
            # Seeded, so that the same study gives the same sample.
            rows = Random(step).sample(of_step["rows"], min(ROWS, len(of_step["rows"])))
            candidates += [((nth, turn, run), step, of_step["all"], row) for nth, row in enumerate(rows)]
    for (_, _, run), step, everything, row in sorted(candidates, key=lambda each: each[0]):
        most_bytes -= len(_json(row).encode()) + 40  # 40: the row's share of the JSON around the rows
        if most_bytes < 0:
            break
        of_run = texts.setdefault(run, {})
        of_run.setdefault(step, {"all": everything, "rows": []})["rows"].append(row)
    return texts
