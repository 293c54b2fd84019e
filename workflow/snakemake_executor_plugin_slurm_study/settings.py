"""Settings of the executor: the options `--slurm-study-...`, which the profile may set, too.

Snakemake makes the options from this class, and hands their values to the executor.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase

from reward_ablation.system.errors import StudyError, one_line_errors


def _option(help: str, **more: Any) -> dict[str, Any]:
    """Metadata of a setting that is an option of the command line, but not an environment variable."""
    return {"help": help, "env_var": False, **more}


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor: its own, and the parent plugin's settings that have an effect here.

    This is not a subclass of the parent's settings, because they have fields that this executor does not read, and
    `array_jobs`, with which each task of an array would run the first task's command.
    """

    site: Path = field(
        default=Path("profiles/slurm/site.yaml"),
        metadata=_option("Site file: account, partitions, memory and time on this cluster."),
    )
    poll: int = field(default=20, metadata=_option("Seconds between two checks of the states of all jobs."))
    patience: int = field(
        default=60,
        metadata=_option("Seconds to wait for Slurm to start a job again that was preempted or lost its node."),
    )
    requeue: bool = field(
        default=False, metadata=_option("Let Slurm start preempted jobs again, and jobs whose node died.")
    )
    logdir: Path | None = field(
        default=None,
        metadata=_option("Folder of Slurm's logs; default: logs/slurm in the study's results.", type=Path),
    )
    keep_successful_logs: bool = field(default=False, metadata=_option("Keep Slurm's logs of jobs that ended well."))
    delete_logfiles_older_than: int = field(
        default=10, metadata=_option("Days after which Slurm's logs of failed jobs are deleted; 0: never.")
    )

    # Further settings that the parent's code reads.
    array_jobs: ClassVar[None] = None
    array_limit: ClassVar[int] = 1000
    efficiency_report: ClassVar[bool] = False
    exclude_failed_nodes: ClassVar[None] = None
    jobname_prefix: ClassVar[str] = ""
    partition_config: ClassVar[None] = None

    def __post_init__(self) -> None:
        with one_line_errors():
            for name, least in (("poll", 1), ("patience", 0)):
                if getattr(self, name) < least:
                    raise StudyError(f"--slurm-study-{name}: must be at least {least}, in seconds")
