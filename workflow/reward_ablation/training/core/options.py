"""Options of the programs that start a run's processes and serve its rollouts, as far as they decide numbers."""

from __future__ import annotations

#: DeepSpeed would start other nodes by itself, over ssh; srun does that.
ZERO = ["--use_deepspeed", "--deepspeed_multinode_launcher", "standard", "--zero_stage"]
#: Options of `accelerate launch` by strategy.
STRATEGIES = {
    "ddp": ["--multi_gpu"],
    "zero2": [*ZERO, "2"],
    "zero3": [*ZERO, "3", "--zero3_save_16bit_model", "true"],  # without, no whole model would be saved
}
#: Options of `accelerate launch` by every strategy: number formats are in the run's settings.
OF_ALL_STRATEGIES = ["--mixed_precision", "no", "--dynamo_backend", "no"]


def server_options(gpus: int, tensor_parallel_size: int, model_impl: str | None = None) -> dict[str, str | int]:
    """Options of a vLLM server on some GPUs, of which `tensor_parallel_size` share one copy of the model.

    They contain what TRL's trainer asks of a server. `model_impl` is vLLM's implementation of the model.
    """
    options: dict[str, str | int] = {
        "tensor-parallel-size": tensor_parallel_size,
        "weight-transfer-config": '{"backend":"nccl"}',
        "logprobs-mode": "processed_logprobs",  # of the distribution that was sampled from
        "max-logprobs": -1,
        "seed": 0,  # each request has its own
    }
    copies = gpus // tensor_parallel_size
    options |= {"data-parallel-size": copies} if copies > 1 else {}
    return options | ({"model-impl": model_impl} if model_impl is not None else {})
