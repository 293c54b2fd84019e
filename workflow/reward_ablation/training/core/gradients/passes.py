"""The start of the training step's backward pass, and passes beside it: TRL's loss again, and measuring passes.

`trainer` calls it when it computes a loss. The passes beside the step leave no trace in the training: TRL's metrics,
the gradients and what DeepSpeed's hooks count stay as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from reward_ablation.training.core.gradients.recorder import Recorder

Thing = TypeVar("Thing")

#: Attributes in which ZeRO-3's hooks count for how many more backward passes a layer's weights stay gathered.
COUNTERS = ("applied_pre_backward_ref_cnt", "ds_grads_remaining")


def scratch_copy(thing: Thing) -> Thing:
    """A copy of an object whose use leaves the object unchanged.

    Dicts and lists are copied at every depth, and sets and deques in them. Tensors are copied where they are
    attributes. Everything else, such as a model, is shared.
    """
    copy = type(thing).__new__(type(thing))
    for name, value in vars(thing).items():
        copy.__dict__[name] = value.detach().clone() if type(value) is Tensor else _container(value)
    return copy


def _container(value: Any) -> Any:
    if isinstance(value, dict):
        copy = value.copy()  # a defaultdict stays a defaultdict
        copy.update((key, _container(part)) for key, part in value.items())
        return copy
    if type(value) is list:
        return [_container(part) for part in value]
    return value.copy() if isinstance(value, (set, deque)) else value


def watch_log_probs(model: nn.Module, recorder: Recorder) -> None:
    """Keep the log-probabilities that a model's own forward pass returns. `measuring_pass` starts from them.

    DeepSpeed's engine gets a view of them: its hooks there divide a backward pass by the accumulation steps.
    """

    def keep(module: nn.Module, arguments: tuple, output: Any) -> None:
        if recorder.active and torch.is_grad_enabled():
            recorder.log_probs = output.log_probs
            output.log_probs = output.log_probs.view_as(output.log_probs)

    model.register_forward_hook(keep)


def measuring_pass(model: nn.Module, log_probs: Tensor, derivatives: Tensor) -> None:
    """A backward pass from the kept `log_probs`, (B, L - 1), that leaves no gradients and can be repeated.

    `derivatives`, (B, T), are derivatives of a loss by the last T log-probabilities of each row.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    completions = log_probs[:, -derivatives.size(1) :]
    with _uncounted(model):
        torch.autograd.grad(completions, parameters, derivatives, retain_graph=True, allow_unused=True)


@contextmanager
def _uncounted(model: nn.Module) -> Iterator[None]:
    """Restore the counts of ZeRO-3's hooks afterwards: the hooks expect one backward pass for each forward pass."""
    states = [module.__dict__ for module in model.modules()]
    saved = [{name: state[name] for name in COUNTERS if name in state} for state in states]
    try:
        yield
    finally:
        for state, counts in zip(states, saved, strict=True):
            state.update(counts)


class LossFromDerivatives(torch.autograd.Function):
    """A loss whose backward pass starts from `derivatives`, for advantages of 1; the recorder gets the advantages."""

    @staticmethod
    def forward(ctx, log_probs, loss, derivatives, advantages, recorder):
        ctx.save_for_backward(derivatives, advantages)
        ctx.recorder = recorder
        return loss.clone()

    @staticmethod
    def backward(ctx, gradient):
        derivatives, advantages = ctx.saved_tensors
        ctx.recorder.scales = advantages * gradient  # of the loss: accelerate's factors, such as 1 / accumulation steps
        return derivatives, None, None, None, None
