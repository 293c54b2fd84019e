"""How vLLM runs beside a run's training: what the command and the server's supervisor say, and the spec does not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: What a run's processes find their vLLM server by.
SERVER = "REWARD_ABLATION_VLLM"


@dataclass(frozen=True)
class Server:
    """Where a run's own vLLM server is.

    Attributes
    ----------
    url : str
        Such as http://127.0.0.1:43211.
    group_port : int
        Where server and trainer meet for the weights.
    model_name : str
        The name of the model at this server: a server of another run has another name.
    started : float
        `time.perf_counter()` at the start of the run's first process, which has waited for the server.
    key : str
        What the server asks of each request.
    """

    url: str
    group_port: int
    model_name: str
    started: float
    key: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """What the run's processes are started with."""
        return {SERVER: json.dumps(asdict(self))}


@dataclass(frozen=True)
class Engine:
    """How vLLM runs beside a run: what does not decide the result.

    Attributes
    ----------
    memory : float
        Share of a GPU's memory, in (0, 1).
    sleep : bool
        Whether vLLM lets go of its memory while the model is trained.
    server : Server or None
        The run's server; None in colocate mode.
    """

    memory: float = 0.3
    sleep: bool = False
    server: Server | None = None

    @classmethod
    def from_options(
        cls, memory_percent: int = 30, sleep: bool = False, environment: Mapping[str, str] = os.environ
    ) -> Engine:
        """By the options of the training command, and by the environment that the command was started in."""
        server = environment.get(SERVER)
        return cls(memory_percent / 100, sleep, Server(**json.loads(server)) if server else None)

    def settings(self, mode: str) -> dict[str, Any]:
        """TRL's settings of vLLM in its mode, "server" or "colocate"; they change no number."""
        if mode == "server":
            assert self.server is not None
            return {"vllm_server_base_url": self.server.url, "vllm_group_port": self.server.group_port}
        return {"vllm_gpu_memory_utilization": self.memory, "vllm_enable_sleep_mode": self.sleep}


#: Where there is no server.
OWN_ENGINE = Engine()
