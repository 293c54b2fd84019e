"""Summary of a study on one page of words and numbers, as plain Markdown that can be pasted into a paper.

The command of the report (rule `summary`) writes it as `summary.md`. The first page and the main table take sentences
from here.

A row that shows one row of a table's CSV file ends with the number of that row, not counting the line of column names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reward_ablation.analysis.claims_text import (
    cautions,
    claimed_difference,
    known,
    measured_difference,
    since,
    verdicts,
    withdrawn,
)
from reward_ablation.analysis.evaluation.effects import NO_COMMON_SEED, lack_a_common_seed
from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.provenance import sentence as provenance_sentence
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.statistics.limits import UNLIMITED, Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.training_rewards import end_of_training
from reward_ablation.analysis.words import counted, number, numbers, p_value
from reward_ablation.config.sections.evaluation import OF_ALL_TASKS
from reward_ablation.report.cost.columns import sentence as cost_sentence
from reward_ablation.study.looks import looks_text
from reward_ablation.study.primary import Primary
from reward_ablation.study.standing import when_sentence
from reward_ablation.system.plain_values import printable

#: Tables that are read for every summary, beside cost.csv.
TABLES = ["evaluation_by_arm", "evaluation_by_run", "paired_differences", "component_effects", "reward_hacking"]
TABLES += ["provenance"]

#: Additional tables of studies that make claims, and that have methods of combination.
CLAIMS, SIZES = "claims", "advantage_size"

#: Additional table of a study without evaluation.
REWARDS = "rewards_by_step"

#: Metrics of mathematics that the summary gives for each arm.
OF_MATHEMATICS = ("accuracy_strict", "accuracy_lenient", "format")

#: Definitions of an effect in words.
METHODS = {
    "leave_one_out": "the arm with all components minus the one that lacks this one",
    "over_control": "the arm with this component alone minus the control arm",
    "main_effect": "mean difference that the component makes beside each set of the others",
    "quadratic_regression": "quadratic regression on shares of weights, this component alone minus the others",
    "regression": "regression on shares of weights, this component alone minus the others",
}

#: Why studies of a design have no effects.
NO_EFFECTS = {
    "one_at_a_time": "a component alone has an effect over a control arm (`control`), which this study does not have",
    "factorial": "a factorial design of two components or more needs an arm for each set of them, at one weight each",
    "simplex": "a regression needs more arms whose components TRL combines than components",
}

#: The summary warns of fewer seeds than this. From this number on it gives the range of the seeds' values.
FEW_SEEDS = 5

#: Why there is no primary comparison.
NONE_DECLARED = "None: the study declares no comparison of two arms."
NONE_SHOWN = "None can be shown: runs of the declared comparisons are missing, as said above."

#: An interval that covers at least this share of the range says nothing (a free choice); differences have twice the
#: range. The interval of an arm's count says nothing if it reaches 0 and the mean does not.
NOTHING_KNOWN = 0.95


def summary(study: StudyFile, tables: dict[str, pd.DataFrame], cost: pd.DataFrame) -> str:
    """The summary as Markdown, from `TABLES` by name, and `CLAIMS`, `SIZES` and `REWARDS` if the study has them."""
    last = [
        "## Provenance and cost",
        f"Trained by (table `provenance`): {plain(provenance_sentence(tables['provenance']))}.",
        f"Cost (table `cost`, row {len(cost)}): {cost_sentence(cost.iloc[-1])}.",
    ]
    if not study.datasets:
        first = [f"# {study.name}", *notices(study), setting(study), "## Arms", weights(study)]
        return "\n\n".join([*first, *training_rewards(study, tables[REWARDS]), *last]) + "\n"
    margin = study.equivalence_margin
    equivalence = "" if margin is None else f"p of ±{margin:g} or more: of each row alone, uncorrected. "
    parts = [
        f"# {study.name}",
        *notices(study),
        setting(study),
        *nothing_measured(study, tables["evaluation_by_run"]),
        *primary_question(study, tables["paired_differences"]),
        *claims(study, tables.get(CLAIMS)),
        "The last column is the row in the CSV file of the named table, not counting the line of column names. "
        f"Brackets: {100 * study.confidence:g} % intervals over {over_words(study)}. They are not corrected for their "
        f"number. Holm p: corrected within one table. {equivalence}{meanings(study)}"
        + "`base` is the model before training."
        * study.has_base,
        about_seeds(study),
        "All that follows is exploratory: Holm p is corrected for the rows of its table, not for the whole page.",
        "## Arms",
        weights(study),
        *advantage_sizes(study, tables.get(SIZES)),
        *evaluation(study, tables["evaluation_by_arm"], tables["evaluation_by_run"]),
        *differences(study, tables["paired_differences"]),
        *effects(study, tables["component_effects"]),
        *reward_hacking(tables["reward_hacking"]),
        *last,
    ]
    return "\n\n".join(parts) + "\n"


def notices(study: StudyFile) -> list[str]:
    """What a reader must know first: that this is a preview, or that runs diverged or were trained elsewhere."""
    preview, parts = study.preview, []
    if preview:
        words = f"**Preview of {preview.runs} of {preview.planned} runs.** {preview.caution}"
        parts += [words, bullets(preview.missing)]
    if study.left_out:
        words = (
            "**Runs diverged, and are left out of all numbers**, because their models have values without a meaning."
        )
        parts += [words, bullets(study.left_out)]
    if study.imported:
        parts += ["**Runs that were trained elsewhere**, and what their files lack:", bullets(study.imported)]
    return [part for part in parts if part]


def bullets(lines: Iterable[str]) -> str:
    """A list in Markdown, with each line as it is."""
    return "\n".join(f"- {plain(printable(line))}" for line in lines)


def training_rewards(study: StudyFile, rewards: pd.DataFrame) -> list[str]:
    """Section on the scores at the end of training, which a study without evaluation compares."""
    cells = [
        [row.arm, row.component, number(row.mean, UNLIMITED)]
        + (["–", "–"] if row.arm == study.baseline else known_interval(row.difference, row.low, row.high))
        for row in end_of_training(study, rewards)
    ]
    return [
        "## Scores at the end of training",
        "Nothing was evaluated, so these scores of the training completions are all that the study compares. They are "
        "means over the last tenth of the steps and over seeds (table `rewards_by_step`). Differences are paired by "
        f"seed. Brackets: {100 * study.confidence:g} % intervals over seeds by Student's t, not corrected for their "
        "number. Runs that sample other prompts at these steps differ for that reason, too.",
        markdown(["arm", "component", "mean score", f"difference to {study.baseline}", "interval"], cells),
    ]


def setting(study: StudyFile) -> str:
    """Sentences on the model, data, arms, components, seeds and evaluation of the study."""
    evaluated = f"Evaluated on {', '.join(study.datasets)}." if study.datasets else "Nothing was evaluated."
    trained = "trained" if study.imported else "trained with GRPO"
    seeds = ("" if study.seed_sets <= {frozenset(study.seeds)} else "of ") + ", ".join(map(str, study.seeds))
    components = ", ".join(study.components)
    weightings = {tuple(arm.weights.values()) for arm in study.arms}  # arms may differ in other things alone
    arms = "arms" if len(weightings) == len(study.arms) else counted(len(study.arms), "arm")
    return (
        f"{plain(study.model)}, {trained} on {plain(study.training_data)} under "
        f"{counted(len(weightings), 'weighting')} ({arms}, design {study.design}) of the reward components "
        f"{components}, each with {study.counted_seeds} ({seeds}). {evaluated} Baseline: {study.baseline}."
    )


def meanings(study: StudyFile) -> str:
    """Meanings of the metrics: of accuracy in a study of mathematics, and of the study's own metrics."""
    words = []
    if study.mathematics:
        words.append(
            "Strict accuracy counts a right answer only where the requested format puts it; lenient accuracy counts it "
            "in any form."
        )
    for name, metric in study.metrics.items():
        range_ = "without limits" if metric.range is None else f"from {metric.range[0]:g} to {metric.range[1]:g}"
        better = "" if metric.higher_is_better else ", lower is better"
        words.append(f"`{name}`: a metric of the study's own, {range_}{better}.")
    return " ".join(words) + " "


