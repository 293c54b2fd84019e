"""The training step: TRL's GRPOTrainer on weighted components, and the components' gradients from its backward pass.

`build` makes it in each process of a run, as the subclass `SavingTrainer`, which saves checkpoints.

One optimiser step, in order. "TRL" marks methods that are TRL's or transformers' own; all others are in this module.

1. `training_step` is called once for each micro-batch. It calls TRL's `training_step`, which makes steps 2 to 4.
2. `_prepare_inputs` gives the micro-batch. The first micro-batch of a generation has TRL call
   `_generate_and_score_completions`. This method has completions drawn (`_tokenize_prompts`, `_generate_single_turn`)
   and scored (`_calculate_rewards`), and TRL make one advantage of the scores. Then it computes each component's own
   advantage and its part of the common one, logs the rollouts (`_log_rollouts`), and puts advantages on tokens
   (`_place`).
3. `_compute_loss` has TRL compute the loss, of which `_get_per_token_logps_and_entropies` makes the forward pass. At a
   measured step, `_measure` makes the backward passes that only measure.
4. TRL calls `backward`. In the simple case of `_compute_loss`, the watched layers (`gradients/layers.py`,
   `gradients/lm_head.py`) form the gradients of single completions, multiply these by the advantages and add them up.
   In the other cases this backward pass is TRL's own.
5. `keep_block` collects what the micro-batch has measured. After the last micro-batch of a step, `_keep_gradients`
   writes the components' gradients.
6. TRL clips the gradient and the optimiser takes the step.

A component's weight enters the loss through `output["advantages"]` alone, in one of three ways:

- TRL multiplies the scores by `reward_weights` and makes advantages of the sum, or of the sum of z-scores
  (`multi_objective_aggregation`). `component_advantages` repeats the arithmetic to tell the components' parts.
- A method of combination (`_combined`) gets the scores and the weights and returns the components' parts. Their sum
  replaces TRL's advantage. A method that looks ahead does so in `_prepare_inputs`, after `_measure_ahead`.
- The trainer adds up the parts itself where TRL cannot: with one rollout per prompt, where TRL's advantages are all 0,
  and where a component's advantage acts on some tokens only (`_place`).

Components of weight 0 that no method of combination names never reach the training: it is the same, bit for bit, with
and without them.

This module overrides and reads private parts of TRL. `tests/training/test_trl.py` pins them, and those elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from accelerate.utils import gather_object, is_peft_model, set_seed
from torch import Tensor
from trl import GRPOTrainer

from reward_ablation.rewards.completions import completion_texts
from reward_ablation.rewards.scoring import RewardFunction, Scores
from reward_ablation.sampling.draws import stream_seed
from reward_ablation.sampling.prompts import tokenize_prompts
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.training.core.advantages import alone_advantages, beyond_range, component_advantages
from reward_ablation.training.core.generation.by_transformers import must_stay_whole, own_draws
from reward_ablation.training.core.generation.by_vllm import merged_weights, own_seeds
from reward_ablation.training.core.gradients.layers import MixedCompletions, unwatch, watch
from reward_ablation.training.core.gradients.lm_head import watched_head
from reward_ablation.training.core.gradients.loss_derivatives import (
    KL,
    TRAINED,
    Family,
    coefficients,
    differ,
    policy_families,
)
from reward_ablation.training.core.gradients.passes import (
    LossFromDerivatives,
    measuring_pass,
    scratch_copy,
    watch_log_probs,
)
from reward_ablation.training.core.gradients.recorder import Measurement, Recorder, shape_of
from reward_ablation.training.core.gradients.step import Completion, StepMeasurement, gradient_arrays
from reward_ablation.training.core.interfaces import WEIGHTS, Combination, Sink
from reward_ablation.training.core.placement import ALL_TOKENS, place, token_weights
from reward_ablation.training.core.rollouts import extra_column, rollout_table, sampling_gap

#: Arguments of TRL's trainer by which completions would be made in several turns: a measured batch has one turn.
SEVERAL_TURNS = ("tools", "environment_factory", "rollout_func")
#: Settings under which the backward pass is not watched: TRL trains by its own pass, and nothing is measured. The
#: study's config is refused if it has one of them and measures gradients.
UNWATCHED = ("fp16", "torch_compile", "torch_compile_backend", "torch_compile_mode", "use_liger_kernel")


class AblationTrainer(GRPOTrainer):
    """GRPO on weighted components. All components are scored, logged and measured.

    `components` are functions with TRL's reward signature, by name. One of weight 0 is only tracked (scored, logged and
    measured), unless it takes part in the `combination`; without one, TRL combines them. `placements` says, by
    component, which tokens its advantage acts on. `date` is the date that the chat template gets as today's. The
    dataset needs the columns `prompt` and `problem_id`.

    `sink` receives the measurements. The components' gradients are measured at step 1 and every n-th step after it (n
    is `measure_every`, 0 for none). At the steps `whole_at` they are measured, too, and also written whole. Without
    `by_completion`, TRL's own backward pass is used and nothing is measured.

    Raises StudyError if the run measures gradients and a layer of the model cannot be watched, or if completions would
    have several turns.
    """

    def __init__(
        self,
        *,
        components: dict[str, RewardFunction],
        weights: dict[str, float],
        date: str,
        placements: dict[str, str],
        sink: Sink,
        measure_every: int,
        whole_at: Sequence[int] = (),
        by_completion: bool = True,
        combination: Combination | None = None,
        **kwargs: Any,
    ):
        for name in SEVERAL_TURNS:
            if kwargs.get(name):
                raise StudyError(f"{name}: completions of several turns are neither logged nor measured; leave it out")
        self.components = {name: self._collecting(name, function) for name, function in components.items()}
        self.weights = weights
        self.date = date
        self.placements = placements
        self.sink = sink
        self.combination = combination
        self.trained = [name for name in components if weights[name] or (combination and name in combination.names)]
        kwargs["args"].reward_weights = [weights[name] for name in self.trained]
        super().__init__(reward_funcs=[self.components[name] for name in self.trained], **kwargs)
        self._watch_gradients(measure_every, whole_at, by_completion)
        set_seed(self.args.seed, device_specific=True)  # once more: building vLLM's engine sets the generators
        if self.use_vllm and is_peft_model(self.model):
            generation: Any = self.vllm_generation  # TRL's own way of merging adapters would let the base drift
            generation._iter_named_params = partial(merged_weights, self.model, generation._dist.gather_params)
        args: Any = self.args
        one_step = args.steps_per_generation == args.gradient_accumulation_steps and args.num_iterations == 1
        if combination and combination.looks_ahead and not one_step:
            raise StudyError(
                "combine.gram: same_step uses the gradients of one step's completions, and here steps and generations "
                "differ; leave generation_batch_size, steps_per_generation and num_iterations out"
            )
        self._rollout_seeds: list[int] = []  # of the rollouts that are being generated
        self._logged: dict[str, dict[str, list]] = {}  # by component: columns that it logged for the batch
        self._batch: dict[str, Any] = {}  # `scores` (N, K) of all processes; other values of this process's completions
        self._completions: dict[int, Completion] = {}  # of the generation, by row number
        # If the combination looks ahead: the batch that waits for advantages, its scores, and a function to log it.
        self._ahead: tuple[dict[str, Any], Tensor, Callable] | None = None
        self.batches = 0  # number of batches that this process has generated; numbers the rows

    def _watch_gradients(self, measure_every: int, whole_at: Sequence[int], by_completion: bool) -> None:
        """Set up what the backward pass by completion and the measurement need."""
        self.measure_every = measure_every
        self.whole_at = whole_at
        self._recorder = Recorder()
        self._by_completion = by_completion and self._can_watch(must=bool(measure_every or whole_at))
        trained_names = {id(part): name for name, part in self.model.named_parameters() if part.requires_grad}
        head = self.model.get_output_embeddings()
        # Names of the head's weight and bias; None for one that is not trained.
        self._head = tuple(trained_names.get(id(getattr(head, part, None))) for part in ("weight", "bias"))
        self._trained_columns = [k for k, name in enumerate(self.components) if name in self.trained]
        # The gradients that are compared: each component alone, and the parts of the gradient that the run trains on.
        self._vectors = [("alone", name) for name in self.components]
        self._vectors += [("share", name) for name in self.trained]
        self._vectors += [("share", KL)] if self.beta else []
        self._gradients = StepMeasurement(self.model, self._vectors, self.accelerator.num_processes)
        self._shapes = {name: shape_of(part) for name, part in self.model.named_parameters()}
        self._forward: Any = None  # log-probabilities, entropies and auxiliary loss of the training step
        self._given: Tensor | None = None  # log-probabilities to use instead of a forward pass
        # The micro-batch whose backward pass is being measured.
        self._measured: tuple[Measurement, list[Family], dict[str, Tensor]] | None = None

    def _can_watch(self, must: bool) -> bool:
        """Watch the model's layers; whether this was possible. If the run `must` measure, the error is raised."""
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

    def training_step(self, model, inputs, num_items_in_batch):
        """Train on one micro-batch; write the gradients after the step's last micro-batch."""
        step = self.state.global_step + 1
        output = super().training_step(model, inputs, num_items_in_batch)
        measured = self.keep_block()
        if self.accelerator.sync_gradients:
            if measured:
                self._keep_gradients(step)
            self.sink.end_step()
        return output

    # Rollouts, scores and advantages

    def _prepare_inputs(self, generation_batch):
        """If the combination looks ahead, measure new completions before their advantages are decided."""
        inputs = super()._prepare_inputs(generation_batch)
        if self._ahead is not None and self.combination is not None:
            (output, scores, log), self._ahead = self._ahead, None
            batches: Any = self._buffered_inputs
            self.combination.see(self._measure_ahead(batches, self.state.global_step + 1))
            first = self.accelerator.process_index * len(output["row"])
            parts = self._combined(self.combination, scores)[first : first + len(output["row"])]
            output["advantages"], output["shares"] = parts.sum(1), parts
            log(parts, output)
            self._place(output, parts)
            for batch in batches:  # TRL has shuffled and split the completions already
                rows = batch["row"] - output["row"][0]
                batch.update({name: output[name][rows] for name in ("advantages", "shares")})
        return inputs

    def _generate_and_score_completions(self, inputs):
        """Generate and score as TRL does; log the rollouts and add the components' advantages to the batch.

        The batch of B completions gets the columns `alone` and `shares`, (B, K): advantages of each component alone,
        and the components' parts of the common advantage. `row`, (B,), numbers the completions. Checkpoints have these
        names. If the combination looks ahead, `_prepare_inputs` replaces the parts, and logs.
        """
        step = self.state.global_step + 1
        first_row = self.accelerator.process_index * len(inputs)
        rollouts = [(first_row + i) % self.num_generations for i in range(len(inputs))]
        problem_ids = [row["problem_id"] for row in inputs]
        self._rollout_seeds = rollout_seeds(self.args.seed, step, problem_ids, rollouts)
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        scores = self._batch["scores"]
        self._refuse_beyond_range(scores, problem_ids)
        how = (self.num_generations, self.scale_rewards, self.multi_objective_aggregation)  # TRL scales and adds up
        weights = torch.tensor([self.weights[name] for name in self.components], device=scores.device)
        here = slice(first_row, first_row + len(inputs))
        alone = alone_advantages(scores, *how)[here]
        if self.combination and not self.combination.looks_ahead:
            parts = self._combined(self.combination, scores)[here]
            output["advantages"] = parts.sum(1)
        else:
            parts = component_advantages(scores, weights, *how)[here]
        if self.num_generations == 1:  # nothing to compare with: TRL's advantages are all 0
            output["advantages"] = parts.sum(1)
            unmoved = (parts == 0).all(1).float().mean()
            self._metrics["train"]["frac_reward_zero_std"][-1] = self.accelerator.gather(unmoved).mean().item()
        output["alone"], output["shares"] = alone, parts
        # Row numbers are unique over all processes and all batches of a run.
        first = self.batches * len(inputs) * self.accelerator.num_processes + here.start
        output["row"] = torch.arange(first, first + len(inputs), device=parts.device)
        size = self.num_generations
        self._completions = {
            number: Completion(step, problem, rollout=number % size, number=number, group=number // size)
            for number, problem in enumerate(problem_ids, start=first)
        }
        log = partial(self._log_rollouts, problem_ids, rollouts, scores[here])
        self.batches += 1
        if self.combination and self.combination.looks_ahead:
            self._ahead = output, scores, log
        else:
            log(parts, output)
        self._place(output, parts)  # after the log, which has one advantage for each completion
        return output

    def _tokenize_prompts(self, prompts):
        """Tokenize as evaluation does. A prompt has no images and no other inputs than its tokens."""
        return tokenize_prompts(prompts, self._tokenizer, self.date, self.chat_template_kwargs), None, {}

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        """Generate each rollout by its own seed, which does not depend on the process or the batch."""
        if self.use_vllm:
            with own_seeds(self.vllm_generation, self._rollout_seeds):
                return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        model = self.accelerator.unwrap_model(self.model_wrapped)
        with own_draws(model, self.generation_config, self._rollout_seeds, must_stay_whole(model, self.args)):
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)

    def _collecting(self, name: str, function: RewardFunction) -> RewardFunction:
        """Wrap a component, so that its `log_extra` logs for the rollouts and not for TRL's printed table."""

        @wraps(function)
        def call(completions: list, **columns: Any) -> Scores:
            columns["log_extra"] = self._logged.setdefault(name, {}).__setitem__
            return function(completions=completions, **columns)

        return call

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        """Score all components; return to TRL the scores of the trained components."""
        self._logged = {}
        trained = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        tracked_names = [name for name in self.components if name not in self.trained]
        columns = dict(zip(self.reward_func_names, trained.T, strict=True))
        if tracked_names:
            with self._tracking(tracked_names):
                tracked = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            columns.update(zip(tracked_names, tracked.T, strict=True))
            for name in tracked_names:
                self._metrics["train"][f"rewards/{name}/mean"].append(torch.nanmean(columns[name]).item())
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}  # TRL's definition of a completion that ended
        self._batch = {
            "scores": torch.stack([columns[name] for name in self.components], dim=1),
            "completions": completions,
            "ids": completion_ids_list,
            "truncated": [ids[-1] not in ends for ids in completion_ids_list],
            "extra": extra_column(self._logged, len(completions)),
        }
        return trained

    @contextmanager
    def _tracking(self, names: list[str]) -> Iterator[None]:
        """Let TRL score by these components. Its attributes and the random states are restored afterwards."""
        saved = self.reward_funcs, self.reward_func_names, self.reward_processing_classes
        self.reward_funcs = [self.components[name] for name in names]
        self.reward_func_names = names
        self.reward_processing_classes = [None] * len(names)
        python, numpy = random.getstate(), np.random.get_state()
        with torch.random.fork_rng():
            try:
                yield
            finally:
                self.reward_funcs, self.reward_func_names, self.reward_processing_classes = saved
                random.setstate(python)
                np.random.set_state(numpy)

    def _refuse_beyond_range(self, scores: Tensor, problem_ids: list[str]) -> None:
        """Refuse scores that are finite while their mean or deviation is not: their advantages would mean nothing."""
        found = beyond_range(scores, len(scores) if self.scale_rewards == "batch" else self.num_generations)
        if found is None:
            return
        row, column = found  # the same in all processes, which have all scores
        # Deviations are squared, and float32 ends at 3.4e38: up to 1e18, the sum of 340 squares stays below.
        raise StudyError(
            f"components.{list(self.components)[column]}: at step {self.state.global_step + 1}, problem "
            f"{gather_object(problem_ids)[row]}: the scores are finite, but their mean or deviation over a group or "
            "batch is not, because the scores are too large; make scores smaller than 1e18"
        )

    def _combined(self, combination: Combination, scores: Tensor) -> Tensor:
        """Parts of the advantages of all processes' completions, (N, K), by the run's combination."""
        columns = [list(self.components).index(name) for name in combination.names]
        tokens = gather_object([len(ids) for ids in self._batch["ids"]])
        parts = combination.component_advantages(
            scores[:, columns].cpu().double().numpy(),
            np.arange(len(scores)) // self.num_generations,
            np.array(tokens),
            self.state.global_step,
            float(self._get_learning_rate()),
        )
        of_all = torch.zeros_like(scores)
        of_all[:, columns] = torch.from_numpy(parts).to(of_all)
        if self.accelerator.is_main_process:
            step = self.state.global_step + 1
            self.sink.add(WEIGHTS, combination.table(step), step)
        return of_all

    def _place(self, output: dict[str, Any], parts: Tensor) -> None:
        """Put advantages on tokens, (B,) -> (B, T), if a trained component has a placement other than all tokens.

        For each such placement the batch gets a column `placement_<name>`, (B, T): the tokens' factors.
        """
        width = output["completion_ids"].size(1)
        weights = {
            placement: token_weights(placement, self._batch["ids"], width, self._tokenizer).to(parts.device)
            for placement in set(self.placements.values())
        }
        output.update({f"placement_{name}": of_tokens for name, of_tokens in weights.items() if name != ALL_TOKENS})
        placements = [self.placements[name] for name in self.trained]
        if set(placements) != {ALL_TOKENS}:
            output["advantages"] = place(parts[:, self._trained_columns], placements, weights).sum(2)

    def _log_rollouts(
        self, problem_ids: list[str], rollouts: list[int], scores: Tensor, parts: Tensor, output: dict[str, Any]
    ) -> None:
        """Log a batch's completions with scores and advantages; raise `NotFinite` if an advantage is not finite."""
        step = self.state.global_step + 1
        advantages = output["advantages"].tolist()
        # TRL and `component_advantages` put the largest number of float32 in place of an infinite one.
        if not all(abs(advantage) < torch.finfo(torch.float32).max for advantage in advantages):
            raise NotFinite("an advantage is not finite")
        columns = {
            "step": [step] * len(problem_ids),
            "problem_id": problem_ids,
            "rollout": rollouts,
            "completion": completion_texts(self._batch["completions"]),
            "tokens": [len(ids) for ids in self._batch["ids"]],
            "truncated": self._batch["truncated"],
            "advantage": advantages,
            **self._batch["extra"],
        }
        if self.use_vllm:
            columns |= sampling_gap(
                trainer=output["old_per_token_logps"],
                sampler=output["sampling_per_token_logps"],
                mask=output["completion_mask"],
                ratio=output["importance_sampling_ratio"],
                by_sequence=self.vllm_importance_sampling_mode.startswith("sequence"),
            )
        of_scores, of_parts = (dict(zip(self.components, values.T.tolist(), strict=True)) for values in (scores, parts))
        self.sink.add("rollouts", rollout_table(columns, of_scores, of_parts, self.weights), step)

    # Loss and gradients

    def _measures_now(self) -> bool:
        """Whether the present step, which follows `global_step`, is measured."""
        step = self.state.global_step
        return bool(self.measure_every and step % self.measure_every == 0) or step + 1 in self.whole_at

    def _compute_loss(self, model, inputs):
        """TRL's loss with a backward pass by completion, which also serves the measurement.

        In the simple case (`fused`), the pass starts from each completion's factor of its advantage, and the advantages
        come in where weight gradients are added up. In the other cases (KL term, entropy bonus, auxiliary loss,
        advantages on some tokens only), training uses TRL's own backward pass, and the measurement passes of its own.
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
            derivatives = self._policy_derivatives(model, inputs, signs)
            if self._measures_now():
                self._measure(model, inputs, signs, derivatives, fused)
            if fused:
                loss = LossFromDerivatives.apply(
                    self._forward[0], loss.detach(), derivatives, advantages, self._recorder
                )
        self._forward = None
        return loss

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        """Keep the results of the training step's forward pass; return `_given` instead of a pass while it is set."""
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

    def _policy_derivatives(self, model, inputs, signs: Tensor) -> Tensor:
        """Derivatives of the policy term for advantages of 1, (B, T), clipped as for advantages with these signs."""
        terms = ("beta", "_entropy_bonus_enabled", "aux_loss_enabled")
        derivatives = self._loss_derivatives(model, inputs, signs, without=terms)
        return derivatives * (signs[:, None] if signs.dim() == 1 else signs)

    def _loss_derivatives(self, model, inputs, advantages: Tensor, without: tuple[str, ...]) -> Tensor:
        """Derivatives of TRL's loss by the log-probabilities, (B, T), without the terms named in `without`.

        A copy of the trainer takes the loss, so that the metrics which TRL records are discarded.
        """
        scratch_trainer = scratch_copy(self)
        for name in without:
            setattr(scratch_trainer, name, 0.0 if name == "beta" else False)
        scratch_trainer._given = self._forward[0].detach().requires_grad_()
        loss = GRPOTrainer._compute_loss(scratch_trainer, model, {**inputs, "advantages": advantages})
        return torch.autograd.grad(loss, scratch_trainer._given)[0]

    def _measure(self, model, inputs, signs: Tensor, own: Tensor, fused: bool) -> None:
        """Make all backward passes of the measurement except the one that the training step makes itself, if `fused`.

        `own` are the derivatives for advantages of 1, clipped as for advantages with these `signs`.
        """
        other = None  # stays None on rollouts of the present model: nothing is clipped
        if "old_per_token_logps" in inputs:
            other = self._policy_derivatives(model, inputs, -signs)
            if not self.accelerator.gather(differ(own, other).any()[None]).any():
                other = None
        # All tokens come last: if `fused`, the step's own pass has this placement, and it is the last family.
        names = sorted(set(self.placements.values()), key=lambda name: (name == ALL_TOKENS, name))
        families = policy_families(own, other, signs, {name: inputs.get(f"placement_{name}") for name in names})
        placements = [self.placements[component] for _, component in self._vectors if component != KL]
        alone, parts = inputs["alone"], inputs["shares"][:, self._trained_columns]
        clips = torch.cat([(alone >= 0).long(), torch.full_like(parts, TRAINED, dtype=torch.long)], dim=1)
        advantages = torch.cat([alone, parts], dim=1)
        if self.beta:
            terms = ("_entropy_bonus_enabled", "aux_loss_enabled")
            of_kl = self._loss_derivatives(model, inputs, alone[:, 0] * 0.0, without=terms)  # advantages of 0
            families.insert(0, Family.for_all(KL, of_kl))
            placements.append(KL)
            clips = F.pad(clips, (0, 1), value=TRAINED)
            advantages = F.pad(advantages, (0, 1), value=1.0)
        measurement = Measurement(
            coefficients=coefficients(advantages, clips, placements, families),
            folded=self.accelerator.num_processes * self.current_gradient_accumulation_steps > 1,
            whole=len(self.components) * (self.state.global_step + 1 in self.whole_at),
        )
        self._measured = measurement, families, inputs
        for family in families[:-1] if fused else families:
            self._recorder.keeping = family is not families[-1]
            self._recorder.measurement = None if self._recorder.keeping else measurement
            measuring_pass(self.model, self._recorder.log_probs, family.loss_derivatives)
        self._recorder.keeping = False
        self._recorder.measurement = measurement if fused else None

    def _measure_ahead(self, batches: list[dict[str, Any]], step: int) -> pa.Table:
        """Measure a step's micro-batches before the step; rows of `gradients.parquet`.

        It leaves no trace in the training but for the random state: a model with dropout draws other masks in the step.
        """
        model = self.model_wrapped
        for batch in batches:
            self._recorder.clear()
            self._recorder.active = True
            scratch_trainer = scratch_copy(self)
            with self.accelerator.no_sync(model), self.compute_loss_context_manager():
                GRPOTrainer._compute_loss(scratch_trainer, model, batch)
                self._forward = scratch_trainer._forward
                signs = torch.ones_like(batch["alone"][:, 0])  # of no effect: new rollouts are not clipped
                derivatives = self._policy_derivatives(model, batch, signs)
                self._measure(model, batch, signs, derivatives, fused=False)
            self._forward = None
            self.keep_block()
        return self._gradients.tables(step, self._mean, gather_object)["gradients"]

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
        """Write a step's gradients, which are the same in all processes, and show them to the combination."""
        whole = {name: self._mean(part) for name, part in self._gradients.whole.items()}
        tables = self._gradients.tables(step, self._mean, gather_object)
        if self.combination:
            self.combination.see(tables["gradients"])
        if self.accelerator.is_main_process:
            for name, table in tables.items():
                self.sink.add(name, table, step)
            if whole:
                self.sink.add_arrays(step, partial(gradient_arrays, whole, self._shapes, list(self.components)))

    def _mean(self, part: Tensor) -> Tensor:
        mean: Tensor = self.accelerator.reduce(part, reduction="mean")
        return mean


def rollout_seeds(run_seed: int, step: int, problem_ids: list[str], rollouts: list[int]) -> list[int]:
    """Seeds of rollouts, numbered within their groups, in [0, 2^63): the same in any process, batch or attempt."""
    parts = zip(problem_ids, rollouts, strict=True)
    return [stream_seed(run_seed, step, problem, rollout) for problem, rollout in parts]
