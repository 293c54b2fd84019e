rule train:
    """Train one run: one arm with one seed.

    The inputs are ancient: model and data count by what the spec says of them, not by file times.
    Beside these outputs stand metrics.parquet and model/; run.json has the digest of every file.
    """
    input:
        model=ancient(f"<results>/{study.model_file}"),
        problems=ancient(f"<results>/{study.problems_file}"),
    output:
        run="<results>/runs/{run}/run.json",
        rollouts="<results>/runs/{run}/rollouts.parquet",
        gradients="<results>/runs/{run}/gradients.parquet",
    log:
        "<logs>/train/{run}.log",
    threads: study.config.launch.threads
    resources:
        gpu=study.config.launch.gpus,
    params:
        spec=study.spec_of_run,
        code=study.train_code,
    message:
        "train {wildcards.run}"
    shell:
        "exec python -m reward_ablation.training --spec {params.spec:q} --code {params.code}"
        " --model $(dirname {input.model:q}) --problems {input.problems:q} --run-dir $(dirname {output.run:q})"
        " > {log:q} 2>&1"
