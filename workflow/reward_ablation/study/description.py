"""The content of `study.json`: a study in summary, its runs, and the files that it exports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.config.sections.combine import AGGREGATION, TRL_AGGREGATIONS
from reward_ablation.study.run_folder import evaluation_file
from reward_ablation.study.shown_paths import shown_path

if TYPE_CHECKING:
    from reward_ablation.study.study import Study


def summary_of(study: Study) -> dict[str, Any]:
    """What stages that work on all runs need to know about the study, except the runs themselves."""
    config = study.config
    methods = methods_of(study)
    datasets = list(zip(study.dataset_names, study.datasets, strict=True))
    return {
        "name": config.name,
        "design": config.arms.design,
        "components": list(config.components),
        "arms": [{"name": name, "weights": arm.weights, **methods.get(name, {})} for name, arm in study.arms.items()],
        "baseline": config.baseline or next(iter(study.arms)),
        "control": config.control,
        "seeds": config.seeds_in_order(study.arms),
        "datasets": list(config.data.evaluation),
        "answers": {name: f"{study.answers_folder}/{{run}}/{dataset}.parquet" for name, dataset in datasets},
        "scores": {name: f"{study.scores_folder}/{{run}}/{dataset}.parquet" for name, dataset in datasets}
        if study.scores_folder
        else {},
        **({"scoring_gpus": study.scoring.gpus} if study.scores_folder and study.scoring.gpus else {}),
        "mathematics": config.evaluation.answer_format is not None,
        "metrics": [
            {"name": name, "range": metric.range, "higher_is_better": metric.higher_is_better}
            for name, metric in config.evaluation.metrics.items()
        ],
        "questions": {name: evaluation_file(dataset) for name, dataset in datasets},
        "keep_models": config.keep_models,
        **({"shown_problems": config.figures.problems} if config.figures.problems else {}),
        "inputs": {"model": study.model_file, "problems": study.problems_file},
        "bootstrap": config.bootstrap,
        "confidence": config.confidence,
        **config.statistics.model_dump(),
        "model": title_of(config.model.model_dump(), study.root)
        + (f", fine-tuned on {title_of(config.sft.data.model_dump(), study.root)}" if config.sft else ""),
        "training_data": title_of(config.data.train.model_dump(), study.root),
    }


def methods_of(study: Study) -> dict[str, dict[str, str]]:
    """The method of combination of each arm; empty if no arm of the config sets one."""
    if not any(arm.combine for arm in study.config.expanded_arms().values()):
        return {}
    trl = {aggregation: method for method, aggregation in TRL_AGGREGATIONS.items()}
    methods = {}
    for name, arm in study.arms.items():
        aggregation = {**study.config.training, **arm.training}.get(AGGREGATION, TRL_AGGREGATIONS["weighted_sum"])
        spec = study.runs[f"{study.folders[study.keys[name]]}/seed{study.config.seeds_of(name)[0]}"].arm_spec.combine
        methods[name] = {"combine": spec.title if spec else trl[aggregation]}
    return methods


def described_runs(study: Study) -> list[dict[str, Any]]:
    """Each run of each arm, with its spec. Arms with the same spec share their runs."""
    runs = []
    for arm, key in study.keys.items():
        seeds = study.config.seeds_of(arm)
        spec = study.runs[f"{study.folders[key]}/seed{seeds[0]}"].arm_spec.content()
        for seed in seeds:
            run = study.runs[f"{study.folders[key]}/seed{seed}"]
            runs.append({"arm": arm, "key": key, "seed": seed, "folder": f"runs/{run.name}", "spec": spec})
    return runs


def diverged_runs(study: Study) -> dict[str, list[dict[str, Any]]]:
    """The key `diverged` with the folder and the step of each diverged run; empty if no run diverged."""
    runs = [{"folder": f"runs/{name}", "step": step} for name, step in study.diverged.items()]
    return {"diverged": runs} if runs else {}


def title_of(source: dict[str, Any], root: Path) -> str:
    """A source of data or of a model as a title, such as `gsm8k train` or `Qwen/Qwen2.5-1.5B-Instruct`.

    Tables, figures and exports repeat the title, so it names no folder outside the study's (`root`).
    """
    path = source.get("path")
    what = source.get("id") or (shown_path(path, root) if path else source["source"])
    return f"{what} {source['split']}" if source.get("split") else str(what)


def exported_files(layouts: Iterable[str], runs: Iterable[str], datasets: list[str]) -> list[str]:
    """Exported files of all runs, below the results folder.

    `layouts` are names of systems, and `datasets` are names of evaluation sets.
    """
    answers = [f"eval_{moment}_{name}.jsonl" for moment in ("before", "after") for name in datasets]
    of_layout = {
        "rldynamics": ["all_rewards.json"],
        "simple_grpo": ["rollouts.jsonl", *answers, "evaluation.json"],
    }
    names = list(runs)
    return [
        f"exports/{layout}/{run}/{file}"
        for layout in dict.fromkeys(layouts)
        for run in names
        for file in of_layout[layout]
    ]
