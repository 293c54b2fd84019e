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
        config=f"{study.config.root}/{FILE}",
        planned=study.digest_of_keys,
    message:
        "write the report's pages on the study"
    shell:
        "exec python -m reward_ablation.start.declarations pages --config {params.config:q} --planned {params.planned:q}"
        " --study {input.study:q}"
        ' --output "$(dirname {output.config:q})" > {log:q} 2>&1'
