"""Dropout of a model: that of modules, and that of functions inside modules."""

from __future__ import annotations

import torch


def functional_dropout(module: torch.nn.Module) -> dict[str, float]:
    """Rates above 0 by attribute: of the dropout that a module does by a function, such as attention_dropout."""
    rates = {name: value for name, value in vars(module).items() if "dropout" in name and isinstance(value, float)}
    return {name: rate for name, rate in rates.items() if rate > 0}


def find_dropout(model: torch.nn.Module) -> tuple[str, float] | None:
    """Name and rate of the first module with dropout; None if there is none."""
    for name, module in model.named_modules():
        rates = functional_dropout(module).values()
        if rate := module.p if isinstance(module, torch.nn.Dropout) else max(rates, default=0.0):
            return name, rate
    return None
