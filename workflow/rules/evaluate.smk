rule evaluate_base:
    """The base model's answers to one evaluation set.

    Model and problems count by the digests that the answers' record has of them, not by file times; those of the
    rules below, too.
    """
    input:
        unpack(reruns.inputs_of_base_answers),
    output:
        answers=f"<results>/{study.answers_folder}/base/{{dataset}}.parquet",
        record=f"<results>/{study.answers_folder}/base/{{dataset}}.json",
    log:
        "<logs>/evaluate/base/{dataset}.log",
    benchmark:
        "<benchmarks>/evaluate/base/{dataset}.tsv"
    priority: per_job(order.evaluation)
    threads: study.config.launch.threads
    resources:
        gpu=min(1, study.config.launch.gpus),
    params:
        spec=per_job(study.evaluation_spec),
        code=study.code_of("evaluation"),
    message:
        "evaluate the base model on {wildcards.dataset}"
    shell:
        'exec python -m reward_ablation.evaluation --spec {params.spec:q} --model "$(dirname {input.model:q})"'
        " --problems {input.problems:q} --output {output.answers:q} --record {output.record:q} > {log:q} 2>&1"


rule evaluate:
    """A run's final model's answers to one evaluation set.

    No job asks for the record: where it is lost, nothing is made again.
    """
    input:
        run="<results>/runs/{run}/run.json",
        base=ancient(f"<results>/{study.model_file}"),
        problems=reruns.problems_of_answers(),
    output:
        answers=f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.parquet",
        record=f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.json",
    log:
        "<logs>/evaluate/{run}/{dataset}.log",
    priority: per_job(order.evaluation)
    threads: study.config.launch.threads
    resources:
        gpu=min(1, study.config.launch.gpus),
    params:
        spec=per_job(study.evaluation_spec),
        code=study.code_of("evaluation"),
    message:
        "evaluate {wildcards.run}, on {wildcards.dataset}"
    shell:
        'exec python -m reward_ablation.evaluation --spec {params.spec:q} --model "$(dirname {input.run:q})/model"'
        ' --base "$(dirname {input.base:q})" --problems {input.problems:q} --output {output.answers:q}'
        " --record {output.record:q} > {log:q} 2>&1"


rule evaluate_kept:
    """The answers of the models that a run kept on the way, all in one job."""
    input:
        run="<results>/runs/{run}/run.json",
        base=ancient(f"<results>/{study.model_file}"),
        problems=reruns.problems_of_answers(".steps"),
    output:
        answers=f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.steps.parquet",
        record=f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.steps.json",
    log:
        "<logs>/evaluate/{run}/{dataset}.steps.log",
    priority: per_job(order.evaluation)
    threads: study.config.launch.threads
    resources:
        gpu=min(1, study.config.launch.gpus),
    params:
        spec=per_job(study.evaluation_spec),
        code=study.code_of("evaluation"),
    message:
        "evaluate the models that {wildcards.run} kept, on {wildcards.dataset}"
    shell:
        'exec python -m reward_ablation.evaluation --spec {params.spec:q} --kept "$(dirname {input.run:q})"'
        ' --base "$(dirname {input.base:q})" --problems {input.problems:q} --output {output.answers:q}'
        " --record {output.record:q} > {log:q} 2>&1"
