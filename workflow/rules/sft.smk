rule prepare_sft:
    """The demonstrations, held apart from the evaluation sets like the training set."""
    input:
        unpack(
            reruns.inputs_of(
                study.demonstrations_file, evaluation=study.evaluation_files
            )
        ),
    output:
        problems=f"<results>/{study.demonstrations_file}",
    log:
        "<logs>/prepare/sft.log",
    benchmark:
        "<benchmarks>/prepare/sft.tsv"
    localrule: True
    params:
        spec=verbatim(study.sft_data_spec),
    message:
        "prepare the demonstrations"
    shell:
        "exec python -m reward_ablation.data --spec {params.spec:q} --name sft --output {output.problems:q}"
        " --apart-from {input.evaluation:q} > {log:q} 2>&1"


rule sft:
    """The model that all runs start from: the fetched model after it has learnt the demonstrations.

    The contents of the model and the demonstrations count, not their file times.
    """
    input:
        unpack(
            reruns.inputs_of(
                study.model_file,
                model=[study.fetched_file],
                problems=[study.demonstrations_file],
            )
        ),
    output:
        model=f"<results>/{study.model_file}",
    log:
        "<logs>/sft/base.log",
    benchmark:
        "<benchmarks>/sft/base.tsv"
    retries: reruns.retries
    threads: study.config.launch.threads
    resources:
        gpu=min(1, study.config.launch.gpus),
    params:
        spec=verbatim(study.sft_spec),
    message:
        "learn the demonstrations; GPUs: {resources.gpu}"
    shell:
        'exec python -m reward_ablation.sft --spec {params.spec:q} --model "$(dirname {input.model:q})"'
        " --problems {input.problems:q} --output {output.model:q} > {log:q} 2>&1"
