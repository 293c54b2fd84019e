rule fetch:
    """Fetch the base model's snapshot, or build the demo model."""
    output:
        model=f"<results>/{study.fetched_file}",
    log:
        "<logs>/fetch/base.log",
    benchmark:
        "<benchmarks>/fetch/base.tsv"
    threads: study.config.launch.threads
    params:
        spec=study.model_spec,
        code=study.code_of("models"),
    message:
        "fetch the base model"
    shell:
        "exec python -m reward_ablation.models --spec {params.spec:q} --output {output.model:q} > {log:q} 2>&1"