def over_words(study: StudyFile) -> str:
    """What intervals of the evaluation are over."""
    one_seed = study.seed_counts[1] == 1
    over = "questions only: nothing is known of other seeds" if one_seed else "seeds and questions"
    return over + "; base model: over questions only" * (study.has_base and not one_seed)


def nothing_measured(study: StudyFile, by_run: pd.DataFrame) -> list[str]:
    """Warning if all of several models have one value of the primary metric, or 0 as no answer has its format."""
    primary = study.primary
    rows = by_run[(by_run["dataset"] == primary.dataset) & (by_run["mode"] == primary.mode)]
    values = rows.loc[rows["metric"] == primary.metric, "value"]
    format_shares = rows.loc[rows["metric"] == "format", "value"]
    name, limits = name_of(primary.metric), metrics_of_study(study).limits(primary.metric)
    needs_format = primary.metric not in (*study.metrics, *OF_ALL_TASKS, "accuracy_lenient", "format")
    if needs_format and len(format_shares) and not format_shares.any() and len(values) and not values.any():
        return [
            f"**The primary metric means nothing here:** no answer of any model was found in the format that "
            f"`evaluation.answer_format` asks for, so {name} is 0 whatever the models answer. To judge these answers, "
            "set another `answer_format`, or `evaluation.metrics` for a task that is not mathematics."
        ]
    if len(values) > 1 and values.nunique() == 1:
        return [
            f"**The primary metric says nothing here:** {name} is {number(values.iloc[0], limits)} for every model, "
            "trained or not."
        ]
    return []


