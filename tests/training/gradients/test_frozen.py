"""Asking TRL's loss for its derivatives leaves all state of the trainer unchanged, also state that we do not know."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from trl import GRPOTrainer

from reward_ablation.training.core.gradients.passes import scratch_copy
from reward_ablation.training.core.gradients.step import Completion

from .conftest import COMPLETION, batch_of

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
#: Objects of these modules have nothing to compare, or nothing of the trainer's.
OPAQUE = {"builtins", "weakref", "logging", "threading"}


def leaves(value: Any, path: str, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that can be reached from a value and compared, by the path to it."""
    if isinstance(value, PLAIN):
        yield path, repr(value)
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, because the id of an object that is freed may come again
    if isinstance(value, Tensor):
        yield path, (value.dtype, tuple(value.shape), value.detach().cpu().clone())
        yield from leaves(value.grad, f"{path}.grad", seen) if value.is_leaf else ()
    elif isinstance(value, np.ndarray):
        yield path, (str(value.dtype), value.shape, value.tobytes())
    elif isinstance(value, dict):
        yield path, [repr(key) for key in value]
        for key, part in list(value.items()):
            yield from leaves(part, f"{path}[{key!r}]", seen)
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield path, len(value)
        for number, part in enumerate(value):
            yield from leaves(part, f"{path}[{number}]", seen)
    elif not isinstance(value, type) and type(value).__module__ not in OPAQUE:
        yield path, type(value).__name__
        yield from leaves(getattr(value, "__dict__", {}), path, seen)


def state_of(trainer: GRPOTrainer) -> dict[str, Any]:
    """All state of a trainer, of all that it holds, and of the generators of random numbers."""
    generators = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    return dict(leaves({"trainer": vars(trainer), "random": generators}, "", {}))


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Paths to what differs."""

    def same(first: Any, second: Any) -> bool:
        if isinstance(first, tuple) and isinstance(first[-1], Tensor):
            return first[:2] == second[:2] and torch.equal(first[2], second[2])
        return first == second

    appeared = [path for path in {**before, **after} if path not in before or path not in after]
    return appeared + [path for path in before if path in after and not same(before[path], after[path])]


def batch_for(pair) -> dict[str, Tensor]:
    batch = batch_of(6, len(pair.ours.processing_class), 2, pair.ours._tokenizer.pad_token_id)
    generator = torch.Generator().manual_seed(2)
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        batch[name] = -3 + torch.randn(6, COMPLETION, generator=generator, dtype=torch.float64)
    for row in batch["row"].tolist():
        pair.ours._completions[row] = Completion(1, "p", row % 2, row, row // 2)
    return batch


def changes_by_asking(trainer: GRPOTrainer, monkeypatch) -> list[list[str]]:
    """What each later call of `_seeds` changes in a trainer."""
    found: list[list[str]] = []
    derive = trainer._loss_derivatives

    def watched(*arguments, **options):
        before = state_of(trainer)
        result = derive(*arguments, **options)
        found.append(changes(before, state_of(trainer)))
        return result

    monkeypatch.setattr(trainer, "_loss_derivatives", watched)
    return found


@pytest.mark.parametrize(
    "training",
    [
        {"loss_type": "sapo"},
        {"loss_type": "vespo"},
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        {"loss_type": "dapo", "beta": 0.2, "use_bias_correction_kl": True},
        {"loss_type": "dapo", "off_policy_mask_threshold": 0.05, "top_entropy_quantile": 0.5, "delta": 1.5},
        {"loss_type": "dapo", "use_adaptive_entropy": True, "entropy_target": 0.1},
    ],
    ids=lambda training: "-".join(map(str, training.values())),
)
def test_derivatives_leave_no_trace_in_all_of_the_trainers_state(pair, monkeypatch, training):
    pair = pair(**training)
    found = changes_by_asking(pair.ours, monkeypatch)
    before = state_of(pair.ours)
    pair.step(pair.ours, [batch_for(pair)])
    assert len(found) >= 2
    assert found == [[]] * len(found)
    # The comparison sees what TRL's own loss changes.
    assert any("_metrics" in path for path in changes(before, state_of(pair.ours)))


def test_a_stateful_term_of_a_later_trl_is_updated_once(pair, monkeypatch):
    """In whatever way it keeps its state."""
    loss = GRPOTrainer._compute_loss

    def with_state(self, model, inputs):
        self.count = getattr(self, "count", 0) + 1
        self.history.append(self.count)
        self.by_mode["train"]["sizes"].append(len(inputs["advantages"]))
        self.sums += inputs["advantages"].abs().sum()
        return loss(self, model, inputs)

    pair = pair(beta=0.1)
    trainer = pair.ours
    trainer.history, trainer.by_mode = deque(), {"train": defaultdict(list)}
    trainer.sums = torch.zeros((), dtype=torch.float64)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", with_state)
    batch = batch_for(pair)
    pair.step(trainer, [batch])
    assert trainer.count == 1
    assert list(trainer.history) == [1]
    assert trainer.by_mode["train"]["sizes"] == [6]
    assert float(trainer.sums) == pytest.approx(float(batch["advantages"].abs().sum()))


def test_a_copy_shares_what_is_large_and_nothing_that_can_be_changed():
    model = nn.Linear(2, 2)
    thing = SimpleNamespace(model=model, number=1, nested={"a": [1, {2}]}, tensor=torch.ones(2), buffer=[torch.ones(2)])
    copy = scratch_copy(thing)
    assert copy.model is model
    assert copy.buffer[0] is thing.buffer[0]
    copy.number = 2
    copy.nested["a"][1].add(3)
    copy.nested["a"].append(4)
    copy.tensor += 1
    copy.new = 1
    assert (thing.number, thing.nested, thing.tensor.tolist()) == (1, {"a": [1, {2}]}, [1.0, 1.0])
    assert not hasattr(thing, "new")
