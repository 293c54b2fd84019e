"""First page of the report: what the study found, its main figure, what was run, and what is missing.

The command of the report (rule `summary`) writes it as `overview.html`. The summary has more numbers; this page has
what a reader must know first.

The page is a document of its own, and the report's landing page includes the same file. So each style is limited to
the elements of this page, or to those elements of Snakemake's page that would cut this page off.
"""

from __future__ import annotations

import base64
from typing import Any

import pandas as pd
from markupsafe import Markup

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of, panels
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.training_rewards import end_of_training
from reward_ablation.analysis.words import counted, numbers, p_value
from reward_ablation.report.cost.columns import sentence as cost_sentence
from reward_ablation.report.summary import REWARDS, about_seeds, declared_sentence, known_interval, nothing_measured
from reward_ablation.study.primary import named_contrasts
from reward_ablation.system.html_page import POLICY, TEMPLATES
from reward_ablation.system.plain_values import printable

#: Most contrasts, and most lines of a list, that are written out: a free choice.
MOST_LINES = 8

#: Most sentences on imported runs that are written out: one for each arm, and some on what the files lack.
MOST_IMPORTED = 60

#: Styles of the page. Text and background have a colour each, so that the page stays legible in a browser's dark mode.
STYLE = """
main.overview { box-sizing: border-box; max-width: 60rem; padding: 1em; font: 15px/1.5 sans-serif;
  color: #222; background: #fff; color-scheme: light; overflow-wrap: anywhere; text-align: left }
main.overview h1 { font-size: 1.6em; margin: 0 0 0.4em; line-height: 1.2; color: #222 }
main.overview h2 { font-size: 1.15em; margin: 1.2em 0 0.3em; color: #222 }
main.overview p.result { font-size: 1.1em }
main.overview img { width: 100%; max-width: 100%; height: auto; margin: 0.5em 0 }
main.overview dl { display: grid; grid-template-columns: minmax(5.5em, max-content) minmax(0, 1fr); gap: 0.2em 1em }
main.overview dt { font-weight: bold; margin: 0 }
main.overview dd { margin: 0; padding: 0 }
main.overview ul { margin: 0; padding-left: 1.2em; list-style: disc }
.prose:has(main.overview) { max-width: 60rem !important }
div:has(> div > .prose main.overview) { flex-wrap: wrap; min-width: 0; max-width: 100% }
div:has(> div > .prose main.overview) > * { min-width: 0; max-width: 100% }
div:has(> div > .prose main.overview) :is(svg, canvas) { max-width: 100% !important; height: auto !important }
.h-screen:has(> div > div > .prose main.overview) { align-items: flex-start !important }
@media (max-width: 640px) {
  main.overview { padding: 0.3em }
  main.overview dl { display: block }
  .w-screen:has(main.overview) { flex-direction: column !important }
  .w-screen:has(main.overview) > nav {
    width: 100% !important; height: auto !important; max-height: 12em }
  .w-screen:has(main.overview) > .grow { height: auto !important; min-height: 0; width: 100% }
}
"""


PAGE = TEMPLATES.from_string("""\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
{{ policy }}
<title>{{ name }}</title>
<style>{{ style }}</style>
<main class="overview">
<h1>{{ name }}</h1>
{% for words in warnings %}
<p><strong>{{ words }}</strong></p>
{% endfor %}
<p>{{ question }}</p>
<p class="result">{{ result }}</p>
{% if details|length > 1 %}
{{ listed(details) }}
{% endif %}
<p>{{ certainty }}</p>
<img src="data:image/png;base64,{{ picture }}" alt="{{ alternative }}">
<h2>What was run</h2>
<dl>
{% for key, value in facts.items() %}
<dt>{{ key }}</dt><dd>{{ value }}</dd>
{% endfor %}
</dl>
{% if imported %}
<h2>Where the runs come from, and what their files lack</h2>
{{ listed(imported, most_imported) }}
{% endif %}
<h2>Missing or doubtful</h2>
{{ listed(missing) }}
</main>
""")


