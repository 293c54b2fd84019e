rule describe:
    """What the study consists of, for the stages that look at all runs, and since when it asks its primary question.

    The file that is there is updated: it has the time of that question. Of a sequential study it also has the looks:
    the next one is taken here, once all answers are there.
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
        describe(study, output.study, log[0])