def about_seeds(study: StudyFile) -> str:
    """Sentence on what the study's number of seeds allows to conclude."""
    (fewest, most), seeds = study.seed_counts, study.counted_seeds
    if most == 1:
        return "One seed: the intervals are over questions only, and nothing here is known of other seeds."
    if fewest == 1:
        return (
            "Some arms have one seed. Intervals of these arms, and of their differences to arms with this seed, are "
            "over questions only, and nothing is known of other seeds of these arms."
        )
    if fewest >= FEW_SEEDS:
        return f"Intervals and tests treat the {seeds} and the questions as random samples of all seeds and questions."
    borrowed = (
        "So intervals and tests also use how much the seeds of the other arms differ, except for arms whose seeds "
        "clearly differ more (table `evaluation_by_arm`, column `flagged_arms`)."
    )
    own = "Intervals and tests partly rest on this, and other seeds may give another result."
    borrows = study.seed_variance == "moderated" and len({*study.same_runs.values()}) > 2  # from two others or more
    reason = borrowed if borrows else own
    return (
        f"{seeds} say little about how much seeds differ. {reason} That is why two equal means can have intervals of "
        "different lengths."
    )


def primary_question(study: StudyFile, table: pd.DataFrame) -> list[str]:
    """Section on the primary question: when it was declared, and the differences that answer it."""
    rows = numbered(table)
    rows = rows[rows["family"] == "primary"]
    if rows.empty:
        none = NONE_SHOWN if study.is_partial else NONE_DECLARED
        return ["## Primary question", study.primary_not_shown or none]
    primary = study.primary
    name = name_of(primary.metric)
    result = significant(rows, "arm", study.confidence)
    # The test of equivalence does not hold for several looks, so a sequential study shows its decisions instead.
    margin, more = (None, ["seeds", "decision"]) if study.is_sequential else (study.equivalence_margin, [])
    return [
        "## Primary question",
        declared_sentence(primary) + arms_since_sentence(study),
        *sequential(study),
        f"{primary.dataset}, {primary.mode}, {name} (table `paired_differences`): {result}",
        compared(study, rows, ["arm", "baseline"], "difference", margin, more),
        *pooled(study, rows),
    ]


def pooled(study: StudyFile, rows: pd.DataFrame) -> list[str]:
    """The primary intervals if the seeds of all arms differ alike; nothing where unknown, or with sequential seeds."""
    limits = metrics_of_study(study).limits(study.primary.metric)
    shown = rows[rows["pooled_low"].notna()]
    ends = [", ".join(numbers(limits, *map(float, row))) for row in shown[["pooled_low", "pooled_high"]].to_numpy()]
    of_rows = zip(shown["arm"], shown["baseline"], ends, strict=True)
    intervals = [f"{arm} against {baseline} [{low_and_high}]" for arm, baseline, low_and_high in of_rows]
    if not intervals or study.is_sequential:
        return []
    return [
        f"A check, and not the answer: if the seeds of all arms differed alike, the intervals would be "
        f"{', '.join(intervals)} (columns `pooled_low`, `pooled_high`). They are too short where the seeds of one arm, "
        "above all of the baseline, differ more than those of the others."
    ]


