"""TRL's GRPOTrainer with a backward pass that sees single completions and yields the components' gradients.

This module overrides and reads private parts of TRL. So do `trainer.py` and `gradients/lm_head.py` in the core, and
`saving_trainer.py` and `resumed_state.py` around the core. `tests/training/test_trl.py` pins these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients.layers import MixedCompletions, unwatch, watch
from reward_ablation.training.core.gradients.lm_head import watched_head
from reward_ablation.training.core.gradients.passes import apart, measuring_pass, watch_log_probs
from reward_ablation.training.core.gradients.recorder import Measurement, Recorder, shape_of
from reward_ablation.training.core.gradients.seeds import KL, TRAINED, Family, coefficients, differ, policy_families
from reward_ablation.training.core.gradients.step import Completion, StepMeasurement
from reward_ablation.training.core.placement import ALL_TOKENS

#: Arguments of TRL's trainer by which completions would be made in several turns: a measured batch has one turn.
SEVERAL_TURNS = ("tools", "environment_factory", "rollout_func")
#: Settings under which the backward pass is not watched: TRL trains by its own pass, and nothing can be measured.
UNWATCHED = ("fp16", "torch_compile", "torch_compile_backend", "torch_compile_mode", "use_liger_kernel")


class Sink(Protocol):
    """Receives what one process of a run measures, step by step."""

    def add(self, name: str, table: pa.Table, step: int) -> None: ...

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Receive a step's whole gradients by name. `arrays` is called when there is room for the gradients."""

    def end_step(self) -> None: ...


