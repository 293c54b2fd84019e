rule plan:
    """Print what would be trained and evaluated, why, and for how long; start nothing."""
    input:
        commands.plan,


rule status:
    """Print where each run is: waiting, running, interrupted, failed or done; start nothing."""
    input:
        commands.status,


rule preview:
    """Make the tables, figures and summary of the finished runs in a separate folder; start no other job."""
    input:
        commands.preview,


rule power:
    """Print which effects a study with more seeds, questions or samples could show; start nothing."""
    input:
        commands.power,


rule budget:
    """Print which further seeds make the primary contrasts most precise in a given number of hours; start nothing."""
    input:
        commands.budget,


rule verify:
    """Read every recorded file again, and print which files are damaged; start nothing."""
    input:
        commands.verify,


rule prune:
    """Print what the study does not need in its results folder; `--config delete=yes` deletes it."""
    input:
        commands.prune,
