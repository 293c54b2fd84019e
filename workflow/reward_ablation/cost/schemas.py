"""Columns of the tables of runs and of costs."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, NUMBER, TEXT, columns

#: What a run cost. Two runs of one study on one machine differ in these columns if one of the runs was interrupted. The
#: columns are in the CSV file only, so that equal studies have equal Parquet files.
OF_COST = (
    (COUNT, "attempts interrupted steps_lost"),
    (NUMBER, "wall_seconds seconds_lost gpu_hours gpu_hours_lost gpu_hours_of_jobs gpu_hours_accounted"),
    (NUMBER, "cpu_hours cpu_hours_of_jobs cpu_hours_accounted"),
    (NUMBER, "evaluation_wall_hours evaluation_gpu_hours evaluation_cpu_hours"),
)
COST = columns(*OF_COST).names

#: Columns of the table of runs that are summed by arm: numbers, and times by their names in hours.
COUNTS = ["steps", "attempts", "interrupted", "steps_lost"]
TIMES = {
    "wall_hours": "wall_seconds",
    "wall_hours_lost": "seconds_lost",
    **{name: name for name in COST if name.startswith(("gpu_hours", "cpu_hours", "evaluation_"))},
}

SCHEMAS = {
    "runs": columns((TEXT, "arm key"), (COUNT, "seed steps"), *OF_COST, (TEXT, "code hardware packages")),
    "cost": columns((TEXT, "arm"), (COUNT, f"runs {' '.join(COUNTS)}"), (NUMBER, " ".join(TIMES))),
}