class WatchedTrainer(GRPOTrainer):
    """GRPO whose training step also measures the components' gradients.

    The measurement reads additional columns of TRL's batch: `alone` and `shares`, (B, K) advantages; `row`, (B,)
    numbers, the keys of `_completions`; `placement_<name>`, (B, T) weights of tokens.

    Of all `components`, the advantage is made of those in `trained`, and the others are tracked. `placements` says, by
    component, which tokens its advantage acts on. `sink` receives the rollout log, the tables of gradients and the
    whole gradients. The components' gradients are measured at every n-th step (`measure_every`, 0 for never), and at
    the steps `whole_at` they are also written whole. Without `by_completion`, TRL's own backward pass is used, no layer
    is watched and nothing is measured. The other arguments are those of `GRPOTrainer`.

    Raises StudyError if the run measures gradients and a layer of the model cannot be watched, or if completions would
    have several turns.
    """

    def __init__(
        self,
        *,
        components: Sequence[str],
        trained: Collection[str],
        placements: dict[str, str],
        sink: Sink,
        measure_every: int,
        whole_at: Sequence[int] = (),
        by_completion: bool = True,
        **kwargs: Any,
    ):
        for name in SEVERAL_TURNS:
            if kwargs.get(name):
                raise StudyError(f"{name}: completions of several turns are neither logged nor measured; leave it out")
        super().__init__(**kwargs)
        self.placements = placements
        self.sink = sink
        self.measure_every = measure_every
        self.whole_at = whole_at
        self._component_names = list(components)
        self._recorder = Recorder()
        self._by_completion = by_completion and self._can_watch(must=bool(measure_every or whole_at))
        trained_names = {id(part): name for name, part in self.model.named_parameters() if part.requires_grad}
        head = self.model.get_output_embeddings()
        self._head = tuple(trained_names.get(id(getattr(head, part, None))) for part in ("weight", "bias"))
        self._trained_columns = [k for k, name in enumerate(components) if name in trained]
        self._vectors = [("alone", name) for name in components]
        self._vectors += [("share", name) for name in components if name in trained]
        self._vectors += [("share", KL)] if self.beta else []
        self._gradients = StepMeasurement(self.model, self._vectors, self.accelerator.num_processes)
        self._shapes = {name: shape_of(part) for name, part in self.model.named_parameters()}
        self._forward: Any = None  # log-probabilities, entropies and auxiliary loss of the training step
        self._given: Tensor | None = None  # log-probabilities to use instead of a forward pass
        # The micro-batch whose backward pass is being measured.
        self._measured: tuple[Measurement, list[Family], dict[str, Tensor]] | None = None
        self._completions: dict[int, Completion] = {}

    def _can_watch(self, must: bool) -> bool:
        """Watch the model's layers and return whether this was possible.

        If a layer cannot be watched, the error is raised only where the run `must` measure. Otherwise TRL trains by its
        own backward pass.
        """
        if any(getattr(self.args, name, None) for name in UNWATCHED):
            return False
        try:
            watch(self.model, self._recorder)
            watch_log_probs(self.model, self._recorder)
        except StudyError as error:
            if must:
                raise
            self._tell_why_unwatched(error)
            return False
        return True

    def _tell_why_unwatched(self, error: StudyError) -> None:
        if self.accelerator.is_main_process:
            reason = str(error).removeprefix("gradients: ").partition("; set ")[0]
            print(f"train: by TRL's own backward pass: {reason}", flush=True)

    def _measures_now(self) -> bool:
        step = self.state.global_step
        return bool(self.measure_every and step % self.measure_every == 0) or step + 1 in self.whole_at

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        """Keep the results of the training step's forward pass.

        While `_given` is set, further losses use these log-probabilities and no forward pass is made.
        """
        if self._given is not None:
            return self._given, *self._forward[1:]
        own_pass = super()._get_per_token_logps_and_entropies
        forward = partial(own_pass, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
        if not self._recorder.active or not torch.is_grad_enabled():
            return forward()
        scored = attention_mask.bool()
        scored[:, :-logits_to_keep] = False
        self._recorder.tokens, self._recorder.scored = input_ids, scored[:, 1:]
        self._recorder.batch, self._recorder.width = len(input_ids), logits_to_keep
        with watched_head(self._recorder, *self._head):
            self._forward = forward()
        return self._forward

    def _compute_loss(self, model, inputs):
        """TRL's loss with a backward pass by completion, which also serves the measurement.

        In the simple case, each completion's loss is its advantage times a factor. The backward pass then starts from
        the factor, and the advantages come in where weight gradients are added up. One pass serves both training and
        measurement. In the other cases (KL term, entropy bonus, auxiliary loss, advantages on some tokens only),
        training uses TRL's own backward pass, and the measurement makes passes of its own.
        """
        if not self.model.training or not self._by_completion:
            return super()._compute_loss(model, inputs)
        self._recorder.clear()
        self._recorder.active = True
        try:
            loss = super()._compute_loss(model, inputs)
        except MixedCompletions as error:
            if self.measure_every or self.whole_at:
                raise
            self._tell_why_unwatched(error)
            unwatch(self._recorder)
            self._by_completion = False
            return super()._compute_loss(model, inputs)
        advantages = inputs["advantages"]
        fused = advantages.dim() == 1 and not (self.beta or self._entropy_bonus_enabled or self.aux_loss_enabled)
        if fused or self._measures_now():
            signs = torch.where(advantages < 0, -1.0, 1.0)
            seeds = self._policy_seeds(model, inputs, signs)
            if self._measures_now():
                self._measure(model, inputs, signs, seeds, fused)
            if fused:
                loss = _Seeded.apply(self._forward[0], loss.detach(), seeds, advantages, self._recorder)
        self._forward = None
        return loss

    def _measure_ahead(self, batches: list[dict[str, Any]], step: int) -> pa.Table:
        """Measure a step's micro-batches before the step, without a trace in the training.

        Returns rows of `gradients.parquet`.
        """
        model = self.model_wrapped
        for batch in batches:
            self._recorder.clear()
            self._recorder.active = True
            asked = apart(self)
            with self.accelerator.no_sync(model), self.compute_loss_context_manager():
                GRPOTrainer._compute_loss(asked, model, batch)
                self._forward = asked._forward
                signs = torch.ones_like(batch["alone"][:, 0])
                self._measure(model, batch, signs, self._policy_seeds(model, batch, signs), fused=False)
            self._forward = None
            self.keep_block()
        return self._gradients.tables(step, self._mean, gather_object)["gradients"]

    def _mean(self, part: Tensor) -> Tensor:
        mean: Tensor = self.accelerator.reduce(part, reduction="mean")
        return mean

    def _measure(self, model, inputs, signs: Tensor, own: Tensor, fused: bool) -> None:
        """Make all backward passes of the measurement except the one that the training step makes itself."""
        other = None  # stays None on rollouts of the present model: nothing is clipped
        if "old_per_token_logps" in inputs:
            other = self._policy_seeds(model, inputs, -signs)
            if not self.accelerator.gather(differ(own, other).any()[None]).any():
                other = None
        names = sorted(set(self.placements.values()), key=lambda name: (name == ALL_TOKENS, name))
        families = policy_families(own, other, signs, {name: inputs.get(f"placement_{name}") for name in names})
        placements = [self.placements[component] for _, component in self._vectors if component != KL]
        alone, shares = inputs["alone"], inputs["shares"][:, self._trained_columns]
        clips = torch.cat([(alone >= 0).long(), torch.full_like(shares, TRAINED, dtype=torch.long)], dim=1)
        advantages = torch.cat([alone, shares], dim=1)
        if self.beta:
            seeds = self._seeds(model, inputs, alone[:, 0] * 0.0, ("_entropy_bonus_enabled", "aux_loss_enabled"))
            families.insert(0, Family.for_all(KL, seeds))
            placements.append(KL)
            clips = F.pad(clips, (0, 1), value=TRAINED)
            advantages = F.pad(advantages, (0, 1), value=1.0)
        measurement = Measurement(
            coefficients=coefficients(advantages, clips, placements, families),
            folded=self.accelerator.num_processes * self.current_gradient_accumulation_steps > 1,
            whole=len(self._component_names) * (self.state.global_step + 1 in self.whole_at),
        )
        self._measured = measurement, families, inputs
        for family in families[:-1] if fused else families:
            self._recorder.keeping = family is not families[-1]
            self._recorder.measurement = None if self._recorder.keeping else measurement
            measuring_pass(self.model, self._recorder.log_probs, family.seeds)
        self._recorder.keeping = False
        self._recorder.measurement = measurement if fused else None

    def _policy_seeds(self, model, inputs, signs: Tensor) -> Tensor:
        """Derivatives of the policy term for advantages of 1, (B, T), clipped as for advantages with these signs."""
        seeds = self._seeds(model, inputs, signs, ("beta", "_entropy_bonus_enabled", "aux_loss_enabled"))
        return seeds * (signs[:, None] if signs.dim() == 1 else signs)

    def _seeds(self, model, inputs, advantages: Tensor, without: tuple[str, ...]) -> Tensor:
        """Derivatives of TRL's loss by the log-probabilities, (B, T), without the terms named in `without`.

        The loss is taken by a copy of the trainer, so that the metrics which TRL records are discarded.
        """
        asked = apart(self)
        for name in without:
            setattr(asked, name, 0.0 if name == "beta" else False)
        asked._given = self._forward[0].detach().requires_grad_()
        loss = GRPOTrainer._compute_loss(asked, model, {**inputs, "advantages": advantages})
        return torch.autograd.grad(loss, asked._given)[0]

    def training_step(self, model, inputs, num_items_in_batch):
        step = self.state.global_step + 1
        output = super().training_step(model, inputs, num_items_in_batch)
        measured = self.keep_block()
        if self.accelerator.sync_gradients:
            if measured:
                self._keep_gradients(step)
            self.sink.end_step()
        return output

    def keep_block(self) -> bool:
        """Collect the results of a micro-batch's backward passes; return whether the micro-batch was measured."""
        measured, self._measured = self._measured, None
        if self._by_completion:
            self._recorder.check(measured[0] if measured else None)
        if measured is not None:
            measurement, families, batch = measured
            completions = [self._completions[row] for row in batch["row"].tolist()]
            # All losses multiply tokens by these ratios, except vespo, which puts them into a completion's weight.
            ratio = None if self.loss_type == "vespo" else batch.get("importance_sampling_ratio")
            self._gradients.add(measurement, families, completions, batch["completion_mask"].bool(), ratio)
        self._recorder.clear()
        return measured is not None

    def _keep_gradients(self, step: int) -> None:
        whole = {name: self._mean(part) for name, part in self._gradients.whole.items()}
        tables = self._gradients.tables(step, self._mean, gather_object)
        self._measured_step(step, tables["gradients"])
        if self.accelerator.is_main_process:
            for name, table in tables.items():
                self.sink.add(name, table, step)
            if whole:
                self.sink.add_arrays(step, partial(self._arrays_of, whole))

    def _measured_step(self, step: int, gradients: pa.Table) -> None:
        """Called with a step's gradients, which are the same in all processes. Does nothing here."""

    def _arrays_of(self, whole: dict[str, Tensor]) -> dict[str, np.ndarray]:
        """Whole gradients in the layout of rldynamics: float32 arrays by `component/parameter`."""
        return {
            f"{component}/{name}": gradients[k].float().cpu().numpy().reshape(self._shapes[name])
            for name, gradients in whole.items()
            for k, component in enumerate(self._component_names)
        }


class _Seeded(torch.autograd.Function):
    """A loss whose backward pass starts from `seeds`, derivatives for advantages of 1.

    The recorder's `scales` get the advantages, which multiply the gradients when these are added up.
    """

    @staticmethod
    def forward(ctx, log_probs, loss, seeds, advantages, recorder):
        ctx.save_for_backward(seeds, advantages)
        ctx.recorder = recorder
        return loss.clone()

    @staticmethod
    def backward(ctx, gradient):
        seeds, advantages = ctx.saved_tensors
        ctx.recorder.scales = advantages * gradient
        return seeds, None, None, None, None
