SUMMARY_TABLES = [
    "evaluation_by_arm",
    "evaluation_by_run",
    "paired_differences",
    "component_effects",
    "reward_hacking",
    "provenance",
]
CLAIMS = ["<results>/tables/claims.parquet"] if study.claims else []
SIZES = (
    ["<results>/tables/advantage_size.parquet"]
    if "combination" in study.asked_tables
    else []
)
SURFACE = (
    ["<results>/tables/weight_surface_check.parquet"]
    if "weight_surface" in study.asked_tables
    else []
)


rule report_pages:
    """Pages of the report on the study itself: config, arms and runs, environment, commands."""
    input:
        study="<results>/study.json",
    output:
        config=report(
            "<results>/report/config.html",
            category="Study",
            caption="../report/config.rst",
            labels={"title": "Config", "format": "HTML"},
        ),
        arms=report(
            "<results>/report/arms.html",
            category="Study",
            caption="../report/arms_and_runs.rst",
            labels={"title": "Arms and runs", "format": "HTML"},
        ),
        environment=report(
            "<results>/report/environment.html",
            category="Study",
            caption="../report/environment.rst",
            labels={"title": "Environment", "format": "HTML"},
        ),
        commands=report(
            "<results>/report/commands.html",
            category="Study",
            caption="../report/commands.rst",
            labels={"title": "How to reproduce it", "format": "HTML"},
        ),
    log:
        "<logs>/report_pages.log",
    params:
        digest=pages.digest,
    message:
        "write the report's pages on the study"
    run:
        pages.write(output, input.study)


rule summary:
    """The study in one page of words and numbers, as Markdown and as a page of the report."""
    input:
        study="<results>/study.json",
        tables=expand("<results>/tables/{table}.parquet", table=SUMMARY_TABLES),
        claims=CLAIMS,
        sizes=SIZES,
        surface=SURFACE,
        cost="<results>/tables/cost.csv",
    output:
        markdown="<results>/tables/summary.md",
        page=report(
            "<results>/tables/summary.html",
            category="Summary",
            caption="../report/summary.rst",
            labels={"title": "Summary in words and numbers", "format": "HTML"},
        ),
    log:
        "<logs>/summary.log",
    benchmark:
        "<benchmarks>/summary.tsv"
    params:
        code=study.code_of("summary"),
    message:
        "write the summary"
    shell:
        'exec python -m reward_ablation.summary --study {input.study:q} --tables "$(dirname {input.cost:q})"'
        " --output {output.markdown:q} > {log:q} 2>&1"
