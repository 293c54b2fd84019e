for figure, entry in figures_of(study.asked_tables).items():

    rule:
        """One figure from its tables, as PDF and PNG."""
        name:
            f"figure_{figure}"
        input:
            study="<results>/study.json",
            tables=expand("<results>/tables/{file}", file=tables_of(figure)),
        output:
            pdf=report(
                f"<results>/figures/{figure}.pdf",
                category=entry.category,
                caption=f"../report/{figure}.rst",
                labels={"title": entry.title, "format": "vector (PDF)"},
            ),
            png=report(
                f"<results>/figures/{figure}.png",
                category=entry.category,
                caption=f"../report/{figure}.rst",
                labels={"title": entry.title, "format": "image (PNG)"},
            ),
        log:
            f"<logs>/figures/{figure}.log",
        benchmark:
            f"<benchmarks>/figures/{figure}.tsv"
        localrule: True
        params:
            figure=figure,
            module=module_of(figure),
            title=entry.title,
            code=study.code_of("figures", module_of(figure)),
        message:
            "draw {params.figure}"
        shell:
            "exec python -m reward_ablation.figures {params.module} --title {params.title:q} --study {input.study:q}"
            " --tables {input.tables:q} --output {output.pdf:q} > {log:q} 2>&1"


rule all_figures:
    """Every figure in one file, behind a title page that names the study."""
    input:
        study="<results>/study.json",
        provenance="<results>/tables/provenance.parquet",
        pages=expand(
            "<results>/figures/{figure}.pdf", figure=pages_of(study.asked_tables)
        ),
    output:
        pdf=report(
            "<results>/figures/all.pdf",
            category="All figures",
            caption="../report/all.rst",
            labels={"title": "All figures, in one file", "format": "PDF"},
        ),
    log:
        "<logs>/figures/all.log",
    benchmark:
        "<benchmarks>/figures/all.tsv"
    params:
        code=study.code_of("figures.book"),
    message:
        "bind all figures into one file"
    shell:
        "exec python -m reward_ablation.figures.book --study {input.study:q} --provenance {input.provenance:q}"
        " --pages {input.pages:q} --output {output.pdf:q} > {log:q} 2>&1"
