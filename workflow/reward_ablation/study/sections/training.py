"""Reward components, and how runs are trained, measured and laid out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictInt,
    StrictStr,
    model_validator,
)

from reward_ablation.study.base import Name, Section


class Component(Section):
    """A reward function without a weight."""

    function: str = Field(description="A function of reward_ablation.rewards.components, or path/to/file.py:function.")
    parameters: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the function.")
    placement: Literal["all_tokens", "last_token", "answer_span"] = Field(
        "all_tokens", description="The tokens of a completion that the component's advantage acts on."
    )


class Lora(Section):
    """Low-rank adapters, by peft's LoraConfig names."""

    r: PositiveInt = 16
    lora_alpha: PositiveFloat = 32
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: str | list[str] = "all-linear"


def _steps_between(every: Any) -> Any:
    """`off` is 0; YAML reads a bare `off` as false."""
    return 0 if every in ("off", False) else every


class Gradients(Section):
    """Gram matrix of the components' gradients."""

    every: Annotated[NonNegativeInt, BeforeValidator(_steps_between)] = Field(
        1, description="Measure each n-th step; off or 0: never."
    )
    whole: list[PositiveInt] = Field(
        default_factory=list, description="Steps at which the components' whole gradients are written, too."
    )


#: No resources: what the workflow decides itself, and words of the site file for which Snakemake has others.
NO_RESOURCES = {
    **dict.fromkeys(("gpu", "gpus", "gres"), "set launch.gpus"),
    "nodes": "set launch.nodes",
    **dict.fromkeys(("tasks", "ntasks", "tasks_per_node", "tasks_per_gpu", "mpi"), "a run has one task on each node"),
    **dict.fromkeys(("threads", "cores"), "set launch.threads"),
    **dict.fromkeys(("cpus", "cpus_per_gpu"), "write cpus_per_task"),
    **dict.fromkeys(("mem", "mem_gb", "mem_mib"), "write mem_mb"),
    **dict.fromkeys(("disk", "disk_mib"), "write disk_mb"),
    "hours": "write runtime, in minutes",
    "partition": "write slurm_partition",
    "account": "write slurm_account",
    "gpu_type": "write gpu_model",
    "sbatch": "write slurm_extra",
}


def _no_other_names(resources: dict[str, int | str]) -> dict[str, int | str]:
    for name in resources:
        if name in NO_RESOURCES:
            raise ValueError(f"{name}: not to be set here; {NO_RESOURCES[name]}")
    return resources


Resources = Annotated[dict[Name, StrictInt | StrictStr], AfterValidator(_no_other_names)]


class Launch(Section):
    """Processes of one training run."""

    gpus: NonNegativeInt = Field(1, description="GPUs of one run on all its nodes, one process each; 0: on the CPU.")
    nodes: PositiveInt = Field(1, description="Nodes of one run, with as many of its processes each.")
    processes: PositiveInt | None = Field(None, description="Processes of one run on the CPU; default 1.")
    threads: PositiveInt = Field(1, description="CPU threads of a process.")
    resources: Resources = Field(
        default_factory=dict, description="Snakemake's resources of a training job, such as mem_mb and runtime."
    )

    @model_validator(mode="after")
    def _fits(self) -> Launch:
        _check_processes(self)
        return self

    @property
    def process_count(self) -> int:
        """Processes of one run on all its nodes."""
        return self.gpus or self.processes or 1

    def changed(self, changes: LaunchChanges, resources: dict[str, int | str]) -> Launch:
        """This, with an arm's own values in place of some.

        Raises
        ------
        ValueError
            The values do not fit together.
        """
        own = {name: value for name, value in changes.model_dump().items() if value is not None}
        if "gpus" in own and (own["gpus"] > 0) != (self.gpus > 0):
            raise ValueError("gpus: a study trains all its arms on GPUs, or all on the CPU; see launch.gpus")
        launch = self.model_copy(update={**own, "resources": {**self.resources, **resources}})
        _check_processes(launch)
        return launch


class LaunchChanges(Section):
    """What an arm's runs have in place of the study's."""

    gpus: NonNegativeInt | None = Field(None, description="GPUs of one run on all its nodes, one process each.")
    nodes: PositiveInt | None = Field(None, description="Nodes of one run, with as many of its processes each.")
    processes: PositiveInt | None = Field(None, description="Processes of one run on the CPU.")


def _check_processes(launch: Launch) -> None:
    if launch.gpus and launch.processes is not None:
        raise ValueError("processes: with GPUs a run has one process a GPU; leave it out, or set gpus: 0")
    if launch.process_count % launch.nodes:
        name = "gpus" if launch.gpus else "processes"
        each = f"each node has as many of a run's {'GPUs' if launch.gpus else name}"
        raise ValueError(f"nodes: {launch.nodes} does not divide {name}: {launch.process_count}; {each}")
