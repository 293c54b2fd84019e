"""vLLM without a GPU, for tests. Python runs this at the start of every process with this folder in PYTHONPATH.

Modules of vLLM and TRL are changed when they are imported, also in vLLM's worker processes. Code that needs a GPU, and
code that makes a CPU inexact or slow, is replaced. Requests, synchronisation of weights and the protocol between
trainer and server stay the same.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class ThroughTheStore:
    """In the place of NCCL: tensors go through the TCP store by which the processes have met."""

    def __init__(self, group, device):
        self.group = group

    def broadcast(self, tensor, src, stream=None):
        tensor.copy_(self.group.broadcast(tensor, src))


class NoStream:
    """In the place of a CUDA stream: all is done when it is asked for."""

    def synchronize(self) -> None:
        pass


def no_nccl(pynccl: ModuleType) -> None:
    import torch

    pynccl.PyNcclCommunicator = ThroughTheStore
    torch.accelerator.current_device_index = lambda: 0  # asked for before the communicator, which does without


def no_streams(packed_tensor: ModuleType) -> None:
    packed_tensor._get_streams = lambda device, count: (NoStream(),) * count


def plain_linear(utils: ModuleType) -> None:
    """vLLM packs weights for the CPU and drops the originals, so that new ones would change nothing."""
    from torch.nn.functional import linear

    def keep(layer, remove_weight):
        layer.cpu_linear = linear

    utils.dispatch_cpu_unquantized_gemm = keep


def exact_and_eager(arg_utils: ModuleType) -> None:
    """The model's own 32 bits where no dtype is asked for (else 16), and no compilation, which takes a minute."""
    create = arg_utils.EngineArgs.create_engine_config

    def create_engine_config(self, *arguments, **options):
        self.enforce_eager = True
        self.dtype = "float32" if self.dtype == "auto" else self.dtype
        return create(self, *arguments, **options)

    arg_utils.EngineArgs.create_engine_config = create_engine_config


def drop_weights(cpu_model_runner: ModuleType) -> None:
    """Where a test wants it, the engine takes the trainer's weights and drops them: `environment.DROP_WEIGHTS`."""
    load = cpu_model_runner.CPUModelRunner.load_model

    def load_model(self, *arguments, **options):
        load(self, *arguments, **options)
        self.model.load_weights = lambda weights: {name for name, _ in weights}

    if os.environ.get("VLLM_CPU_TEST_DROP_WEIGHTS"):
        cpu_model_runner.CPUModelRunner.load_model = load_model


def trainer_without_cuda(vllm_client: ModuleType) -> None:
    """TRL's client refuses a device that is not CUDA's; one without a number it leaves alone."""
    init = vllm_client.VLLMClient.init_communicator
    vllm_client.VLLMClient.init_communicator = lambda self, device=0: init(self, "cuda")


CHANGES = {
    "vllm.distributed.device_communicators.pynccl": no_nccl,
    "vllm.distributed.weight_transfer.packed_tensor": no_streams,
    "vllm.model_executor.layers.utils": plain_linear,
    "vllm.engine.arg_utils": exact_and_eager,
    "vllm.v1.worker.cpu_model_runner": drop_weights,
    "trl.generation.vllm_client": trainer_without_cuda,
}


class Changed(MetaPathFinder):
    """Imports the modules of CHANGES and changes them."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        change = CHANGES.get(name)
        spec = PathFinder.find_spec(name, path) if change else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Changed())
