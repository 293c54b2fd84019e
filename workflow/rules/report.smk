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
# Without evaluation, there is no primary comparison.
FIRST = "primary" if "primary" in FIGURES else "rewards"
REWARDS = [] if FIRST == "primary" else ["<results>/tables/rewards_by_step.parquet"]


rule summary:
    """The report's first page, the summary in words and numbers, and the main table for a paper."""
    input:
        study="<results>/study.json",
        tables=expand("<results>/tables/{table}.parquet", table=SUMMARY_TABLES),
        claims=CLAIMS,
        sizes=SIZES,
        rewards=REWARDS,
        cost="<results>/tables/cost.csv",
        figure=f"<results>/figures/{FIRST}.png",
    output:
        overview=report(
            "<results>/tables/overview.html",
            category="Summary",
            caption="../report/overview.rst",
            labels={"title": "First page", "format": "HTML"},
        ),
        markdown="<results>/tables/summary.md",
        page=report(
            "<results>/tables/summary.html",
            category="Summary",
            caption="../report/summary.rst",
            labels={"title": "Summary in words and numbers", "format": "HTML"},
        ),
        main=expand("<results>/tables/main.{kind}", kind=["md", "tex"]),
        main_page=report(
            "<results>/tables/main.html",
            category="Summary",
            caption="../report/main.rst",
            labels={"title": "Main table, for a paper", "format": "HTML"},
        ),
    log:
        "<logs>/summary.log",
    benchmark:
        "<benchmarks>/summary.tsv"
    params:
        code=code_of("report"),
    message:
        "write the summary"
    shell:
        "exec python -m reward_ablation.report --study {input.study:q}"
        " --figure {input.figure:q} > {log:q} 2>&1"
