rule describe:
    """What the study consists of, for the stages that look at all runs, and since when it asks its primary question.

    The file that is there is updated: it has the time of that question.
    """
    input:
        reruns.inputs_of_description,
    output:
        study=update("<results>/study.json"),
    log:
        "<logs>/describe.log",
    params:
        digest=study.digest,
    message:
        "describe the study"
    run:
        study.describe(output.study, log[0])
