"""Kept models equal the final model of a run with so many steps, also after interruptions."""

import json
import os

from .interrupting import digests
from .test_interruption import LORA


def kept(run) -> list[str]:
    return sorted(path.name for path in run.glob("model*"))


def of_model(run, folder: str) -> dict[str, str]:
    return {
        name.removeprefix(f"{folder}/"): digest
        for name, digest in digests(run).items()
        if name.startswith(f"{folder}/")
    }


def test_a_kept_model_is_the_final_one_of_a_shorter_run_and_those_of_an_earlier_result_go(train):
    constant = {"lr_scheduler_type": "constant"}
    run = train("run", keep_models=2, training=constant)
    assert kept(run) == ["model", "model-step2"]
    shorter = train("shorter", training={**constant, "max_steps": 2})
    assert of_model(run, "model-step2") == of_model(shorter, "model")
    assert of_model(run, "model-step2") != of_model(run, "model")
    (run / "model-step2").rename(run / "model-step9")
    record = json.loads((run / ".run.json").read_text())
    (run / ".run.json").write_text(json.dumps({**record, "code": "other"}))
    train("run", keep_models=2, training=constant)
    assert kept(run) == ["model", "model-step2"]


def test_all_files_of_a_run_have_the_mode_of_new_files(train):
    before = os.umask(0o027)
    try:
        run = train("run", keep_models=2, lora=LORA, gradients={"whole": [1]})
    finally:
        os.umask(before)
    modes = {str(path.relative_to(run)): oct(path.stat().st_mode & 0o777) for path in run.rglob("*") if path.is_file()}
    assert len([name for name in modes if name.endswith(".safetensors")]) == 2
    assert modes == dict.fromkeys(modes, "0o640")


def test_keeping_models_changes_nothing_else(trained):
    plain, keeping = digests(trained()), digests(trained(keep_models=1))
    assert plain.items() <= keeping.items()
    assert {name.partition("/")[0] for name in keeping.keys() - plain} == {"model-step1", "model-step2", "model-step3"}
