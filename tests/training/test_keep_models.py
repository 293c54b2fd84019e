"""Kept models equal the final model of a run with so many steps, also after interruptions."""

import json
import os

import pytest

from reward_ablation.study.run_folder import WORK, step_of_kept_model
from reward_ablation.training.around.checkpoints import SET_ASIDE

from .interrupting import SAVING, StopAt, attempts, digests
from .test_interruption import LORA


def kept(run) -> list[str]:
    return sorted(path.name for path in run.glob("model*"))


def of_model(run, folder: str) -> dict[str, str]:
    return {
        name.removeprefix(f"{folder}/"): digest
        for name, digest in digests(run).items()
        if name.startswith(f"{folder}/")
    }


@pytest.mark.parametrize("lora", [None, LORA])
def test_a_kept_model_is_the_final_one_of_a_shorter_run(train, lora):
    constant = {"lr_scheduler_type": "constant"}
    run = train("run", keep_models=2, lora=lora, training=constant)
    assert kept(run) == ["model", "model-step2"]
    shorter = train("shorter", lora=lora, training={**constant, "max_steps": 2})
    assert of_model(run, "model-step2") == of_model(shorter, "model")
    assert of_model(run, "model-step2") != of_model(run, "model")


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


def test_a_kept_model_that_is_damaged_takes_the_checkpoints_after_it_along(train, trained, tmp_path, capsys):
    """The run goes on from before it, and makes it again."""
    keeping = {"keep_models": 1, "training": {**SAVING, "save_steps": 1}}
    whole = trained(**keeping)
    with pytest.raises(KeyboardInterrupt):
        train("run", **keeping, callbacks=[StopAt(4)])
    work = tmp_path / "run" / "seed0" / WORK
    weights = work / "parts" / "model-step3" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    run = train("run", **keeping)
    assert f"{weights} is not what was written there: checkpoint-3 is set aside in {work / SET_ASIDE}" in (
        capsys.readouterr().out
    )
    assert attempts(run) == [(0, -1, "killed"), (2, 4, "done")]
    assert digests(run) == digests(whole)


def test_models_of_an_earlier_result_go(train):
    run = train("run", keep_models=2)
    (run / "model-step2").rename(run / "model-step9")
    record = json.loads((run / ".run.json").read_text())
    (run / ".run.json").write_text(json.dumps({**record, "code": "other"}))
    train("run", keep_models=2)
    assert kept(run) == ["model", "model-step2"]


@pytest.mark.parametrize(
    ("name", "step"), [("model-step20", 20), ("model", 0), ("model-step", 0), ("model-stepx", 0), ("checkpoint-2", 0)]
)
def test_the_step_of_a_folder(name, step):
    assert step_of_kept_model(name) == step