def overview(study: StudyFile, tables: dict[str, pd.DataFrame], cost: pd.DataFrame, picture: bytes) -> str:
    """The page as HTML; `picture` is the figure of the primary contrasts, or of the training rewards, as PNG."""
    if study.datasets:
        asked, pictured = question(study), "primary comparison"
        result, details = primary_result(study, tables["paired_differences"], tables["evaluation_by_arm"])
        caveat = certainty(study, tables["paired_differences"])
    else:
        asked, pictured = "Nothing was evaluated: the study compares the scores of training alone.", "training rewards"
        result, details = training_result(study, tables[REWARDS])
        caveat = (
            f"Each arm has {study.counted_seeds}. Intervals are over seeds, and not corrected for their number. Higher "
            "training scores do not show that a model is better on other problems."
        )
    return PAGE.render(
        policy=POLICY,
        style=Markup(STYLE),
        name=printable(study.name),
        warnings=[printable(unmarked(words)) for words in nothing_measured(study, tables["evaluation_by_run"])],
        question=printable(asked),
        result=printable(result),
        details=details,
        certainty=printable(caveat),
        picture=base64.b64encode(picture).decode(),
        alternative=printable(f"Figure of the {pictured}. {' '.join([result, *details])}"),
        facts={key: printable(value) for key, value in run_facts(study, cost).items()},
        missing=missing(study, tables),
        imported=study.imported,
        most_imported=MOST_IMPORTED,
        listed=listed,
    )


def unmarked(words: str) -> str:
    """Words of the summary without the marks of Markdown."""
    return words.replace("*", "").replace("`", "")


def listed(lines: list[str], most: int = MOST_LINES) -> Markup:
    """HTML list of lines of text, of which at most `most` are written out."""
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    items = [Markup("<li>{}</li>").format(printable(line)) for line in [*lines[:most], *more]]
    return Markup("<ul>\n{}\n</ul>").format(Markup("\n").join(items))


def primary_result(study: StudyFile, differences: pd.DataFrame, evaluation: pd.DataFrame) -> tuple[str, list[str]]:
    """The answer to the primary question in one or two sentences, and a line for each contrast."""
    if study.primary_not_shown:
        return study.primary_not_shown, []
    primary = study.primary
    where = f"{name_of(primary.metric)} on {primary.dataset} ({primary.mode})"
    rows = differences[differences["family"] == "primary"]
    if rows.empty:
        of_question = [evaluation[column] == getattr(primary, column) for column in ("dataset", "mode", "metric")]
        values = evaluation[of_question[0] & of_question[1] & of_question[2]]
        lines = [f"{row.arm}: {in_words(study, row)}" for row in values.itertuples()]
        not_shown = "No declared comparison can be shown, as runs are missing"
        none = not_shown if study.is_partial else "The study compares no two arms"
        return f"{none}. Mean {where}: {'; '.join(lines)}.", []
    level = level_of(study.confidence)
    lines = [contrast_line(study, row) for row in rows.itertuples()]
    significant = rows[rows["p_holm"] < level]
    if len(rows) == 1:
        verdict = "The difference is significant." if len(significant) else "The study cannot tell the two arms apart."
        return f"Difference in {where}, {lines[0]}. {verdict}", lines
    names = ", ".join(f"{row.arm} against {row.baseline}" for row in significant.head(MOST_LINES).itertuples())
    result = f"{len(significant)} of {len(rows)} differences in {where} are significant after Holm's correction"
    return f"{result}{': ' if names else ''}{names}{' and more' * (len(significant) > MOST_LINES)}.", lines


def training_result(study: StudyFile, rewards: pd.DataFrame) -> tuple[str, list[str]]:
    """How the scores at the end of training differ from the baseline's: a sentence, and a line for each difference."""
    rows = [row for row in end_of_training(study, rewards) if row.arm != study.baseline]
    apart = [row for row in rows if row.low > 0 or row.high < 0]
    words = [" ".join(known_interval(row.difference, row.low, row.high)) for row in rows]
    lines = [f"{row.arm} minus {study.baseline}, {row.component}: {of}" for row, of in zip(rows, words, strict=True)]
    return (
        f"Mean scores over the last tenth of the training steps: {len(apart)} of "
        f"{counted(len(rows), 'difference')} to {study.baseline} have an interval without 0.",
        lines,
    )


def question(study: StudyFile) -> str:
    """What the study was made to find out, and since when this is declared."""
    primary = study.primary
    none = "no comparison that can be shown" if study.is_partial else "no comparison of two arms"
    contrasts = named_contrasts(primary.contrasts) or none
    where = f"{name_of(primary.metric)} on {primary.dataset} ({primary.mode})"
    return f"The question: {where}, {contrasts}. {declared_sentence(primary)}"


