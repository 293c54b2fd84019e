rule prepare_evaluation:
    """One evaluation set, as problems of one schema."""
    input:
        unpack(reruns.inputs_of("data/evaluation/{dataset}.parquet")),
    output:
        problems="<results>/data/evaluation/{dataset}.parquet",
    log:
        "<logs>/prepare/evaluation/{dataset}.log",
    benchmark:
        "<benchmarks>/prepare/evaluation/{dataset}.tsv"
    priority: rule_params.first
    params:
        spec=rule_params.evaluation_set,
    message:
        "prepare the evaluation set {wildcards.dataset}"
    shell:
        "exec python -m reward_ablation.data --spec {params.spec:q} --name {wildcards.dataset}"
        " --output {output.problems:q} > {log:q} 2>&1"


rule prepare_train:
    """The training set, held apart from the evaluation sets."""
    input:
        unpack(reruns.inputs_of(study.problems_file, evaluation=study.evaluation_files)),
    output:
        problems=f"<results>/{study.problems_file}",
    log:
        "<logs>/prepare/train.log",
    benchmark:
        "<benchmarks>/prepare/train.tsv"
    priority: rule_params.first
    params:
        spec=verbatim(study.train_data_spec),
    message:
        "prepare the training set"
    shell:
        "exec python -m reward_ablation.data --spec {params.spec:q} --name train --output {output.problems:q}"
        " --apart-from {input.evaluation:q} > {log:q} 2>&1"
