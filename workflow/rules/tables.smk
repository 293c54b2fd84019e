ANSWERS = [
    *expand(
        f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.parquet",
        run=study.evaluated_models,
        dataset=study.datasets,
    ),
    *expand(
        f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.steps.parquet",
        run=study.keeping_runs,
        dataset=study.datasets,
    ),
]
SCORES = expand("<results>/{file}", file=study.scores)


rule tables_provenance:
    """The code, packages and hardware that trained the runs. If the config says so, runs that differ are refused.

    The other rules of tables have `runs.sha256` as input in place of all runs: the file changes with each run's record,
    and edges to each run would make planning slow. The data that the runs were trained on are an input here, because
    finished runs do not ask for them: a new evaluation set must be held apart from the training set even if nothing is
    trained.
    """
    input:
        study="<results>/study.json",
        runs=expand("<results>/runs/{run}/run.json", run=study.sound_runs),
        trained_on=expand("<results>/{file}", file=study.trained_on),
    output:
        tables=expand("<results>/tables/{file}", file=files_of("provenance")),
        runs="<results>/tables/runs.sha256",
        page=report(
            "<results>/tables/provenance.html",
            category="Provenance",
            caption="../report/provenance.rst",
            labels={"title": "Code, packages and hardware", "format": "HTML"},
        ),
    log:
        "<logs>/tables/provenance.log",
    benchmark:
        "<benchmarks>/tables/provenance.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.provenance"),
        mixed=study.config.mixed_provenance,
    message:
        "make the table of code, packages and hardware"
    shell:
        "exec python -m reward_ablation.analysis provenance --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" --mixed-provenance {params.mixed} > {log:q} 2>&1'


rule tables_training:
    """Rewards and training signals of all runs, by step."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
    output:
        tables=expand("<results>/tables/{file}", file=files_of("training")),
    log:
        "<logs>/tables/training.log",
    benchmark:
        "<benchmarks>/tables/training.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.training"),
    message:
        "make the tables of training"
    shell:
        "exec python -m reward_ablation.analysis training --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_gradients:
    """Similarities of the components' gradients, and what the trained steps do to each component."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
    output:
        tables=expand("<results>/tables/{file}", file=files_of("gradients")),
    log:
        "<logs>/tables/gradients.log",
    benchmark:
        "<benchmarks>/tables/gradients.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.gradients.tables"),
    message:
        "make the tables of gradients"
    shell:
        "exec python -m reward_ablation.analysis gradients --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_evaluation:
    """Evaluated models: estimates with intervals, differences, effects, curves and examples."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
        answers=ANSWERS,
        scores=SCORES,
        problems=expand(
            "<results>/data/evaluation/{dataset}.parquet", dataset=study.datasets
        ),
    output:
        tables=expand("<results>/tables/{file}", file=files_of("evaluation")),
        page=report(
            "<results>/tables/examples.html",
            category="Examples",
            caption="../report/examples_page.rst",
            labels={"title": "Examples of answers", "format": "HTML"},
        ),
    log:
        "<logs>/tables/evaluation.log",
    benchmark:
        "<benchmarks>/tables/evaluation.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.evaluation.tables"),
    message:
        "make the tables of evaluated models"
    shell:
        "exec python -m reward_ablation.analysis evaluation --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_reward_hacking:
    """Signs of reward hacking: training raised a reward, but what is not rewarded no longer followed it."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
        rewards="<results>/tables/rewards_by_step.parquet",
        answers=ANSWERS,
        scores=SCORES,
    output:
        tables=expand("<results>/tables/{file}", file=files_of("reward_hacking")),
    log:
        "<logs>/tables/reward_hacking.log",
    benchmark:
        "<benchmarks>/tables/reward_hacking.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.reward_hacking"),
    message:
        "look for signs of reward hacking"
    shell:
        "exec python -m reward_ablation.analysis reward_hacking --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_combination:
    """What the methods of combination did. Only studies with such a method make this."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
    output:
        tables=expand("<results>/tables/{file}", file=files_of("combination")),
    log:
        "<logs>/tables/combination.log",
    benchmark:
        "<benchmarks>/tables/combination.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.combination"),
    message:
        "make the tables of methods of combination"
    shell:
        "exec python -m reward_ablation.analysis combination --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_claims:
    """Verdicts on the study's claims. Only studies with claims make this."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
        by_run="<results>/tables/evaluation_by_run.parquet",
        answers=ANSWERS,
        scores=SCORES,
    output:
        tables=expand("<results>/tables/{file}", file=files_of("claims")),
        page=report(
            "<results>/tables/claims.html",
            category="Claims",
            caption="../report/claims.rst",
            labels={"title": "Claims and verdicts", "format": "HTML"},
        ),
    log:
        "<logs>/tables/claims.log",
    benchmark:
        "<benchmarks>/tables/claims.tsv"
    localrule: True
    params:
        code=code_of("analysis", "analysis.claims"),
    message:
        "judge the claims"
    shell:
        "exec python -m reward_ablation.analysis claims --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'


rule tables_cost:
    """Cost of runs and evaluations, by their own clocks and by Slurm's accounting, and of requests to judges."""
    input:
        study="<results>/study.json",
        runs="<results>/tables/runs.sha256",
        answers=ANSWERS,
        scores=SCORES,
    output:
        tables=expand("<results>/tables/{file}", file=files_of("cost")),
        page=report(
            "<results>/tables/cost.html",
            category="Cost",
            caption="../report/cost.rst",
            labels={"title": "Hours by arm", "format": "HTML"},
        ),
    log:
        "<logs>/tables/cost.log",
    benchmark:
        "<benchmarks>/tables/cost.tsv"
    localrule: True
    params:
        code=code_of("analysis", "report.cost.tables"),
    message:
        "sum up what the runs cost"
    shell:
        "exec python -m reward_ablation.analysis cost --study {input.study:q}"
        ' --output "$(dirname {output.tables[0]:q})" > {log:q} 2>&1'
