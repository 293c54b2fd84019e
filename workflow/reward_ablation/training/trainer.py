"""TRL's GRPOTrainer with tracked components, a rollout log and component gradients.

The only module that overrides or reads TRL's private parts; `tests/training/test_trl.py` pins them.
Training is TRL's own, bit for bit: components of weight 0 never reach it, and what is measured
is measured beside it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from trl import GRPOTrainer

from reward_ablation.training.advantages import alone_advantages, component_shares
from reward_ablation.training.gradients import ComponentGradients, gram_rows
from reward_ablation.training.parts import write_part
from reward_ablation.training.rollouts import rollout_rows

#: Which advantage a component's gradient is taken with: its own, at weight 1.
DEFINITION = "alone"


class AblationTrainer(GRPOTrainer):
    """GRPO on weighted components; all components are scored, logged and measured.

    Parameters
    ----------
    components : dict of str to callable
        All components of the study, by name, with TRL's reward signature.
    weights : dict of str to float
        One weight per component; those of weight 0 are tracked only.
    parts : Path
        Folder for the parts of the rollout log and the gradients table.
    measure_every : int
        Measure the components' gradients at each n-th step; 0 for never.
    **kwargs
        Of `GRPOTrainer`; its dataset has the columns `prompt` and `problem_id`.
    """

    def __init__(
        self,
        *,
        components: dict[str, Callable],
        weights: dict[str, float],
        parts: Path,
        measure_every: int,
        **kwargs: Any,
    ):
        self.components = components
        self.weights = weights
        self.parts = parts
        self.measure_every = measure_every
        trained = [name for name in components if weights[name]]
        kwargs["args"].reward_weights = [weights[name] for name in trained]
        super().__init__(reward_funcs=[components[name] for name in trained], **kwargs)
        self._gradients = ComponentGradients(self.model.named_parameters(), list(components))
        self._forward: tuple | None = None  # the training forward pass, while it is being kept or replayed
        self._replaying = False
        self._batch: dict[str, Any] = {}

    # ------------------------------------------------------------------ scores and rollouts

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        """Score all components; hand TRL the scores of those that are trained on."""
        trained = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        tracked_names = [name for name in self.components if not self.weights[name]]
        columns = dict(zip(self.reward_func_names, trained.T, strict=True))
        if tracked_names:
            with self._only_functions(tracked_names), preserved_random_state():
                tracked = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            columns.update(zip(tracked_names, tracked.T, strict=True))
            for name in tracked_names:
                self._metrics["train"][f"rewards/{name}/mean"].append(torch.nanmean(columns[name]).item())
        self._batch = {
            "scores": torch.stack([columns[name] for name in self.components], dim=1),
            "completions": completions,
            "tokens": [len(ids) for ids in completion_ids_list],
            "truncated": [ids[-1] not in self._end_tokens() for ids in completion_ids_list],
        }
        return trained

    def _generate_and_score_completions(self, inputs):
        """Generate and score as TRL does; log the rollouts and carry the component advantages along."""
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        scores = self._batch["scores"]
        how = (self.num_generations, self.scale_rewards, self.multi_objective_aggregation)
        weights = torch.tensor([self.weights[name] for name in self.components], device=scores.device)
        here = slice(
            self.accelerator.process_index * len(inputs),
            (self.accelerator.process_index + 1) * len(inputs),
        )
        output["component_advantages"] = alone_advantages(scores, *how)[here]
        shares = component_shares(scores, weights, *how)[here]
        self._log_rollouts(inputs, scores[here], shares, output["advantages"], first_row=here.start)
        return output

    def _log_rollouts(self, inputs, scores: Tensor, shares: Tensor, advantages: Tensor, first_row: int) -> None:
        step = self.state.global_step + 1
        completions = self._batch["completions"]
        rows = rollout_rows(
            step=step,
            problem_ids=[row["problem_id"] for row in inputs],
            rollouts=[(first_row + i) % self.num_generations for i in range(len(inputs))],
            completions=[text if isinstance(text, str) else text[-1]["content"] for text in completions],
            tokens=self._batch["tokens"],
            truncated=self._batch["truncated"],
            scores=dict(zip(self.components, scores.T.tolist(), strict=True)),
            weights=self.weights,
            advantages=advantages.tolist(),
            shares=dict(zip(self.components, shares.T.tolist(), strict=True)),
        )
        write_part(rows, self.parts, "rollouts", step, self.accelerator.process_index)

    def _end_tokens(self) -> list[int]:
        return [*self.eos_token_ids, self._tokenizer.pad_token_id]

    @contextmanager
    def _only_functions(self, names: list[str]) -> Iterator[None]:
        saved = self.reward_funcs, self.reward_func_names, self.reward_processing_classes
        self.reward_funcs = [self.components[name] for name in names]
        self.reward_func_names = names
        self.reward_processing_classes = [None] * len(names)
        try:
            yield
        finally:
            self.reward_funcs, self.reward_func_names, self.reward_processing_classes = saved

    # ------------------------------------------------------------------ gradients

    def _measures_now(self) -> bool:
        return bool(self.model.training and self.measure_every and self.state.global_step % self.measure_every == 0)

    def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
        """Keep the training step's forward pass, and give it back while component losses are taken."""
        if self._replaying:
            return self._forward
        result = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if torch.is_grad_enabled():
            self._forward = result
        return result

    def _compute_loss(self, model, inputs):
        """TRL's loss; on measured steps also each component's policy loss, from the same forward pass."""
        policy_loss = super()._compute_loss
        loss = policy_loss(model, inputs)
        if self._measures_now():
            with self._policy_term_only():
                self._gradients.add(
                    policy_loss(model, {**inputs, "advantages": advantages})
                    for advantages in inputs["component_advantages"].T
                )
        self._forward = None
        return loss

    @contextmanager
    def _policy_term_only(self) -> Iterator[None]:
        """Take losses without KL, entropy and router terms, and without a trace in metrics or controllers."""
        names = ("beta", "_entropy_bonus_enabled", "aux_loss_enabled")
        saved = {name: getattr(self, name) for name in names}
        metrics = {name: list(values) for name, values in self._metrics["train"].items()}
        for name in names:
            setattr(self, name, 0.0 if name == "beta" else False)
        self._replaying = True
        try:
            yield
        finally:
            self._replaying = False
            for name, value in saved.items():
                setattr(self, name, value)
            self._metrics["train"].clear()
            self._metrics["train"].update(metrics)

    def training_step(self, model, inputs, num_items_in_batch):
        step = self.state.global_step + 1
        output = super().training_step(model, inputs, num_items_in_batch)
        if self._gradients.measured and self.accelerator.sync_gradients:
            grams = self._gradients.take_grams(lambda part: self.accelerator.reduce(part, reduction="mean"))
            if self.accelerator.is_main_process:
                rows = gram_rows(step, grams, list(self.components), DEFINITION)
                write_part(rows, self.parts, "gradients", step)
        return output


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Give back the random states of Python, NumPy and torch as they were: tracking must not disturb sampling."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
