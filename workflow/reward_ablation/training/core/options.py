"""Options of `accelerate launch` and of the vLLM server that decide a run's numbers, and so belong to the core.

`training.around.launch` starts processes and servers with them, beside options of its own such as ports.
"""

from __future__ import annotations

#: By default DeepSpeed starts the other nodes itself, over ssh. Here srun starts them.
ZERO = ["--use_deepspeed", "--deepspeed_multinode_launcher", "standard", "--zero_stage"]
#: Options of `accelerate launch` by strategy.
STRATEGIES = {
    "ddp": ["--multi_gpu"],
    "zero2": [*ZERO, "2"],
    "zero3": [*ZERO, "3", "--zero3_save_16bit_model", "true"],  # without this option, no whole model would be saved
}
#: Options of `accelerate launch` for all strategies. The number formats come from the run's settings instead.
OF_ALL_STRATEGIES = ["--mixed_precision", "no", "--dynamo_backend", "no"]


def server_options(gpus: int, tensor_parallel_size: int, model_impl: str | None = None) -> dict[str, str | int]:
    """Options of a vLLM server on `gpus` GPUs, including those that TRL's trainer requires."""
    options: dict[str, str | int] = {
        "tensor-parallel-size": tensor_parallel_size,
        "weight-transfer-config": '{"backend":"nccl"}',
        "logprobs-mode": "processed_logprobs",  # log-probabilities of the distribution that was sampled from
        "max-logprobs": -1,  # no cap, as on a server that TRL starts
        "generation-config": "vllm",  # not the model's, which could set penalties; its end tokens are used all the same
        "seed": 0,  # of no effect: each request has its own seed
    }
    copies = gpus // tensor_parallel_size
    options |= {"data-parallel-size": copies} if copies > 1 else {}
    return options | ({"model-impl": model_impl} if model_impl is not None else {})
