rule score:
    """Scores of one file of answers by the study's own metrics.

    The answers are of the base model, of a run's final model, or (.steps) of the models that a run kept.
    """
    input:
        unpack(per_job(reruns.inputs_of_scores)),
    output:
        scores=f"<results>/{study.scores_folder}/{{model}}/{{dataset}}{{kind}}.parquet",
    log:
        "<logs>/score/{model}/{dataset}{kind}.log",
    benchmark:
        "<benchmarks>/score/{model}/{dataset}{kind}.tsv"
    priority: per_job(rule_params.priority_of_answers)
    threads: study.config.launch.threads
    resources:
        gpu=study.scoring.gpus,
    params:
        spec=verbatim(study.scoring.spec.text),
        options=verbatim(study.scoring.options),
    message:
        "score the answers of {wildcards.model} to {wildcards.dataset}"
    shell:
        "exec python -m reward_ablation.scores --spec {params.spec:q} --answers {input.answers:q}"
        " --problems {input.problems:q} --output {output.scores:q}{params.options} > {log:q} 2>&1"
