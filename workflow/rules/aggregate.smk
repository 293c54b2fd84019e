TABLES = [
    "provenance",
    "evaluation_by_run",
    "evaluation_by_arm",
    "paired_differences",
    "component_effects",
    "across_datasets",
    "learning_curves",
    "problem_curves",
    "examples",
    "rewards_by_step",
    "similarity_by_step",
    "similarity_by_arm",
    "signals_by_step",
    "component_correlations",
    "sampling_gaps",
    "predictors",
    "reward_hacking",
    "alignment_by_step",
    "split_halves",
    "what_if",
    "what_if_points",
    "what_if_check",
]


rule describe:
    """What the study consists of, for the stages that look at all runs."""
    output:
        study="<results>/study.json",
    log:
        "<logs>/describe.log",
    params:
        digest=study.digest,
    message:
        "describe the study"
    run:
        study.describe(output.study, log[0])


rule aggregate:
    """Tables of all runs: intervals, differences, rewards and similarities by step."""
    input:
        study="<results>/study.json",
        runs=expand("<results>/runs/{run}/run.json", run=study.runs),
        evaluation=expand(
            f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.parquet",
            run=["base", *study.runs],
            dataset=study.datasets,
        ),
        kept=expand(
            f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.steps.parquet",
            run=study.keeping_runs,
            dataset=study.datasets,
        ),
        problems=expand(
            "<results>/data/evaluation/{dataset}.parquet", dataset=study.datasets
        ),
    output:
        runs="<results>/tables/runs.csv",
        runs_parquet="<results>/tables/runs.parquet",
        tables=expand(
            "<results>/tables/{table}.{ending}",
            table=TABLES,
            ending=["csv", "parquet"],
        ),
        provenance=report(
            "<results>/tables/provenance.html",
            category="Provenance",
            caption="../report/provenance.rst",
            labels={"title": "Code, packages and hardware", "format": "HTML"},
        ),
        examples_page=report(
            "<results>/tables/examples.html",
            category="Examples",
            caption="../report/examples_page.rst",
            labels={"title": "Examples of answers", "format": "HTML"},
        ),
        cost="<results>/tables/cost.csv",
        cost_page=report(
            "<results>/tables/cost.html",
            category="Cost",
            caption="../report/cost.rst",
            labels={"title": "Hours by arm", "format": "HTML"},
        ),
    log:
        "<logs>/aggregate.log",
    benchmark:
        "<benchmarks>/aggregate.tsv"
    params:
        code=study.code_of("analysis"),
        mixed=study.config.mixed_provenance,
    message:
        "aggregate all runs into tables"
    shell:
        'exec python -m reward_ablation.analysis --study {input.study:q} --results "$(dirname {input.study:q})"'
        ' --output "$(dirname {output.runs:q})" --mixed-provenance {params.mixed} > {log:q} 2>&1'
