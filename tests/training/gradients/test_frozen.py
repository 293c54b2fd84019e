"""TRL's loss is asked for its derivatives by a copy of the trainer, which shares nothing that can be changed.

`test_run.py` compares runs with and without a measurement, under losses that have a state.
"""

from collections import defaultdict, deque

import pytest
import torch
from trl import GRPOTrainer

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
