rule describe:
    """Describe the study for the stages that read all runs, and record since when it asks its primary question.

    An existing file is updated, because it has the time of that question. In a sequential study the file also has the
    looks: this rule takes the next look when all answers are there.
    """
    input:
        reruns.inputs_of_description,
    output:
        study=update("<results>/study.json"),
    log:
        "<logs>/describe.log",
    params:
        digest=study.digest,
        config=f"{study.config.root}/{FILE}",
        planned=study.digest_of_keys,
    message:
        "describe the study"
    shell:
        "exec python -m reward_ablation.start.declarations describe --config {params.config:q}"
        " --planned {params.planned:q} --output {output.study:q} > {log:q} 2>&1"
