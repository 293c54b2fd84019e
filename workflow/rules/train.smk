rule train:
    """Train one run: one arm with one seed.

    The spec says which model and data a run has. Their file times do not count.
    run.json is written last and has the digest of every other file. Snakemake removes the outputs of a job whose end it
    did not see. The other files of a finished run must survive this, so run.json is the only output.
    """
    input:
        unpack(per_job(reruns.inputs_of_run)),
    output:
        run="<results>/runs/{run}/run.json",
    log:
        "<logs>/train/{run}.log",
    priority: per_job(rule_params.priority_of_run)
    retries: reruns.retries
    threads: rule_params.threads_of_run
    resources:
        **rule_params.resources_of_run,
    params:
        spec=per_job(rule_params.spec_of_run),
        code=per_job(rule_params.code_of_run),
        options=per_job(rule_params.options_of_run),
    message:
        f"train {{wildcards.run}}; GPUs: {{resources.gpu}}, nodes: {{resources.nodes}}, "
        "CPU threads on each: {threads}"
    shell:
        "exec python -m reward_ablation.training --spec {params.spec:q} --code {params.code}"
        ' --model "$(dirname {input.model:q})" --problems {input.problems:q} --run-dir "$(dirname {output.run:q})"'
        " --nodes {resources.nodes}{params.options} > {log:q} 2>&1"
