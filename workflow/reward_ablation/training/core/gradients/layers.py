"""Backward passes of layers that form each completion's gradient separately.

`trainer` calls `watch` once, when it is made. A weight gradient is a sum of one term per completion. To form the terms
first and to add them up afterwards takes hardly more multiplications, and the measurement needs the terms' inner
products. The `recorder` says what a backward pass is for. B is the number of completions, L that of their tokens.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from peft.tuners.lora import ParamWrapper
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients.recorder import Measurement, Recorder, shape_of, wide
from reward_ablation.training.core.gradients.trials import (
    in_place_of_parameters,
    is_scaled_embedding,
    one_copy_each,
    takes_a_copy_for_each_completion,
)

Forward = Callable[..., Tensor]
#: A watched forward pass. It takes the module, the module's own pass, the names in the model of its trained parameters
#: by their names in the module, the recorder and inputs.
Kind = Callable[[Any, Forward, dict[str, str], Recorder, Tensor], Tensor]


class MixedCompletions(StudyError):
    """A layer's input mixes tokens of several completions."""


def watch(model: PreTrainedModel, recorder: Recorder) -> None:
    """Replace the forward pass of layers with trained parameters by one whose backward pass reports to the recorder.

    The head is left to `lm_head`. Raises StudyError if the gradient of a layer cannot be separated by completion, or if
    layers other than embedding and head share a parameter. The model is then unchanged.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def sizes_of(module: nn.Module) -> dict[str, int]:
        """Sizes of a module's own trained parameters."""
        own = [parameter for parameter in module.parameters(recurse=False) if id(parameter) in names]
        return {names[id(parameter)]: math.prod(shape_of(parameter)) for parameter in own}

    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    expected = Counter(sizes_of(head))
    forwards: list[tuple[nn.Module, Forward]] = []
    # Adapters of a bare parameter, as of experts: peft multiplies their weights and never calls the modules.
    wrapped = {part for module in model.modules() if isinstance(module, ParamWrapper) for part in module.modules()}
    for module in model.modules():
        trained = sizes_of(module)
        if module is head or not trained:
            continue
        kind = None if module in wrapped else _kind_of(module)
        shared = module is not embedding and any(name in expected for name in trained)
        if kind is None or shared:
            why = "shared by several layers" if shared else f"of a {type(module).__name__}"
            raise StudyError(
                f"gradients: the gradient of {next(iter(trained))}, {why}, cannot be separated by completion; "
                "set gradients.every: off, without whole"
            )
        own = {key: names.get(id(parameter), "") for key, parameter in module.named_parameters(recurse=False)}
        forwards.append((module, _guarded(module, kind, own, recorder)))
        expected.update(trained)
    recorder.expected = expected
    recorder.head_shares_embedding = head.weight is embedding.weight
    for module, forward in forwards:
        module.__dict__["forward"] = forward
        recorder.watched.append(module)


def unwatch(recorder: Recorder) -> None:
    """Restore the layers' own forward passes."""
    for module in recorder.watched:
        del module.__dict__["forward"]
    recorder.watched.clear()


def _kind_of(module: nn.Module) -> Kind | None:
    """The watched forward pass for what the module computes; None where its computation is not known."""
    if "forward" in module.__dict__:  # somebody else replaced the pass, as by a fused kernel
        return None
    own = {name for name, _ in module.named_parameters(recurse=False)}
    if type(module).forward in (nn.Linear.forward, Conv1D.forward):
        return (
            _linear if own <= {"weight", "bias"} else None
        )  # other parameters mean a computed weight, as in weight norm
    if isinstance(module, nn.Embedding):
        plain = module.max_norm is None and not module.scale_grad_by_freq
        known = type(module).forward is nn.Embedding.forward or is_scaled_embedding(module)
        return _embedding if plain and known else None
    if type(module).forward in (nn.LayerNorm.forward, nn.RMSNorm.forward):
        return _norm
    return _copied if takes_a_copy_for_each_completion(module) else None


