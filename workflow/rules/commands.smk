rule plan:
    """Print what would be trained and evaluated, why, and for how long; start nothing."""
    input:
        commands.plan,


rule status:
    """Print where each run is: waiting, running, interrupted, failed or done; start nothing."""
    input:
        commands.status,


rule preview:
    """Make the tables, figures and summary of what is finished in a folder of their own; start no other job."""
    input:
        commands.preview,


rule power:
    """Print which effects a study of more seeds, questions or samples would show; start nothing."""
    input:
        commands.power,


rule budget:
    """Print which seeds make the primary contrasts sharpest in so many hours; start nothing."""
    input:
        commands.budget,


rule suggest:
    """Print the arm to train next, from the surface over the weights; start nothing."""
    input:
        commands.suggest,


rule verify:
    """Read every file that is on record again, and print which are damaged; start nothing."""
    input:
        commands.verify,


rule prune:
    """Print what the study does not need of its results folder; `snakemake prune delete` deletes it."""
    input:
        commands.prune,


rule delete:
    """Beside the target prune: delete what it lists."""
    input:
        commands.delete,
