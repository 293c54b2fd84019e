"""TRL's GRPOTrainer with tracked components, a rollout log and component gradients.

This module overrides and reads private parts of TRL; `tests/training/test_trl.py` pins them. Components of weight 0
never reach the training: it is the same, bit for bit, with and without them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from accelerate.utils import gather_object, is_peft_model, set_seed
from torch import Tensor

from reward_ablation.rewards.completions import completion_texts
from reward_ablation.rewards.scoring import RewardFunction, Scores
from reward_ablation.sampling.draws import stream_seed
from reward_ablation.sampling.prompts import tokenize_prompts
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.training.core.advantages import alone_advantages, beyond_range, component_shares
from reward_ablation.training.core.combination import WEIGHTS, Combination
from reward_ablation.training.core.generation.by_transformers import must_stay_whole, own_draws
from reward_ablation.training.core.generation.by_vllm import merged_weights, own_seeds
from reward_ablation.training.core.gradients.step import Completion
from reward_ablation.training.core.placement import ALL_TOKENS, place, token_weights
from reward_ablation.training.core.rollouts import extra_column, rollout_table, sampling_gap
from reward_ablation.training.core.watched_trainer import WatchedTrainer


class AblationTrainer(WatchedTrainer):
    """GRPO on weighted components. All components are scored, logged and measured.

    `components` are all components of the study by name: functions with TRL's reward signature. Each has one weight. A
    component of weight 0 is only tracked, unless it takes part in the combination. `combination` is a method that
    combines the components. Without one, TRL combines them. `date` is the date that the chat template gets as today's.
    The other arguments are those of `WatchedTrainer`. The dataset needs the columns `prompt` and `problem_id`.
    """

    def __init__(
        self,
        *,
        components: dict[str, RewardFunction],
        weights: dict[str, float],
        date: str,
        combination: Combination | None = None,
        **kwargs: Any,
    ):
        components = {name: self._collecting(name, function) for name, function in components.items()}
        self.components = components
        self.weights = weights
        self.date = date
        self.combination = combination
        self.trained = [name for name in components if weights[name] or (combination and name in combination.names)]
        kwargs["args"].reward_weights = [weights[name] for name in self.trained]
        super().__init__(
            reward_funcs=[components[name] for name in self.trained],
            components=list(components),
            trained=self.trained,
            **kwargs,
        )
        set_seed(self.args.seed, device_specific=True)  # once more: building vLLM's engine sets the generators
        if self.use_vllm and is_peft_model(self.model):
            generation: Any = self.vllm_generation
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
        self._batch: dict[str, Any] = {}
        self._ahead: tuple[dict[str, Any], Tensor, Callable] | None = None  # completions that still lack advantages
        self.batches = 0  # number of batches that this process has generated; numbers the rows

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

    def _generate_and_score_completions(self, inputs):
        """Generate and score as TRL does; log the rollouts and add the components' advantages to the batch."""
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
        how = (self.num_generations, self.scale_rewards, self.multi_objective_aggregation)
        weights = torch.tensor([self.weights[name] for name in self.components], device=scores.device)
        here = slice(first_row, first_row + len(inputs))
        alone = alone_advantages(scores, *how)[here]
        if self.combination and not self.combination.looks_ahead:
            shares = self._combined(self.combination, scores)[here]
            output["advantages"] = shares.sum(1)
        else:
            shares = component_shares(scores, weights, *how)[here]
        if self.num_generations == 1:  # nothing to compare with: TRL's advantages are all 0
            output["advantages"] = shares.sum(1)
            unmoved = (shares == 0).all(1).float().mean()
            self._metrics["train"]["frac_reward_zero_std"][-1] = self.accelerator.gather(unmoved).mean().item()
        output["alone"], output["shares"] = alone, shares
        # Row numbers are unique over all processes and all batches of a step.
        first = self.batches * len(inputs) * self.accelerator.num_processes + here.start
        output["row"] = torch.arange(first, first + len(inputs), device=shares.device)
        size = self.num_generations
        self._completions = {
            place: Completion(step, problem, rollout=place % size, place=place, group=place // size)
            for place, problem in enumerate(problem_ids, start=first)
        }
        log = partial(self._log_rollouts, problem_ids, rollouts, scores[here])
        self.batches += 1
        if self.combination and self.combination.looks_ahead:
            self._ahead = output, scores, log
        else:
            log(shares, output)
        self._place(output, shares)
        return output

    def _refuse_beyond_range(self, scores: Tensor, problem_ids: list[str]) -> None:
        """Refuse scores that are finite while their mean or deviation is not: their advantages would mean nothing."""
        found = beyond_range(scores, len(scores) if self.scale_rewards == "batch" else self.num_generations)
        if found is None:
            return
        row, column = found  # the same in all processes, which have all scores
        raise StudyError(
            f"components.{list(self.components)[column]}: at step {self.state.global_step + 1}, problem "
            f"{gather_object(problem_ids)[row]}: the scores are finite, but their mean or deviation over a group is "
            "not, because the scores are too large; make scores smaller than 1e18"
        )

    def _prepare_inputs(self, generation_batch):
        """If the combination looks ahead, measure new completions before their advantages are decided."""
        inputs = super()._prepare_inputs(generation_batch)
        if self._ahead is not None and self.combination is not None:
            (output, scores, log), self._ahead = self._ahead, None
            batches: Any = self._buffered_inputs
            self.combination.see(self._measure_ahead(batches, self.state.global_step + 1))
            first = self.accelerator.process_index * len(output["row"])
            shares = self._combined(self.combination, scores)[first : first + len(output["row"])]
            output["advantages"], output["shares"] = shares.sum(1), shares
            log(shares, output)
            self._place(output, shares)
            for batch in batches:
                places = batch["row"] - output["row"][0]
                batch.update({name: output[name][places] for name in ("advantages", "shares")})
        return inputs

    def _combined(self, combination: Combination, scores: Tensor) -> Tensor:
        """Shares of the advantages of all processes' completions, (N, K), by the run's combination."""
        columns = [list(self.components).index(name) for name in combination.names]
        tokens = gather_object([len(ids) for ids in self._batch["ids"]])
        parts = combination.shares(
            scores[:, columns].cpu().double().numpy(),
            np.arange(len(scores)) // self.num_generations,
            np.array(tokens),
            self.state.global_step,
            float(self._get_learning_rate()),
        )
        shares = torch.zeros_like(scores)
        shares[:, columns] = torch.from_numpy(parts).to(shares)
        if self.accelerator.is_main_process:
            step = self.state.global_step + 1
            self.sink.add(WEIGHTS, combination.table(step), step)
        return shares

    def _measured_step(self, step: int, gradients: pa.Table) -> None:
        if self.combination:
            self.combination.see(gradients)

    def _place(self, output: dict[str, Any], shares: Tensor) -> None:
        """Put advantages on tokens, (B,) -> (B, T), if a trained component has a placement other than all tokens.

        Otherwise TRL's own advantages stay. The placement of a tracked component changes nothing.
        """
        width = output["completion_ids"].size(1)
        weights = {
            placement: token_weights(placement, self._batch["ids"], width, self._tokenizer).to(shares.device)
            for placement in set(self.placements.values())
        }
        output.update({f"placement_{name}": of_tokens for name, of_tokens in weights.items() if name != ALL_TOKENS})
        placements = [self.placements[name] for name in self.trained]
        if set(placements) != {ALL_TOKENS}:
            output["advantages"] = place(shares[:, self._trained_columns], placements, weights).sum(2)

    def _log_rollouts(
        self, problem_ids: list[str], rollouts: list[int], scores: Tensor, shares: Tensor, output: dict[str, Any]
    ) -> None:
        step = self.state.global_step + 1
        advantages = output["advantages"].tolist()
        # TRL and `component_shares` put the largest number of float32 in place of an infinite one.
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
        of_scores, of_shares = (
            dict(zip(self.components, values.T.tolist(), strict=True)) for values in (scores, shares)
        )
        self.sink.add("rollouts", rollout_table(columns, of_scores, of_shares, self.weights), step)

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


def rollout_seeds(run_seed: int, step: int, problem_ids: list[str], rollouts: list[int]) -> list[int]:
    """Seeds of rollouts, in [0, 2^63), the same in any process, batch or attempt of a run.

    `rollouts` numbers each rollout within its group.
    """
    parts = zip(problem_ids, rollouts, strict=True)
    return [stream_seed(run_seed, step, problem, rollout) for problem, rollout in parts]
