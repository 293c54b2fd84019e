"""How runs are laid out: their processes, what the processes share, vLLM, and the resources of their jobs.

It is the key `launch`, of the study (`config.study_config`) and of arms that differ (`config.designs`). Planning makes
the options and resources of training jobs from it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, StrictInt, WithJsonSchema, model_validator

from reward_ablation.config.base import Line, Name, PositiveInt, Section
from reward_ablation.config.trl_settings import NO_FSDP

#: Names that `resources` cannot have: the workflow decides them, or Snakemake has other names for them.
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
    "shell_exec": "jobs run in bash",
    "vllm_memory_percent": "set launch.vllm.gpu_memory_utilization",
    "vllm_sleep": "set launch.vllm.enable_sleep_mode",
}


#: A time as Snakemake reads it; a number alone is minutes.
_TIME = re.compile(r"\d+(\.\d+)? *(|[smhdw]|(sec|second|min|minute|hour|day|week)s?)", re.IGNORECASE)


def _readable(resources: dict[str, int | str]) -> dict[str, int | str]:
    """Refuse other names, and values that Snakemake refuses only when a job is ready."""
    for name, value in resources.items():
        if name in NO_RESOURCES:
            raise ValueError(f"{name}: not to be set here; {NO_RESOURCES[name]}")
        if name in ("mem_mb", "disk_mb") and isinstance(value, str):
            raise ValueError(f"{name}: {value!r} is a text; write megabytes, as a number")
        if name == "runtime" and not _TIME.fullmatch(str(value)):
            raise ValueError(f"{name}: {value!r} is no time; write minutes, as a number, or 2h or 2d")
    return resources


Resources = Annotated[dict[Name, StrictInt | Annotated[Line, Strict()]], AfterValidator(_readable)]


def _no_fsdp(strategy: Any) -> Any:
    if strategy == "fsdp":
        raise ValueError(f"fsdp: {NO_FSDP}; zero3 does the same job")
    return strategy


def _whole_gpus(number: Any) -> Any:
    if isinstance(number, bool) or (isinstance(number, float) and not number.is_integer()):
        raise ValueError(f"{number} is not allowed; a run takes whole GPUs: write 1, or 0 for the CPU")
    return number


#: A number of GPUs as written in a config. At the start a number replaces `auto` before the config is validated.
GpuCount = Annotated[int, BeforeValidator(_whole_gpus), Field(ge=0, le=2**16)]
COUNT_OR_AUTO = {"anyOf": [{"type": "integer", "minimum": 0}, {"const": "auto"}]}

#: Most processes of a run on the CPU, and most threads of a process.
ProcessCount = Annotated[int, Field(gt=0, le=4096)]

#: The strategy without DeepSpeed.
DDP: Literal["ddp"] = "ddp"

#: What the processes of a run share: ddp nothing, zero2 gradients and optimiser, zero3 the weights too.
Strategy = Annotated[Literal["ddp", "zero2", "zero3"], BeforeValidator(_no_fsdp)]


class Vllm(Section):
    """Rollouts by vLLM instead of transformers' generate."""

    mode: Literal["colocate", "server"] = Field(
        description="colocate: on the GPUs of the training; server: on GPUs of its own, where each run starts one."
    )
    gpus: PositiveInt | None = Field(None, description="GPUs of the server, beside launch.gpus; default 1.")
    tensor_parallel_size: PositiveInt = Field(1, description="GPUs that share one copy of the model.")
    gpu_memory_utilization: float | None = Field(
        None, ge=0.01, le=0.99, description="Share of a GPU's memory; default 0.3 in colocate mode, 0.9 of a server."
    )
    enable_sleep_mode: bool = Field(False, description="Let go of that memory while the model is trained.")

    @property
    def server_gpus(self) -> int:
        """GPUs of the server, which a run takes besides those of its training; 0 without a server."""
        return (self.gpus or 1) if self.mode == "server" else 0

    @property
    def memory_percent(self) -> int:
        """Share of a GPU's memory, in percent. The defaults are TRL's own: of GRPOConfig, and of its vLLM server."""
        return round(100 * (self.gpu_memory_utilization or (0.9 if self.mode == "server" else 0.3)))


