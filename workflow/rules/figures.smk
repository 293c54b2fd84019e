for figure, entry in figures_of(study.asked_tables).items():

    rule:
        """One figure from its tables: for a paper, with its caption as text, and as a page of all.pdf."""
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
                labels={"title": entry.title, "format": "paper (PDF)"},
            ),
            caption=f"<results>/figures/{figure}.txt",
            page=f"<results>/figures/pages/{figure}.pdf",
            png=report(
                f"<results>/figures/{figure}.png",
                category=entry.category,
                caption=f"../report/{figure}.rst",
                labels={"title": entry.title, "format": "image with caption (PNG)"},
            ),
        log:
            f"<logs>/figures/{figure}.log",
        localrule: True
        params:
            figure=figure,
            module=module_of(figure),
            title=entry.title,
            code=study.code_of("figures", module_of(figure)),
        message:
            "draw {params.figure}"
        run:
            forks.run(
                "reward_ablation.figures.__main__",
                [
                    *(
                        params.module,
                        "--title",
                        params.title,
                        "--study",
                        input.study,
                    ),
                    *("--tables", *input.tables, "--output", output.pdf),
                ],
                log[0],
            )


rule all_figures:
    """Every figure in one file, behind a title page that names the study."""
    input:
        study="<results>/study.json",
        provenance="<results>/tables/provenance.parquet",
        pages=expand(
            "<results>/figures/pages/{figure}.pdf",
            figure=pages_of(study.asked_tables, study.config.figures.appendix),
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
        code=study.code_of("figures.book"),
    message:
        "bind all figures into one file"
    run:
        forks.run(
            "reward_ablation.figures.book",
            [
                *("--study", input.study, "--provenance", input.provenance),
                *("--pages", *input.pages, "--output", output.pdf),
            ],
            log[0],
        )
