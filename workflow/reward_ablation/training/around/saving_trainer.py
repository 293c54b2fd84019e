"""The run's trainer, extended by checkpoints, resumption from a checkpoint, and the final model.

`run` has `core.build` make a trainer of this class. It is outside of the core because it changes no number of a run.
TRL does not save the rollouts for later steps, nor how the order of the data goes on in later epochs: a resumed TRL
would begin with the first epoch's order. This module uses private parts of TRL; `tests/training/test_trl.py` pins them.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from trl.trainer.utils import split_tensor_dict

from reward_ablation.models.generation_config import make_saveable
from reward_ablation.study.run_folder import KEPT_MODEL
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.checkpoints import drop_old, seal
from reward_ablation.training.around.finish import FINAL, STATE
from reward_ablation.training.around.gap_watch import GapWatch
from reward_ablation.training.around.parts import PartWriter
from reward_ablation.training.core.gradients.step import Completion
from reward_ablation.training.core.trainer import AblationTrainer

# Several processes on CPUs have the devices cpu:0, cpu:1, ... To these, transformers restores the optimiser's state.
# torch cannot restore to such a device by itself. The number 100 puts this after torch's own kinds of devices.
torch.serialization.register_package(
    100, lambda storage: None, lambda storage, place: storage if place.startswith("cpu:") else None
)


class SavingTrainer(AblationTrainer):
    """Saves checkpoints, including the parts of tables that `sink` writes. A resumed run ends in the same result."""

    sink: PartWriter

    def __init__(self, *, sink: PartWriter, **kwargs: Any):
        super().__init__(sink=sink, **kwargs)
        make_saveable(self.model)
        self.epochs = 0  # finished epochs at the checkpoint from which this attempt resumed
        self._gap_watch = GapWatch(vars(self.args))
        self._saved_at = 0  # step of the last checkpoint
        self._sealed: dict[str, str] = {}  # digests of the parts that are on disk

    def _get_train_sampler(self, dataset=None):
        """Shuffle as in the epoch in which the run resumes. TRL would use the first epoch's order again."""
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self.epochs if sampler.shuffle else 0):
            torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler

    def _generate_and_score_completions(self, inputs):
        """Generate and score; stop the run if vLLM does not sample from the present weights."""
        output = super()._generate_and_score_completions(inputs)
        if self.use_vllm and self.model.training:
            mean = self._metrics["train"]["sampling/sampling_logp_difference/mean"][-1]
            self._gap_watch.see(mean, self.state.global_step + 1)
        return output

    def _generate(self, prompts):
        """Generate completions. If memory runs out, half the micro batch would not help: several come at once."""
        try:
            return super()._generate(prompts)
        except torch.OutOfMemoryError as error:
            raise StudyError(
                f"training: the GPU's memory does not hold {len(prompts)} completions while they are generated; lower "
                "generation_batch_size, steps_per_generation or max_completion_length, or give the run more GPUs"
            ) from error

    def _save_checkpoint(self, model, trial):
        """Save a checkpoint. Earlier checkpoints stay until this one is sealed."""
        # At the end of an epoch, transformers would save again, over a sealed checkpoint.
        if self._saved_at == self.state.global_step:
            return
        self._saved_at = self.state.global_step
        self.finish_writing()
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # `drop_old` removes, after the seal
        super()._save_checkpoint(model, trial)
        self.args.save_total_limit = limit
        work = Path(self.args.output_dir)
        checkpoint = work / f"checkpoint-{self.state.global_step}"
        self._save_state(checkpoint)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            seal(checkpoint, self.state.global_step, self.sink.folder, self._sealed)
            drop_old(work, limit)

    def _save_state(self, folder: Path) -> None:
        """Save the state that this process needs to resume, and that TRL does not save, into a checkpoint's folder."""
        args: Any = self.args
        batch = joined_batches(self._buffered_inputs) if self._rollouts_are_left() else None
        rows = [] if batch is None else batch["row"].tolist()
        state = {
            "micro_batches": self._step,
            "micro_batch": args.per_device_train_batch_size,
            "generated": self.batches,
            "epochs": int(self.state.epoch),
            "batch": batch,
            "completions": {row: astuple(self._completions[row]) for row in rows},
            "combination": self.combination.state if self.combination else None,
            "reference": self.ref_model.state_dict() if args.sync_ref_model else None,  # else it never changes
        }
        torch.save(state, self._state_file(folder))

    def load_state(self, folder: Path) -> None:
        """Restore this process's state from a checkpoint's folder, in a trainer that has not trained yet."""
        args: Any = self.args
        state: dict[str, Any] = torch.load(self._state_file(folder), map_location=self.accelerator.device)
        # If the micro batch has been halved since, the same steps are twice as many micro batches.
        self._step = state["micro_batches"] * state["micro_batch"] // args.per_device_train_batch_size
        self.batches = state["generated"]
        self.epochs = state["epochs"]
        if state["batch"] is not None:
            self._buffered_inputs = split_tensor_dict(state["batch"], args.steps_per_generation)  # type: ignore[assignment]
            self._completions = {row: Completion(*fields) for row, fields in state["completions"].items()}
        if self.combination:
            self.combination.state = state["combination"]
        if state["reference"] is not None:
            self.ref_model.load_state_dict(state["reference"])

    def _rollouts_are_left(self) -> bool:
        """Whether the next micro batch trains on rollouts that are already generated."""
        args: Any = self.args
        return self._step % (args.steps_per_generation * self.num_iterations) != 0

    def _state_file(self, folder: Path) -> Path:
        return folder / f"resumed_state_{self.accelerator.process_index}.pt"

    def create_model_card(self, *arguments, **keywords):
        """Write no model card. TRL would write one beside the checkpoints, to be removed with the work folder."""

    def keep_model(self) -> None:
        """Save the present model among the parts. Checkpoints from this step on include the model."""
        self._save_for_use(self.sink.folder / f"{KEPT_MODEL}{self.state.global_step}")

    def _save_for_use(self, folder: Path) -> None:
        self.save_model(str(folder))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle; run.json has the settings

    def save_final(self) -> None:
        """Save the final model and the trainer's state, which includes the metrics of all steps."""
        self.finish_writing()
        final = Path(self.args.output_dir) / FINAL
        self._save_for_use(final)
        if self.accelerator.is_main_process:
            self.state.save_to_json(str(final / STATE))
            seal(final, self.state.global_step, self.sink.folder, self._sealed)

    def finish_writing(self) -> None:
        """Write all rows so far, and wait for whole gradients that are still being written."""
        self.sink.flush()
        self.sink.wait()


def joined_batches(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Join batches with the same columns. A column that is a single number stays that number."""
    return {
        name: first if first is None or first.ndim == 0 else torch.cat([batch[name] for batch in batches])
        for name, first in batches[0].items()
    }