class Launch(Section):
    """Processes and GPUs of one training run."""

    gpus: Annotated[GpuCount, WithJsonSchema(COUNT_OR_AUTO)] = Field(
        1,
        description="GPUs that one run trains on, on all its nodes, one process each; 0: the CPU; auto: what is here.",
    )
    nodes: PositiveInt = Field(1, description="Nodes of one run, with as many of its processes each.")
    processes: ProcessCount | None = Field(None, description="Processes of one run on the CPU; default 1.")
    strategy: Strategy = Field(DDP, description="What the processes share: ddp, or DeepSpeed's zero2 or zero3.")
    vllm: Vllm | None = Field(None, description="Rollouts by vLLM; default: by transformers' generate.")
    threads: ProcessCount = Field(1, description="CPU threads of a process.")
    resources: Resources = Field(
        default_factory=dict, description="Snakemake's resources of a training job, such as mem_mb and runtime."
    )

    @model_validator(mode="after")
    def _fits(self) -> Launch:
        self._check()
        return self

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Device of all jobs with a model."""
        return "cuda" if self.gpus else "cpu"

    @property
    def process_count(self) -> int:
        """Processes of one run on all its nodes."""
        return self.gpus or self.processes or 1

    @property
    def all_gpus(self) -> int:
        """GPUs of one run, its vLLM server's included."""
        return self.gpus + (self.vllm.server_gpus if self.vllm else 0)

    def changed(self, changes: LaunchChanges, resources: dict[str, int | str]) -> Launch:
        """This launch with an arm's changes and further resources; a ValueError if the values do not fit together."""
        own = {name: getattr(changes, name) for name in changes.model_fields_set}
        own = {name: value for name, value in own.items() if value is not None or name == "vllm"}
        if "gpus" in own and (own["gpus"] > 0) != (self.gpus > 0):
            raise ValueError("gpus: a study trains all its arms on GPUs, or all on the CPU; see launch.gpus")
        launch = self.model_copy(update={**own, "resources": {**self.resources, **resources}})
        launch._check()
        return launch

    def _check(self) -> None:
        _check_processes(self)
        _check_vllm(self)


class LaunchChanges(Section):
    """Settings of launch that replace the study's in an arm."""

    # None leaves the study's setting, but for `vllm`, where a written null means none.
    gpus: GpuCount | None = Field(None, description="GPUs that one run trains on, one process each.")
    nodes: PositiveInt | None = Field(None, description="Nodes of one run, with as many of its processes each.")
    processes: ProcessCount | None = Field(None, description="Processes of one run on the CPU.")
    strategy: Strategy | None = Field(None, description="What the processes share: ddp, zero2 or zero3.")
    vllm: Vllm | None = Field(None, description="Rollouts by vLLM, in place of the whole block; null: without.")


def _check_processes(launch: Launch) -> None:
    if launch.gpus and launch.processes is not None:
        raise ValueError("processes: with GPUs a run has one process a GPU; leave it out, or set gpus: 0")
    name = "gpus" if launch.gpus else "processes"
    if launch.process_count % launch.nodes:
        each = f"each node has as many of a run's {'GPUs' if launch.gpus else name}"
        raise ValueError(f"nodes: {launch.nodes} does not divide {name}: {launch.process_count}; {each}")
    if launch.strategy != DDP and launch.process_count == 1:
        raise ValueError(
            f"strategy: {launch.strategy} spreads a model over a run's processes, and this run has one; "
            f"set {name} to 2 or more, or leave strategy out"
        )


def _check_vllm(launch: Launch) -> None:
    vllm = launch.vllm
    if vllm is None:
        return
    if not launch.gpus:
        raise ValueError("vllm: vLLM needs GPUs, and this run has none; set gpus to 1 or more, or leave vllm out")
    size = vllm.tensor_parallel_size
    if vllm.mode == "colocate":
        each = launch.gpus // launch.nodes
        if vllm.gpus is not None:
            raise ValueError("vllm.gpus: colocate uses the GPUs of the training; leave it out, or set mode: server")
        if each % size:
            where = f"gpus: {each}" if launch.nodes == 1 else f"the {each} GPUs of a run on each of its nodes"
            raise ValueError(
                f"vllm.tensor_parallel_size: {size} does not divide {where}, which share copies of the model"
            )
        return
    if launch.nodes > 1:
        raise ValueError(
            f"vllm.mode: a server is on the node of its run, and this run has nodes: {launch.nodes}; "
            "set nodes: 1, or mode: colocate"
        )
    if vllm.server_gpus % size:
        raise ValueError(
            f"vllm.tensor_parallel_size: {size} does not divide vllm.gpus: {vllm.server_gpus}, the server's GPUs"
        )
    if vllm.enable_sleep_mode:
        raise ValueError(
            "vllm.enable_sleep_mode: a server has GPUs of its own, whose memory nothing else needs; "
            "leave it out, or set mode: colocate"
        )