def certainty(study: StudyFile, differences: pd.DataFrame) -> str:
    """What the intervals rest on, what the number of seeds allows to say, and what else was looked at."""
    rows = differences[differences["family"] == "primary"]
    questions = f", evaluated on {rows['questions'].max():,} questions" if len(rows) else ""
    others = len(differences) - len(rows)
    sets = ", modes and data sets" if len(study.datasets) > 1 else " and modes"
    exploratory = f"{counted(others, 'other difference')} of arms, in other metrics{sets} or against other arms"
    return (
        f"Each arm has {study.counted_seeds}{questions}. {unmarked(about_seeds(study))} "
        f"All else is exploratory: {exploratory}, "
        "effects of components, training and gradients, in the tables and figures of this report."
    )


def contrast_line(study: StudyFile, row: Any) -> str:
    """The difference of one contrast with its interval and p-value, and its decision in a sequential study."""
    decision = f"; decision: {row.decision}" if isinstance(row.decision, str) else ""
    holm = p_value(row.p_holm, level_of(study.confidence))
    return f"{row.arm} minus {row.baseline}: {in_words(study, row, f', Holm p {holm}')}{decision}"


def in_words(study: StudyFile, row: Any, after: str = "") -> str:
    """An estimate of the primary metric with its interval: `0.15 (95 % interval 0.10 to 0.20)`."""
    limits = metrics_of_study(study).limits(study.primary.metric)
    estimate, low, high = numbers(limits, row.estimate, row.low, row.high)
    return f"{estimate} ({100 * study.confidence:g} % interval {low} to {high}{after})"


def run_facts(study: StudyFile, cost: pd.DataFrame) -> dict[str, str]:
    """Facts about what was run, by their keys."""
    runs = len({run.folder for run in study.runs})
    return {
        "Model": study.model,
        "Training data": study.training_data,
        "Components": ", ".join(study.components),
        "Arms × seeds": f"{counted(len(study.arms), 'arm')} × {study.counted_seeds}: {counted(runs, 'run')}; design "
        f"{study.design}, baseline {study.baseline}",
        "Evaluation": ", ".join(study.datasets) or "none",
        "Hours": cost_sentence(cost.iloc[-1]),
        "Intervals": f"{100 * study.confidence:g} %, over "
        + ("seeds" if not study.datasets else "questions only" if study.seed_counts[1] == 1 else "seeds and questions"),
    }


def missing(study: StudyFile, tables: dict[str, pd.DataFrame]) -> list[str]:
    """Caveats: unfinished and diverged runs, open looks, single seeds, flagged arms, provenance, unscored questions."""
    preview, looks = study.preview, study.sequential
    single = [arm for arm in study.arm_names if len(study.runs_of(arm)) == 1]
    mixed = tables["provenance"].loc[tables["provenance"]["mixed"].astype(bool), "quantity"].unique()
    lines = []
    if preview is not None:
        lines += [f"Preview of {preview.runs} of {preview.planned} runs. {preview.caution}", *preview.missing]
    lines += study.left_out
    if study.is_sequential and looks is not None and looks.next_look is not None:
        lines.append("The sequential study is not finished: the next start runs the next look.")
    if single:
        lines.append(f"Arms with one seed, so that nothing is known of other seeds: {', '.join(single)}.")
    if flagged := flagged_arms(study, tables["evaluation_by_arm"]):
        where = f"{study.primary.dataset} ({study.primary.mode})"
        differ = "whose seeds differ more than those of the other arms"
        lines.append(f"Flagged arms on {where}, {differ}: {', '.join(flagged)}.")
    if len(mixed):
        lines.append(f"Runs differ in {', '.join(mixed)} (see Provenance).")
    if study.datasets:
        unscored = tables["evaluation_by_run"].groupby("dataset", sort=False)["unscored"].max()
        lines += [
            f"{dataset}: {counted(left_out, 'question')} left out, because a metric gave no score to an answer."
            for dataset, left_out in unscored[unscored > 0].items()
        ]
    beside = " beside the list above" * bool(study.imported)
    return lines or [
        f"Nothing{beside}: all planned runs are finished, each arm has several seeds, "
        "and no arm is flagged in the metrics of this page."
    ]


def flagged_arms(study: StudyFile, evaluation: pd.DataFrame) -> list[str]:
    """Arms that are flagged in the primary data set and mode, with the metrics, such as `mixed (format adherence)`."""
    primary = study.primary
    rows = evaluation[(evaluation["dataset"] == primary.dataset) & (evaluation["mode"] == primary.mode)]
    rows = rows[rows["flagged_arms"].notna() & rows["metric"].isin([primary.metric, *panels(study)])]
    return [f"{arm} ({', '.join(map(name_of, of_arm['metric']))})" for arm, of_arm in rows.groupby("arm", sort=False)]
