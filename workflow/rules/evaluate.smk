rule evaluate_base:
    """The base model's answers to all evaluation sets.

    Here and in the rule below, file times of the model and the problems do not count. Their digests count, which are in
    the record beside the answers. Existing answers stay: a job makes only missing answers.
    """
    input:
        unpack(per_job(reruns.inputs_of_answers)),
    output:
        answers=update(
            expand(
                f"<results>/{study.answers_folder}/base/{{dataset}}.parquet",
                dataset=study.datasets,
            )
        ),
    log:
        "<logs>/evaluate/base.log",
    priority: per_job(rule_params.priority_of_answers)
    threads: study.config.launch.threads
    resources:
        **rule_params.resources_of_evaluation,
    params:
        spec=verbatim(study.evaluation_spec),
        options=per_job(reruns.options_of_evaluation),
    message:
        "evaluate the base model"
    shell:
        'exec python -m reward_ablation.evaluation --spec {params.spec:q} --model "$(dirname {input.model:q})"'
        ' --problems {input.problems:q} --answers "$(dirname {output.answers[0]:q})"{params.options} > {log:q} 2>&1'


rule evaluate:
    """The answers of a run's final model, and of the models that the run kept, to all evaluation sets."""
    input:
        unpack(per_job(reruns.inputs_of_answers)),
    output:
        answers=update(
            expand(
                f"<results>/{study.answers_folder}/{{{{run}}}}/{{dataset}}{{kind}}.parquet",
                dataset=study.datasets,
                kind=study.kinds_of_answers,
            )
        ),
    log:
        "<logs>/evaluate/{run}.log",
    priority: per_job(rule_params.priority_of_answers)
    threads: study.config.launch.threads
    resources:
        **rule_params.resources_of_evaluation,
    params:
        spec=verbatim(study.evaluation_spec),
        options=per_job(reruns.options_of_evaluation),
    message:
        "evaluate {wildcards.run}"
    shell:
        'exec python -m reward_ablation.evaluation --spec {params.spec:q} --run "$(dirname {input.run:q})"'
        ' --base "$(dirname {input.model:q})" --problems {input.problems:q} --answers "$(dirname {output.answers[0]:q})"'
        "{params.options} > {log:q} 2>&1"
