rule export_rldynamics:
    """A run's scores in rldynamics' layout, and links to its whole gradients."""
    input:
        run="<results>/runs/{run}/run.json",
    output:
        rewards="<results>/exports/rldynamics/{run}/all_rewards.json",
    log:
        "<logs>/export/rldynamics/{run}.log",
    benchmark:
        "<benchmarks>/export/rldynamics/{run}.tsv"
    localrule: True
    params:
        metadata=verbatim(study.export_metadata),
        code=code_of("exports"),
    message:
        "export {wildcards.run} in rldynamics' layout"
    shell:
        'exec python -m reward_ablation.exports rldynamics --run-dir "$(dirname {input.run:q})"'
        ' --metadata {params.metadata:q} --output "$(dirname {output.rewards:q})" > {log:q} 2>&1'


rule export_simple_grpo:
    """A run's rollouts, and the greedy answers before and after it, in simple_grpo's layout."""
    input:
        run="<results>/runs/{run}/run.json",
        model=ancient(f"<results>/{study.model_file}"),
        problems=f"<results>/{study.problems_file}",
        questions=expand(
            "<results>/data/evaluation/{dataset}.parquet", dataset=study.datasets
        ),
        before=expand(
            f"<results>/{study.answers_folder}/base/{{dataset}}.parquet",
            dataset=study.datasets,
        ),
        after=expand(
            f"<results>/{study.answers_folder}/{{{{run}}}}/{{dataset}}.parquet",
            dataset=study.datasets,
        ),
    output:
        rollouts="<results>/exports/simple_grpo/{run}/rollouts.jsonl",
        answers=expand(
            "<results>/exports/simple_grpo/{{run}}/eval_{moment}_{name}.jsonl",
            moment=["before", "after"],
            name=list(study.config.data.evaluation),
        ),
        summary="<results>/exports/simple_grpo/{run}/evaluation.json",
    log:
        "<logs>/export/simple_grpo/{run}.log",
    benchmark:
        "<benchmarks>/export/simple_grpo/{run}.tsv"
    localrule: True
    params:
        answer_format=study.config.evaluation.answer_format,
        # A set that was renamed keeps the file of its earlier name.
        datasets=list(study.config.data.evaluation),
        code=code_of("exports"),
    message:
        "export {wildcards.run} in simple_grpo's layout"
    shell:
        'exec python -m reward_ablation.exports simple_grpo --run-dir "$(dirname {input.run:q})"'
        ' --model "$(dirname {input.model:q})" --problems {input.problems:q}'
        " --datasets {params.datasets:q} --questions {input.questions:q}"
        " --before {input.before:q} --after {input.after:q} --answer-format {params.answer_format}"
        ' --output "$(dirname {output.summary:q})" > {log:q} 2>&1'
