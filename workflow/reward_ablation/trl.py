"""Rollout files of a run that TRL's own trainer trains.

A user's own training script calls `track` (docs/tracking.md); no rule of the workflow does. It is for those who keep
their trainer, and want the files in which the workflow records completions, rewards and advantages.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback
from trl import GRPOTrainer

from reward_ablation.study.live_rollouts import append_rollouts, continue_rollouts, save_rollouts
from reward_ablation.study.run_folder import LOCK, OWNER, RECORD, WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json, write_parquet
from reward_ablation.system.locks import Lock, hold_lock
from reward_ablation.training.around.attempts import package_versions
from reward_ablation.training.around.checkpoints import read_json
from reward_ablation.training.around.finish import metrics_table
from reward_ablation.training.core.advantages import component_advantages
from reward_ablation.training.core.rollouts import rollout_schema, rollout_table

#: Locks of folders that this process tracks into. After an error, the next trainer here takes the lock over.
_LOCKS: dict[Path, Lock] = {}


def track(trainer: GRPOTrainer, folder: str | Path) -> None:
    """Have TRL's trainer write the rollouts, rewards and metrics of its run into a folder; call it before ``train``.

    The training stays the same, to the bit. Gradients by component are measured by this project's own trainer alone.

    Parameters
    ----------
    trainer : GRPOTrainer
        Trainer of TRL that has not trained yet, in one process or in several.
    folder : str or Path
        Folder of this run alone, such as ``runs/full/seed0``. It gets these files at each checkpoint and at the end:

        - ``rollouts.parquet``: a row for each completion, with its step, prompt, length, scores, weighted total and
          advantage. ``problem_id`` is the dataset's column ``problem_id`` or ``id``, else a digest of the prompt.
          ``advantage_NAME``, a reward's part of the advantage, is null if the advantages are not TRL's own.
        - ``metrics.parquet``: what the trainer has logged. ``run.json``: seed, weights, versions and steps.

        In between, ``.work/rollouts.jsonl`` has all rows so far. A run that resumes from a checkpoint goes on there.

    Raises
    ------
    StudyError
        If two reward functions have one name, or the trainer is tracked already; or, when training begins, if the
        folder has another run or a finished one from which this one does not resume, or another process tracks into it.
    """
    names = trainer.reward_func_names
    if len(set(names)) < len(names):
        raise StudyError(f"track: two reward functions have one name ({', '.join(names)}); give each its own")
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, Tracker):
            raise StudyError(f"track: this trainer is tracked already, into {callback.folder}; call track only once")
    trainer.add_callback(Tracker(trainer, Path(folder)))


class Tracker(TrainerCallback):
    """Writes what passes two private methods of TRL's trainer, which `tests/training/test_trl.py` watches."""

    def __init__(self, trainer: Any, folder: Path):
        self.trainer = trainer
        self.folder = folder
        # As the user wrote them: 0.1, and not 0.10000000149, which is the same number in TRL's 32 bits.
        weights = [float(str(weight)) for weight in trainer.reward_weights.cpu().numpy()]
        self.weights = dict(zip(trainer.reward_func_names, weights, strict=True))
        self._rows: list[dict[str, Any]] = []  # completions of this process that were scored last
        self._counts: Counter = Counter()  # completions in this step by problem, which number them
        trainer._calculate_rewards = partial(self._scored, trainer._calculate_rewards)
        trainer._generate_and_score_completions = partial(self._generated, trainer._generate_and_score_completions)

    def _scored(self, method: Callable, inputs, prompts, completions, completion_ids_list):
        """TRL's scores, by its own `method`, of all processes' completions; the other arguments are of this process."""
        scores = method(inputs, prompts, completions, completion_ids_list)
        own = scores[self.trainer.accelerator.process_index * len(prompts) :][: len(prompts)].tolist()
        self._rows = list(map(self._row, inputs, prompts, completions, completion_ids_list, own))
        return scores

    def _generated(self, method: Callable, inputs):
        """TRL's batch of this process, with its advantages, which follow the scores."""
        output = method(inputs)
        if self.trainer.model.training:  # else TRL evaluates
            advantages = zip(self._rows, output["advantages"].tolist(), strict=True)
            rows = gather_object([row | {"advantage": advantage} for row, advantage in advantages])
            if self.trainer.accelerator.is_main_process:
                self._keep(rows, self.trainer.state.global_step + 1)
        return output

    def _row(self, row: dict, prompt: Any, completion: Any, ids: list[int], scores: list[float]) -> dict[str, Any]:
        """What is kept of a completion; `row` is the dataset's row, and `ids` are the completion's tokens."""
        digest = hashlib.sha256(text_of(prompt).encode(errors="replace")).hexdigest()[:16]
        given = (row.get("problem_id"), row.get("id"))
        return {
            "problem_id": next((str(name) for name in given if name is not None and name == name), digest),  # not NaN
            "completion": text_of(completion),
            "tokens": len(ids),
            "truncated": ids[-1] not in (*self.trainer.eos_token_ids, self.trainer._tokenizer.pad_token_id),  # as TRL
            "scores": scores,
            "prompt": text_of(prompt),
        }

    def _keep(self, rows: list[dict[str, Any]], step: int) -> None:
        """Append all processes' completions of a generation, in which the completions of a group follow each other."""
        columns: dict[str, list] = {name: [row[name] for row in rows] for name in rows[0]}
        prompts, scores = columns.pop("prompt"), torch.tensor(columns.pop("scores"))
        how = (self.trainer.num_generations, self.trainer.scale_rewards, self.trainer.multi_objective_aggregation)
        parts = component_advantages(scores, torch.tensor(list(self.weights.values())), *how)
        if not torch.allclose(parts.sum(1), torch.tensor(columns["advantage"]), atol=1e-3):
            parts = torch.full_like(parts, torch.nan)  # more than rounding: a subclass with advantages of its own
        columns |= {"step": [step] * len(rows), "rollout": []}
        for problem in columns["problem_id"]:
            columns["rollout"].append(self._counts[problem])
            self._counts[problem] += 1
        of_scores, of_parts = (dict(zip(self.weights, values.T.tolist(), strict=True)) for values in (scores, parts))
        table = rollout_table(columns, of_scores, of_parts, self.weights).append_column("prompt", [prompts])
        append_rollouts(self.folder / WORK, table.to_pylist())

    def on_train_begin(self, args, state, control, **kwargs):
        """Refuse a folder with another run, lock it, and cut its rows to the step from which training goes on."""
        if state.is_world_process_zero:
            begun = self.folder / WORK / RECORD  # until the first checkpoint, nothing else says whose the rows are
            record = read_json(self.folder / RECORD) or read_json(begun)
            record = record or {"tracked": not (self.folder / WORK / OWNER).exists()}  # a run of the workflow has OWNER
            own = {"tracked": True, "seed": args.seed, "weights": self.weights}
            differing = [name for name, value in own.items() if record.get(name, value) != value]
            if differing or not record.get("tracked") or (record.get("finished") and not state.global_step):
                which = f" ({differing[0]} {record[differing[0]]})" if differing and record.get("tracked") else ""
                what = f"has another run{which}; track into another folder, or delete this one"
                raise StudyError(f"{self.folder}: {what}")
            self._unlock()
            busy = f"{self.folder}: {{holder}} tracks a run there; wait until it ends, or track into another folder"
            _LOCKS[self.folder.resolve()] = hold_lock(self.folder / LOCK, busy)
            continue_rollouts(self.folder, state.global_step)
            write_json(own, begun)

    def on_step_begin(self, args, state, control, **kwargs):
        self._counts.clear()

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self._write(args, state, finished=False)

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self._write(args, state, finished=True)
            shutil.rmtree(self.folder / WORK)
            self._unlock()

    def _unlock(self) -> None:
        """Remove and release the folder's lock, if this process holds it."""
        if lock := _LOCKS.pop(self.folder.resolve(), None):
            (self.folder / LOCK).unlink(missing_ok=True)
            lock.release()

    def _write(self, args: Any, state: Any, finished: bool) -> None:
        save_rollouts(self.folder, rollout_schema([*self.weights]).append(pa.field("prompt", pa.string())))
        write_parquet(metrics_table(state.log_history), self.folder / "metrics.parquet")
        record = {"tracked": True, "finished": finished, "steps": state.global_step, "seed": args.seed}
        record |= {"weights": self.weights, "packages": package_versions()}
        write_json(record, self.folder / RECORD)


def text_of(messages: Any) -> str:
    """Text of a prompt or completion: messages joined by newlines. Images and calls of tools are left out."""
    if isinstance(messages, str):
        return messages
    contents = (message.get("content") or "" for message in messages)
    return "\n".join(
        each if isinstance(each, str) else "\n".join(part.get("text") or "" for part in each) for each in contents
    )
