rule fetch:
    """Fetch the base model's snapshot, or build the demo model."""
    input:
        unpack(reruns.inputs_of(study.fetched_file)),
    output:
        model=f"<results>/{study.fetched_file}",
    log:
        "<logs>/fetch/base.log",
    benchmark:
        "<benchmarks>/fetch/base.tsv"
    priority: rule_params.first
    threads: study.config.launch.threads
    params:
        spec=verbatim(study.model_spec),
        prompt=verbatim(study.prompt),
    message:
        "fetch the base model"
    shell:
        "exec python -m reward_ablation.models --spec {params.spec:q} --prompt {params.prompt:q}"
        " --output {output.model:q} > {log:q} 2>&1"


rule fetch_reward_model:
    """Fetch the snapshot of a reward model, and check that it is a sequence classifier."""
    input:
        unpack(reruns.inputs_of("models/reward-{reward_model}/model.json")),
    output:
        model="<results>/models/reward-{reward_model}/model.json",
    log:
        "<logs>/fetch/reward-{reward_model}.log",
    benchmark:
        "<benchmarks>/fetch/reward-{reward_model}.tsv"
    priority: rule_params.first
    threads: study.config.launch.threads
    params:
        spec=per_job(rule_params.reward_model),
    message:
        "fetch the reward model {wildcards.reward_model}"
    shell:
        "exec python -m reward_ablation.models --spec {params.spec:q} --reward-model --output {output.model:q}"
        " > {log:q} 2>&1"
