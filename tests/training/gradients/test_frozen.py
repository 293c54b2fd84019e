"""TRL's loss is asked for its derivatives by a copy of the trainer, which shares nothing that can be changed.

`test_run.py` compares runs with and without a measurement, under losses that have a state.
"""

from collections import defaultdict, deque
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from trl import GRPOTrainer

from reward_ablation.training.core.gradients.passes import scratch_copy

from .conftest import COMPLETION, batch_of, remember


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
    batch = batch_of(6, len(trainer.processing_class), 2, trainer._tokenizer.pad_token_id)
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        batch[name] = torch.full((6, COMPLETION), -3.0, dtype=torch.float64)
    remember(trainer, [batch])
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
