"""One run to train, as the command line describes it: spec, inputs and folder, and vLLM and trackers beside it.

The address of a vLLM server comes by an environment variable, because the server starts after the first process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reward_ablation.spec.run import RunSpec
from reward_ablation.study.run_folder import WORK

#: Environment variable that tells a run's processes where their vLLM server is.
SERVER = "REWARD_ABLATION_VLLM"


@dataclass(frozen=True)
class Server:
    """Address, name and key of a run's own vLLM server."""

    url: str  # such as http://127.0.0.1:43211
    group_port: int  # port at which server and trainer exchange the weights
    model_name: str  # the model's name at this server; another run's server has another name
    started: float  # `time.perf_counter()` at the start of the run's first process, which waited for the server
    key: str = field(repr=False)  # the server requires this key with each request

    def environment(self) -> dict[str, str]:
        """Environment variables for the run's processes."""
        return {SERVER: json.dumps(asdict(self))}

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Server | None:
        """The server of this process's run, if the run has one."""
        return cls(**json.loads(environment[SERVER])) if SERVER in environment else None


@dataclass(frozen=True)
class Engine:
    """How vLLM runs beside a run's training: settings that do not decide the result."""

    memory: float = 0.3  # share of a GPU's memory, in (0, 1); TRL's default
    sleep: bool = False  # whether vLLM frees its memory while the model is trained
    server: Server | None = None  # None in colocate mode

    def settings(self, mode: str) -> dict[str, Any]:
        """TRL's settings of vLLM in a mode, "server" or "colocate". They change no number."""
        if mode == "server":
            assert self.server is not None
            return {"vllm_server_base_url": self.server.url, "vllm_group_port": self.server.group_port}
        return {"vllm_gpu_memory_utilization": self.memory, "vllm_enable_sleep_mode": self.sleep}


@dataclass(frozen=True)
class TrainingJob:
    """One run to train. Only `spec`, `model` and `problems` decide its result."""

    spec: RunSpec
    code: str  # digest of the training code, for the record
    model: Path  # folder of the base model
    problems: Path  # prepared training set
    run_dir: Path  # folder for the run's outputs
    engine: Engine = Engine()
    tracking: Mapping[str, Any] = field(default_factory=dict)  # TRL's settings of trackers, and `group`
    reward_models: Mapping[str, Path] = field(default_factory=dict)  # folders of fetched models, by `id@commit` or path
    parameters: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # those outside the spec, by component
    started: float = field(default_factory=time.perf_counter)  # start of the first process, for the wall time
    any_code: bool = False  # whether a whole result of other code or inputs stays

    @property
    def work(self) -> Path:
        """The hidden folder of an unfinished run: its checkpoints, and the parts of its tables."""
        return self.run_dir / WORK
