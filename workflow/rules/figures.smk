FIGURES = figures_of(study.asked_tables, study.empty_tables)


rule figures:
    """Every figure from its tables: for a paper, with its caption as text, and as a page of all.pdf.

    All figures are drawn by one command, which imports Matplotlib and pandas once. If one fails, Snakemake removes these
    outputs, and the figures that were drawn are in the folder `drawn` beside them.
    """
    input:
        study="<results>/study.json",
        tables=expand(
            "<results>/tables/{file}",
            file=sorted({file for figure in FIGURES for file in tables_of(figure)}),
        ),
    output:
        pdf=[
            report(
                f"<results>/figures/{figure}.pdf",
                category=entry.category,
                caption=f"../report/{figure}.rst",
                labels={"title": entry.title, "format": "paper (PDF)"},
            )
            for figure, entry in FIGURES.items()
        ],
        caption=expand("<results>/figures/{figure}.txt", figure=FIGURES),
        page=expand("<results>/figures/pages/{figure}.pdf", figure=FIGURES),
        png=[
            report(
                f"<results>/figures/{figure}.png",
                category=entry.category,
                caption=f"../report/{figure}.rst",
                labels={"title": entry.title, "format": "image with caption (PNG)"},
            )
            for figure, entry in FIGURES.items()
        ],
    log:
        "<logs>/figures/figures.log",
    localrule: True
    threads: 2
    params:
        figures=list(FIGURES),
        width=study.config.figures.width,
        code=code_of("figures", *map(module_of, FIGURES)),
    message:
        "draw all figures"
    shell:
        "exec python -m reward_ablation.figures {params.figures} --study {input.study:q}"
        ' --tables "$(dirname {input.tables[0]:q})" --output "$(dirname {output.pdf[0]:q})"'
        " --width {params.width:q} --processes {threads} > {log:q} 2>&1"


rule all_figures:
    """Every figure in one file, behind a title page that names the study."""
    input:
        study="<results>/study.json",
        provenance="<results>/tables/provenance.parquet",
        pages=expand(
            "<results>/figures/pages/{figure}.pdf",
            figure=pages_of(
                study.asked_tables, study.config.figures.appendix, study.empty_tables
            ),
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
    params:
        code=code_of("figures.book"),
    message:
        "bind all figures into one file"
    shell:
        "exec python -m reward_ablation.figures.book --study {input.study:q}"
        " --provenance {input.provenance:q} --pages {input.pages:q} --output {output.pdf:q}"
        " > {log:q} 2>&1"
