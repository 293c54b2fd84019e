FIGURES = [
    "rewards",
    "length",
    "evaluation",
    "arms",
    "similarity_steps",
    "similarity_parts",
    "similarity_layers",
]


rule figure_rewards:
    """Reward components over steps, by arm."""
    input:
        study="<results>/study.json",
        tables=["<results>/tables/rewards_by_step.parquet"],
    output:
        pdf="<results>/figures/rewards.pdf",
        png=report(
            "<results>/figures/rewards.png",
            category="Training",
            caption="../report/rewards.rst",
            labels={"figure": "reward components"},
        ),
    log:
        "<logs>/figures/rewards.log",
    benchmark:
        "<benchmarks>/figures/rewards.tsv"
    params:
        figure="rewards",
        code=study.code_of("figures"),
    message:
        "draw {params.figure}"
    shell:
        "exec python -m reward_ablation.figures {params.figure} --study {input.study:q}"
        " --tables $(dirname {input.tables[0]:q}) --output {output.pdf:q} > {log:q} 2>&1"


use rule figure_rewards as figure_length with:
    output:
        pdf="<results>/figures/length.pdf",
        png=report(
            "<results>/figures/length.png",
            category="Training",
            caption="../report/length.rst",
            labels={"figure": "completion length"},
        ),
    log:
        "<logs>/figures/length.log",
    benchmark:
        "<benchmarks>/figures/length.tsv"
    params:
        figure="length",
        code=study.code_of("figures"),


use rule figure_rewards as figure_evaluation with:
    input:
        study="<results>/study.json",
        tables=[
            "<results>/tables/evaluation_by_arm.parquet",
            "<results>/tables/evaluation_by_run.parquet",
        ],
    output:
        pdf="<results>/figures/evaluation.pdf",
        png=report(
            "<results>/figures/evaluation.png",
            category="Evaluation",
            caption="../report/evaluation.rst",
            labels={"figure": "evaluation by arm"},
        ),
    log:
        "<logs>/figures/evaluation.log",
    benchmark:
        "<benchmarks>/figures/evaluation.tsv"
    params:
        figure="evaluation",
        code=study.code_of("figures"),


use rule figure_evaluation as figure_arms with:
    output:
        pdf="<results>/figures/arms.pdf",
        png=report(
            "<results>/figures/arms.png",
            category="Evaluation",
            caption="../report/arms.rst",
            labels={"figure": "accuracy against weights"},
        ),
    log:
        "<logs>/figures/arms.log",
    benchmark:
        "<benchmarks>/figures/arms.tsv"
    params:
        figure="arms",
        code=study.code_of("figures"),


use rule figure_rewards as figure_similarity_steps with:
    input:
        study="<results>/study.json",
        tables=["<results>/tables/similarity_by_step.parquet"],
    output:
        pdf="<results>/figures/similarity_steps.pdf",
        png=report(
            "<results>/figures/similarity_steps.png",
            category="Gradients",
            caption="../report/similarity_steps.rst",
            labels={"figure": "similarity over steps"},
        ),
    log:
        "<logs>/figures/similarity_steps.log",
    benchmark:
        "<benchmarks>/figures/similarity_steps.tsv"
    params:
        figure="similarity_steps",
        code=study.code_of("figures"),


use rule figure_rewards as figure_similarity_parts with:
    input:
        study="<results>/study.json",
        tables=["<results>/tables/similarity_by_arm.parquet"],
    output:
        pdf="<results>/figures/similarity_parts.pdf",
        png=report(
            "<results>/figures/similarity_parts.png",
            category="Gradients",
            caption="../report/similarity_parts.rst",
            labels={"figure": "parts of the similarity"},
        ),
    log:
        "<logs>/figures/similarity_parts.log",
    benchmark:
        "<benchmarks>/figures/similarity_parts.tsv"
    params:
        figure="similarity_parts",
        code=study.code_of("figures"),


use rule figure_similarity_parts as figure_similarity_layers with:
    output:
        pdf="<results>/figures/similarity_layers.pdf",
        png=report(
            "<results>/figures/similarity_layers.png",
            category="Gradients",
            caption="../report/similarity_layers.rst",
            labels={"figure": "similarity by layer"},
        ),
    log:
        "<logs>/figures/similarity_layers.log",
    benchmark:
        "<benchmarks>/figures/similarity_layers.tsv"
    params:
        figure="similarity_layers",
        code=study.code_of("figures"),


rule all_figures:
    """Every figure in one file, behind a title page that names the study."""
    input:
        study="<results>/study.json",
        provenance="<results>/tables/provenance.parquet",
        pages=expand("<results>/figures/{figure}.pdf", figure=FIGURES),
    output:
        pdf=report(
            "<results>/figures/all.pdf",
            category="All figures",
            caption="../report/all.rst",
            labels={"figure": "all, in one file"},
        ),
    log:
        "<logs>/figures/all.log",
    benchmark:
        "<benchmarks>/figures/all.tsv"
    params:
        code=study.code_of("figures"),
    message:
        "bind all figures into one file"
    shell:
        "exec python -m reward_ablation.figures all --study {input.study:q} --tables $(dirname {input.provenance:q})"
        " --pages {input.pages:q} --output {output.pdf:q} > {log:q} 2>&1"