def declared_sentence(primary: Primary) -> str:
    """When the question was declared, as a sentence, and how many others stood before it was put back."""
    if not primary.declared:
        return "Never declared."
    others = len(primary.earlier) - len(primary.replaced)
    between = f" In between, {others} other question{' was' if others == 1 else 's were'} declared." if others else ""
    return when_sentence(primary.runs_then, "Changed" if primary.replaced else "Declared") + between


def arms_since_sentence(study: StudyFile) -> str:
    """Which arms came after the declaration, and which went, as the end of a paragraph; empty where none did."""
    added, removed = ", ".join(study.added_arms), ", ".join(study.removed_arms)
    words = f" Added or changed later, and without a part in the variance between seeds here: {added}." if added else ""
    return words + (f" Taken out since, with the part that they had in it: {removed}." if removed else "")


def sequential(study: StudyFile) -> list[str]:
    """Progress of a sequential study and meaning of its intervals; empty for a study that was never sequential."""
    record = study.sequential
    if record is None:
        return []
    words = looks_text(record, study.primary.contrasts)
    if not record.in_force:
        return [f"**{words[0].upper()}{words[1:]}**, and this is a list of seeds: {', '.join(map(str, study.seeds))}."]
    but_claims = ", but those of claims on these comparisons," * any(map(study.last_look, study.claims))
    if not record.taken:
        return [
            f"Sequential seeds: {words}. **No look was taken yet:** these intervals and Holm p ignore that the study "
            "has looks, and decide nothing."
        ]
    unfinished = "" if record.next_look is None else " **Not finished:** the next start runs the next look."
    return [
        f"Sequential seeds: {words}.{unfinished}",
        "Each row is from its contrast's last look. The interval is a repeated confidence interval, which holds for "
        f"all looks together. Holm p is corrected for looks and contrasts. All other numbers on this page{but_claims} "
        "ignore that the study has looks.",
    ]


def claims(study: StudyFile, table: pd.DataFrame | None) -> list[str]:
    """Section on the claims, with the verdict on each; empty for a study that never made claims."""
    taken_out, parts = bullets(withdrawn(study)), []
    if table is not None:
        parts = [f"{verdicts(table, study)} (table `claims`)."]
        parts += [claim_card(row, study) for row in numbered(table).itertuples()]
    parts += [taken_out] * bool(taken_out)
    return ["## Claims", *parts] if parts else []


def claim_card(row: Any, study: StudyFile) -> str:
    """Markdown list item of one claim: verdict, text, source, claimed and measured difference, cautions."""
    says, source = (plain(printable(known(text))) for text in (row.says, row.source))
    lines = [
        f"- **{row.claim}: {row.verdict}** (row {row.row}). {says}" + (f" (source: {source})" if source else ""),
        f"  - claimed: {claimed_difference(row)}",
        f"  - measured: {measured_difference(row, study)}",
        f"  - {' '.join(filter(None, [since(row), cautions(row, study)]))}",
    ]
    return "\n".join(lines)


def weights(study: StudyFile) -> str:
    """Table of the weights of the arms. A component that does not score an arm's runs has a dash."""
    has_methods = any(arm.combine for arm in study.arms)
    rows = [[arm.name, *[arm.combine or ""] * has_methods, *study.weights_text(arm)] for arm in study.arms]
    return markdown(["arm", *["combination"] * has_methods, *study.components], rows)


def advantage_sizes(study: StudyFile, table: pd.DataFrame | None) -> list[str]:
    """Section on the size of the advantages; empty for a study without methods of combination."""
    if table is None or table.empty:
        return []
    rows = numbered(table)
    cells = []
    for _, row in rows.iterrows():
        size = known_interval(*row[["estimate", "low", "high"]])
        ratio = known_interval(*row[["ratio", "ratio_low", "ratio_high"]])
        cells.append([row["arm"], *size, *(["1", "–"] if row["arm"] == study.baseline else ratio), row["row"]])
    ordered, range_ = rows.dropna(subset="ratio").sort_values("ratio", kind="stable"), ""
    if len(ordered) > 1:  # ratios, as sizes are over each arm's own seeds, and so cannot be compared
        ratios = zip(numbers(UNLIMITED, *ordered["ratio"].iloc[[0, -1]]), ordered["arm"].iloc[[0, -1]], strict=True)
        low, high = (f"{ratio} ({arm})" for ratio, arm in ratios)
        range_ = f" Ratios to {study.baseline} go from {low} to {high}."
    return [
        "## Size of the advantages",
        f"Root mean square of all completions' advantages (table `advantage_size`).{range_} Ratio: over the seeds that "
        "both arms have. Intervals: over seeds, or over the steps of a single seed. Arms with "
        "larger advantages take larger steps, as if they had a higher learning rate. A gain of one arm over another "
        "may come from this alone. Adam removes a constant factor. It does not remove the factor's change over "
        "training, nor the factor's effect on clipped gradients, a KL term and weight decay.",
        markdown(["arm", "size", "interval", f"over {study.baseline}", "interval", "row"], cells),
    ]