def _guarded(module: nn.Module, kind: Kind, names: dict[str, str], recorder: Recorder) -> Forward:
    """A forward pass that is watched in training steps and the module's own elsewhere."""
    plain = module.forward

    def forward(inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # A call with further arguments is not known here. `Recorder.check` then misses the layer's gradient.
        if not recorder.active or not torch.is_grad_enabled() or args or kwargs:
            return plain(inputs, *args, **kwargs)
        # Position ids are the same for all completions of a batch, so the model may look them up once for all:
        # (1, L) in place of (B, L), which `_embedding` repeats.
        once = isinstance(module, nn.Embedding) and inputs.size(0) == 1
        if inputs.size(0) != recorder.batch and not once:
            raise MixedCompletions(
                f"gradients: the input of {next(iter(names.values()))} mixes tokens of several completions, as mixtures"
                " of experts do: gradients cannot be separated by completion; set gradients.every: off, without whole"
            )
        return kind(module, plain, names, recorder, inputs)

    return forward


def _linear(module: Any, plain: Forward, names: dict[str, str], recorder: Recorder, inputs: Tensor) -> Tensor:
    operands = (_as_computed(operand, inputs.device) for operand in (inputs, module.weight, module.bias))
    return _Linear.apply(*operands, recorder, names, isinstance(module, nn.Linear))


def _embedding(module: Any, plain: Forward, names: dict[str, str], recorder: Recorder, ids: Tensor) -> Tensor:
    ids = ids.expand(recorder.batch, -1) if ids.size(0) == 1 else ids
    looked_up = _Embedding.apply(ids, module.weight, module.padding_idx, recorder, names["weight"])
    scale = getattr(module, "embed_scale", 1.0)
    return looked_up * (scale.to(looked_up.dtype) if isinstance(scale, Tensor) else scale)


def _norm(module: Any, plain: Forward, names: dict[str, str], recorder: Recorder, inputs: Tensor) -> Tensor:
    """A norm of torch, whose function takes no copies: its result without parameters, times weight, plus any bias."""
    copies = _copies(module, inputs, names, recorder)
    shape = list(module.normalized_shape)
    if type(module).forward is nn.LayerNorm.forward:
        normal = F.layer_norm(wide(inputs), shape, None, None, module.eps)
    else:
        normal = F.rms_norm(wide(inputs), shape, None, module.eps)
    outputs = normal * copies["weight"] + copies.get("bias", 0.0)
    return outputs.to(plain(inputs[:0]).dtype)  # torch computes in float32 and rounds, except under autocast


def _copied(module: Any, plain: Forward, names: dict[str, str], recorder: Recorder, inputs: Tensor) -> Tensor:
    """The module's own forward pass, with one copy of its parameters for each completion."""
    with in_place_of_parameters(module, _copies(module, inputs, names, recorder)):
        return plain(inputs)


def _copies(module: nn.Module, inputs: Tensor, names: dict[str, str], recorder: Recorder) -> dict[str, Tensor]:
    """A module's parameters by name, one copy for each completion, which broadcast against the inputs (`_OneEach`)."""
    parameters = dict(module.named_parameters(recurse=False))
    for name, parameter in parameters.items():  # whose shape must fit the last dimensions of the inputs
        own, room = parameter.shape, inputs.shape[1:][-parameter.dim() :] if parameter.dim() else ()
        if len(room) < len(own) or any(size not in (1, of_inputs) for size, of_inputs in zip(own, room, strict=True)):
            raise MixedCompletions(
                f"gradients: {names[name]} of shape {tuple(own)} is not multiplied with inputs of shape "
                f"{tuple(inputs.shape)} elementwise: gradients cannot be separated by completion; "
                "set gradients.every: off, without whole"
            )
    return {
        name: _OneEach.apply(parameter, inputs.dim(), recorder, names[name]) for name, parameter in parameters.items()
    }


def _as_computed(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """The tensor in the number format that autocast, which leaves float64 alone, would compute in."""
    if tensor is None or not torch.is_autocast_enabled(device.type) or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype(device.type))


class _Linear(torch.autograd.Function):
    """inputs @ weight.T + bias; or inputs @ weight + bias, if the output units are the weight's last dimension."""

    @staticmethod
    def forward(ctx, inputs, weight, bias, recorder, names, units_first):
        ctx.save_for_backward(inputs, weight)
        ctx.recorder, ctx.names, ctx.units_first = recorder, names, units_first
        return F.linear(inputs, weight if units_first else weight.T, bias)

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        recorder, names = ctx.recorder, ctx.names
        wants_inputs, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        to_inputs = gradient @ (weight if ctx.units_first else weight.T) if wants_inputs else None
        to_weight = to_bias = None
        if recorder.plain:
            if wants_weight:
                left, right = (gradient, inputs) if ctx.units_first else (inputs, gradient)
                to_weight = left.flatten(0, -2).T @ right.flatten(0, -2)
            if wants_bias:
                to_bias = gradient.flatten(0, -2).sum(0)
        else:
            passes = recorder.factors(names["weight"] or names["bias"], gradient)
            if passes and wants_weight:
                to_weight = _matrix(recorder, names["weight"], passes, inputs, ctx.units_first)
            if passes and wants_bias:
                rows = joined([part.flatten(1, -2).sum(1) for part in passes])
                to_bias = _like(gradient, recorder.collect(names["bias"], rows.size(1), rows, 0))
        return to_inputs, to_weight, to_bias, None, None, None


def _matrix(recorder: Recorder, name: str, passes: list[Tensor], inputs: Tensor, units_first: bool) -> Tensor | None:
    """Form a matrix's gradients by completion, some of its rows at a time; return the training gradient, if needed.

    `passes` has the gradients of the outputs by pass; the rows are output units if `units_first`, else inputs.
    """
    inputs = inputs.flatten(1, -2)
    passes = [part.flatten(1, -2) for part in passes]
    lefts, rights = (passes, [inputs] * len(passes)) if units_first else ([inputs] * len(passes), passes)
    units, width = lefts[0].size(2), rights[0].size(2)  # numbers of the matrix's rows and columns
    total = None if recorder.scales is None else wide(inputs.new_empty(units, width))
    step = recorder.units_at_once(inputs, width, len(passes))
    for start in range(0, units, step):
        parts = [left[:, :, start : start + step].mT @ right for left, right in zip(lefts, rights, strict=True)]
        block = recorder.collect(name, units * width, joined(parts).flatten(1), start * width)
        if total is not None and block is not None:
            total[start : start + step] = block.view(-1, width)
    return _like(inputs, total)


def joined(parts: list[Tensor]) -> Tensor:
    """Concatenate tensors; a single tensor is not copied."""
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _like(tensor: Tensor, value: Tensor | None) -> Tensor | None:
    return None if value is None else value.to(tensor.dtype)


class _OneEach(torch.autograd.Function):
    """Copies of a parameter of shape S, one for each completion, which broadcast against (B, ..., *S) inputs."""

    @staticmethod
    def forward(ctx, parameter, dimensions, recorder, name):
        ctx.recorder, ctx.name, ctx.shape = recorder, name, parameter.shape
        return one_copy_each(parameter, dimensions, recorder.batch)

    @staticmethod
    def backward(ctx, gradient):
        recorder = ctx.recorder
        passes = recorder.factors(ctx.name, gradient.flatten(1))
        total = recorder.collect(ctx.name, ctx.shape.numel(), joined(passes), 0) if passes else None
        return None if total is None else total.view(ctx.shape).to(gradient.dtype), None, None, None


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ids, weight, padding, recorder, name):
        ctx.save_for_backward(ids)
        ctx.shape, ctx.padding, ctx.recorder, ctx.name = weight.shape, padding, recorder, name
        return F.embedding(ids, weight)

    @staticmethod
    def backward(ctx, gradient):
        (ids,) = ctx.saved_tensors
        recorder = ctx.recorder
        if ctx.padding is not None:
            gradient = gradient.masked_fill((ids == ctx.padding)[:, :, None], 0.0)
        if not recorder.plain:
            passes = recorder.factors(ctx.name, gradient)
            if passes and recorder.measurement is not None:
                _measure_embedding(recorder, recorder.measurement, ctx.name, ctx.shape, passes, ids)
            if recorder.scales is None:
                return None, None, None, None, None
            recorder.reported[ctx.name] += ctx.shape.numel()
            gradient = gradient * recorder.scales[:, None, None].to(gradient.dtype)
        total = gradient.new_zeros(ctx.shape).index_add_(0, ids.flatten(), gradient.flatten(0, 1))
        return None, total, None, None, None


def _measure_embedding(
    recorder: Recorder, measurement: Measurement, name: str, shape: torch.Size, passes: list[Tensor], ids: Tensor
) -> None:
    """Measure the embedding's rows of the tokens that occur, with the head's part where it shares the weight.

    `ids`, (B, L), are the tokens. `passes` has the gradients of their embeddings, (B, L, H), by pass.
    """
    occurring, places = torch.unique(ids, return_inverse=True)  # in ascending order, as the head's words
    head = recorder.head if recorder.head is not None and recorder.head.name == name else None
    step = recorder.units_at_once(passes[0], shape[1], len(passes))
    for start in range(0, len(occurring), step):
        tokens = occurring[start : start + step]
        inside = ((places >= start) & (places < start + len(tokens)))[:, :, None]
        columns = (places - start).clamp(0, len(tokens) - 1)[:, :, None].expand_as(passes[0])
        parts = []
        for number, part in enumerate(passes):
            if head is None:
                rows = part.new_zeros(len(part), len(tokens), shape[1])
            else:
                rows = (head.to_logits[number][:, :, start : start + step].mT @ head.inputs).to(part.dtype)
            parts.append(rows.scatter_add_(1, columns, part * inside))
        measurement.add(name, shape.numel(), joined(parts), tokens)
