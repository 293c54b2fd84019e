"""Made-up runs on disk, as training leaves them: finished, stopped, killed, failed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from reward_ablation.start.decide import PresentInputs
from reward_ablation.study.core_digest import command_modules, deciding_digest, training_modules
from reward_ablation.study.heartbeat import FILE as HEARTBEAT
from reward_ablation.study.heartbeat import STOPPED, TRAINING, Heartbeat
from reward_ablation.study.run_folder import LOCK, OWNER, RECORD, SEAL, WORK, record_divergence
from reward_ablation.study.study import Run, Study
from reward_ablation.system.files import sha256, write_json

#: When the logs of these runs were last written to, in seconds since 1970.
NOW = 1_800_000_000.0
#: What a run leaves that keeps a model on the way.
FILES = (
    "rollouts.parquet",
    "gradients.parquet",
    "metrics.parquet",
    "model/config.json",
    "model/model.safetensors",
    "model-step5/adapter_model.safetensors",
)


def attempt(seconds: float, ended: str | None = None, gpus: int = 2) -> dict[str, Any]:
    hardware = {"gpus": ["NVIDIA H200"] * gpus, "processes": max(1, gpus)}
    record = {"from_step": 0, "to_step": 20, "hardware": hardware, "threads": 1, "wall_seconds": seconds}
    return record | ({"ended": ended} if ended else {})


class LeftBehind:
    """The results folder of a study, to be filled."""

    def __init__(self, study: Study):
        self.study = study
        self.root = study.root / study.config.root
        self.runs = list(study.runs.values())

    def folder(self, run: Run) -> Path:
        """A run's folder, with the lock's file in it: nobody holds it."""
        folder = self.root / "runs" / run.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
        return folder

    def log(self, run: Run, text: str, age: float = 0.0) -> None:
        """A run's log that was last written to so many seconds before NOW."""
        self.other_log(f"train/{run.name}.log", text, age)

    def at_step(self, run: Run, step: int, age: float = 0.0, left: float = 120.0, then: str = "", **beat: Any) -> None:
        """A run that wrote its heartbeat and a line in its log so many seconds before NOW; `left` are seconds, too."""
        facts = {"step": step, "steps": 40, "reward": step / 100, "seconds_per_step": left / (40 - step)}
        self.beat(run, age, **facts | beat)
        self.log(run, f"step {step}/40: reward {step / 100:.3f}, {left:.0f} s left\n{then}", age)

    def stopped(self, run: Run, step: int, why: str, age: float = 0.0) -> None:
        """A run that stopped in order."""
        self.at_step(run, step, age, doing=STOPPED, why=why)

    def beat(self, run: Run, age: float = 0.0, doing: str = TRAINING, **facts: Any) -> None:
        """The heartbeat that a run wrote so many seconds before NOW."""
        work = self.root / "runs" / run.name / WORK
        work.mkdir(parents=True, exist_ok=True)
        beat = Heartbeat(at=NOW - age, doing=doing, **facts)
        (work / HEARTBEAT).write_text(beat.model_dump_json())

    def other_log(self, name: str, text: str, age: float = 0.0) -> None:
        path = self.root / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (NOW - age, NOW - age))

    def finish(self, run: Run, *attempts: dict[str, Any], name: str = RECORD, **changes: Any) -> None:
        """A finished run's record; it is as old as an hour."""
        spec = {key: value for key, value in json.loads(run.spec).items() if key != "seed"}
        record = {"spec": spec, "seed": run.seed, "code": run.code}
        record["modules"] = training_modules(run.arm_spec.functions)
        record |= {"inputs": {}, "steps": 40, "attempts": list(attempts)} | changes
        path = self.folder(run) / name
        write_json(record, path)
        os.utime(path, (NOW - 3600, NOW - 3600))

    def finish_whole(self, run: Run, *attempts: dict[str, Any], **changes: Any) -> None:
        """A finished run with all that its record lists, the files' digests and sizes included."""
        folder = self.folder(run)
        for name in FILES:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(name.encode().ljust(40, b"."))
        (folder / "empty.txt").touch()
        files = sorted([*FILES, "empty.txt"])
        recorded = {"files": {name: sha256(folder / name) for name in files}}
        recorded |= {"sizes": {name: (folder / name).stat().st_size for name in files}}
        self.finish(run, *attempts, **recorded, **changes)

    def work(self, run: Run, *attempts: dict[str, Any], checkpoint: int = 0, **changes: Any) -> None:
        """Unfinished work, with a sealed checkpoint."""
        work = self.folder(run) / WORK
        owner = {"spec": json.loads(run.spec), "code": run.code, "inputs": {}}
        owner["modules"] = command_modules(run.arm_spec.functions)
        write_json(owner | changes, work / OWNER)
        write_json(list(attempts), work / "attempts.json")
        if checkpoint:
            write_json({}, work / f"checkpoint-{checkpoint}" / SEAL)

    def diverge(self, run: Run, **changes: Any) -> Path:
        """A run that diverged at step 2; gives the run's folder."""
        made = {"seed": run.seed, "spec": run.arm_spec.content(), "code": run.code, "inputs": {}, **changes}
        record_divergence(self.folder(run), made, 2, "the loss is nan")
        return self.folder(run)

    def made(self, file: str, text: str, **record: Any) -> None:
        """A file with its record beside it."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        write_json({"size": len(text), "sha256": sha256(path), **record}, path.with_suffix(".json"))

    def answer(self, model: str, dataset: str, **record: Any) -> None:
        """Answers with their record; `dataset` ends with `.steps` for those of the models that a run kept."""
        self.made(f"{self.study.answers_folder}/{model}/{dataset}.parquet", "answers", **record)

    def finish_all(self) -> None:
        """A finished study with its one evaluation set: model, data, runs, answers and scores, with their records."""
        study, [dataset] = self.study, self.study.datasets
        model = self.root / study.model_file
        model.parent.mkdir(parents=True)
        (model.parent / "config.json").write_text("{}")
        write_json({"files": {"config.json": {"size": 2, "sha256": sha256(model.parent / "config.json")}}}, model)
        code, [exam] = deciding_digest("data"), study.evaluation_files
        self.made(exam, "exam", code=code)
        self.made(study.problems_file, "problems", code=code, apart_from=[sha256(self.root / exam)])
        present = PresentInputs(study)
        for name in ("base", *study.runs):
            inputs = {"problems": present.evaluation_sets[dataset], "model": present.inputs["model"]}
            if name != "base":
                self.finish_whole(study.runs[name], attempt(1800), gpu_hours=1.25)
                inputs["run"] = sha256(self.root / "runs" / name / RECORD)
            for kind in ("", ".steps") if name in study.keeping_runs else ("",):
                self.answer(name, f"{dataset}{kind}", code=deciding_digest("evaluation"), inputs=inputs)
        for scores in study.scores:
            self.made(scores, "scores", code=study.scoring.code)