def known_interval(estimate: float, low: float, high: float) -> list[str]:
    """Cells of an estimate and its interval. An arm with one seed and few steps has no interval."""
    value, *ends = numbers(UNLIMITED, estimate, low, high)
    return [value, "not known" if np.isnan(low) else f"[{ends[0]}, {ends[1]}]"]


def datasets_and_modes(study: StudyFile, table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Rows of each data set and mode, the primary question's first."""
    rows_of = dict(iter(table.groupby(["dataset", "mode"], sort=False)))
    return [(*kind, rows_of[kind]) for kind in study.datasets_and_modes if kind in rows_of]


def evaluation(study: StudyFile, table: pd.DataFrame, by_run: pd.DataFrame) -> list[str]:
    """Section on the evaluation of the base model and the arms, with the values of single seeds."""
    parts, metrics = ["## Evaluation"], metrics_of_study(study)
    shown = [*(OF_MATHEMATICS if study.mathematics else ()), *study.metrics]
    shown += [] if "tokens" in study.unmeasured else ["tokens"]
    for dataset, mode, rows in datasets_and_modes(study, numbered(table)):
        cells = [
            [arm, name_of(metric), *estimate(row, metrics.limits(metric)), of_seeds(study, by_run, row), row["row"]]
            for arm in study.evaluated_names
            for metric in shown
            for _, row in rows[(rows["arm"] == arm) & (rows["metric"] == metric)].iterrows()
        ]
        questions = counted(int(rows["questions"].max()), "question")
        left_out = by_run.loc[by_run["dataset"] == dataset, "unscored"].max()
        questions += f"; left out, because a metric gave no score to an answer: {left_out:,}" if left_out else ""
        parts += [
            f"{dataset}, {mode}, {questions} (table `evaluation_by_arm`):",
            markdown(["arm", "metric", "mean", "interval", "by seed", "row"], cells),
        ]
    return parts


def of_seeds(study: StudyFile, by_run: pd.DataFrame, row: pd.Series) -> str:
    """Values of an arm's seeds in their order, or the range of many values; a dash for the base model."""
    same = [by_run[name] == row[name] for name in ("arm", "dataset", "mode", "metric")]
    limits = metrics_of_study(study).limits(row["metric"])
    values = by_run[np.logical_and.reduce(same)].dropna(subset="seed").sort_values("seed")["value"]
    if len(values) >= FEW_SEEDS:
        return " to ".join(numbers(limits, values.min(), values.max()))
    return ", ".join(numbers(limits, *values)) or "–"


def differences(study: StudyFile, table: pd.DataFrame) -> list[str]:
    """Sections on the exploratory differences in the main metric to the baseline and to the control arm."""
    parts = []
    for against in dict.fromkeys(name for name in (study.baseline, study.control) if name):
        parts.append(f"## Differences to {against} in {name_of(study.main_metric)}")
        exploratory = datasets_and_modes(
            study, of_metric(table, study.main_metric).query("baseline == @against and family == 'exploratory'")
        )
        for dataset, mode, rows in exploratory:
            result = significant(rows, "arm", study.confidence)
            parts += [
                f"{dataset}, {mode} (table `paired_differences`): {result}",
                compared(study, rows, ["arm"], "difference", study.equivalence_margin, ["provenance"]),
            ]
        if not exploratory:
            parts.append("None beside the primary question." if len(table) else "None: the study has one arm.")
    return parts


def effects(study: StudyFile, table: pd.DataFrame) -> list[str]:
    """Section on the effects of the components on the main metric, by the design's definition."""
    parts = [f"## Effects of the components on {name_of(study.main_metric)}"]
    of_kinds = datasets_and_modes(study, of_metric(table, study.main_metric))
    for dataset, mode, rows in of_kinds:
        # All effects of a study have one method and the same seeds, so the first row stands for all.
        method, estimated = rows["method"].iloc[0], rows[rows["estimate"].notna()]
        over = over_seeds(study, int(rows["seeds"].iloc[0]))
        lead = f"{dataset}, {mode}, {METHODS.get(method, method)}{over} (table `component_effects`):"
        if estimated.empty:
            parts.append(f"{lead} none, as {rows['note'].iloc[0]}.")
        else:
            parts += [lead, compared(study, estimated, ["component"], "effect")]
    if not of_kinds:
        of_design = NO_EFFECTS.get(study.design, "the arms of this study do not allow any")
        parts.append(f"None: {NO_COMMON_SEED if lack_a_common_seed(study) else of_design}.")
    return parts


def over_seeds(study: StudyFile, seeds: int) -> str:
    """Words on the seeds of effects, where arms have other numbers of seeds; else nothing."""
    if study.seed_counts == (seeds, seeds):
        return ""
    alone = ", with intervals over questions only" * (seeds == 1)
    return f", over the {counted(seeds, 'seed')} that all arms of the effects have{alone}"


def reward_hacking(table: pd.DataFrame) -> list[str]:
    """Section on the signs of reward hacking, with a sentence for each."""
    if table.empty:
        return ["## Signs of reward hacking", "Nothing could be compared: the table `reward_hacking` has no rows."]
    signs = numbered(table)
    signs = signs[signs["sign"].astype(bool)]
    lines = [f"- {plain(words)} (row {row})" for words, row in zip(signs["sentence"], signs["row"], strict=True)]
    count = f"{counted(len(signs), 'sign')} among {counted(len(table), 'comparison')}"
    return ["## Signs of reward hacking", f"{count} (table `reward_hacking`).", *(["\n".join(lines)] if lines else [])]


def compared(
    study: StudyFile,
    rows: pd.DataFrame,
    labels: list[str],
    kind: str,
    margin: float | None = None,
    more: Sequence[str] = (),
) -> str:
    """Markdown table of `numbered` rows: `labels`, estimates headed `kind`, intervals, tests (with a `margin` two)."""
    metrics = metrics_of_study(study)
    tests = {"p_holm": "Holm p"} | ({} if margin is None else {"p_equivalent": f"p of ±{margin:g} or more"})
    cells = [
        [
            *row[labels],
            *estimate(row, metrics.limits(row["metric"]), signed=True),
            *[p_value(p, level_of(study.confidence)) for p in row[[*tests]]],
            *row[[*more, "row"]],
        ]
        for _, row in rows.iterrows()
    ]
    named = ["against" if label == "baseline" else label for label in labels]
    return markdown([*named, kind, "interval", *tests.values(), *more, "row"], cells)


def significant(rows: pd.DataFrame, label: str, confidence: float) -> str:
    """Say in a sentence which rows are significant after Holm's correction."""
    level = level_of(confidence)
    names = list(rows.loc[rows["p_holm"] < level, label])
    return f"{len(names)} of {len(rows)} with Holm p < {level:g}" + (f": {', '.join(names)}." if names else ".")


def of_metric(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows of a metric, with their numbers in the CSV file."""
    rows = numbered(table)
    return rows[rows["metric"] == metric]


def numbered(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column `row`: the number of each row in the table's CSV file, from 1."""
    return table.assign(row=range(1, len(table) + 1))


def estimate(row: pd.Series, limits: Limits, signed: bool = False) -> list[str]:
    """Cells of a row's estimate and interval; `signed` for a difference, which goes to either side of 0."""
    mean, low, high = numbers(limits, row["estimate"], row["low"], row["high"])
    reach = (limits.high - limits.low) * (2 if signed else 1)
    whole_range = limits.finite and row["high"] - row["low"] >= NOTHING_KNOWN * reach
    says_nothing = whole_range or (not (limits.finite or signed) and row["low"] == limits.low < row["estimate"])
    return [mean, f"[{low}, {high}]{' (says nothing)' if says_nothing else ''}"]


def plain(words: str) -> str:
    """Escape for Markdown what it would not show as it is, so not the underscores in a_b; the text becomes one line."""
    special = r"[\\`*$|<\[\]~&]|(?<!\w)_+|_+(?!\w)"
    return re.sub(special, lambda found: "".join(f"\\{character}" for character in found[0]), " ".join(words.split()))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
