"""The command of the supervised start: the fetched model learns the study's demonstrations, by TRL's SFTTrainer.

The rule `sft` runs it, on one GPU or the CPU; all runs start from its model. `fine_tune` has the work that needs torch.

python -m reward_ablation.sft --spec JSON --model FOLDER --problems FILE --output FOLDER/model.json
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from reward_ablation.config.trl_settings import check_version
from reward_ablation.data.prepared import verify_problems
from reward_ablation.models.verify import verify_model
from reward_ablation.sft.demonstrations import read_demonstrations
from reward_ablation.spec.run import SftSpec
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.study.run_folder import LOCK, SFT_WORK, WORK
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.files import write_json
from reward_ablation.system.gpus import claim_gpus
from reward_ablation.system.imports import large_imports
from reward_ablation.system.locks import last_change, wait_for
from reward_ablation.training.around.launch.worker import refuse_other_launchers


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and train; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.sft", description=__doc__.splitlines()[0])
    parser.add_argument("--spec", required=True, help="JSON of all that decides the start but the model")
    parser.add_argument("--model", required=True, type=Path, help="folder of the model to start from")
    parser.add_argument("--problems", required=True, type=Path, help="prepared demonstrations, Parquet")
    parser.add_argument("--output", required=True, type=Path, help="model.json; its folder becomes the model's")
    args = parser.parse_args(arguments)
    check_version()
    refuse_other_launchers()
    spec = SftSpec.parse(args.spec)
    verify_problems(args.problems)
    verify_model(args.model)
    demonstrations = read_demonstrations(args.problems, spec)
    folder = args.output.resolve().parent
    place = folder.with_name(f".{folder.name}{SFT_WORK}")
    before = last_change(args.output)
    with storage_errors(folder), wait_for(place / LOCK, "sft"):
        if last_change(args.output) not in (None, before):
            print("sft: the job of an earlier start has made it meanwhile", flush=True)
            shutil.rmtree(place)
            return 0
        if spec.device == "cuda":
            claim_gpus(1, "sft")

        with large_imports():  # late, so that bad demonstrations are refused at once
            from reward_ablation.sft.fine_tune import fine_tune
            from reward_ablation.training.around.adapters import check_adapters
            from reward_ablation.training.around.interruption import Stopped

        check_adapters(args.model, spec.lora, "sft.lora")
        try:
            fine_tune(spec, args.model, args.problems, demonstrations, place / WORK, args.output)
        except Stopped as stopped:
            print(f"sft: {stopped}", flush=True)
            return GOES_ON
        # Not in model.json, whose digest decides runs: other code that gives the same model trains no run again.
        write_json({"code": deciding_digest("sft")}, folder.with_suffix(".json"))
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    with one_line_errors():
        sys.exit(main())
