import json
import shutil

from reward_ablation.cluster.preflight import bytes_to_come, no_room
from reward_ablation.spec.run import ArmSpec
from specs import arm_spec

FULL = ArmSpec.read(arm_spec())


def test_models_of_all_runs_and_checkpoints_of_those_that_run_at_once():
    model, checkpoint = 4 * 1000, 12 * 1000
    assert bytes_to_come(1000, [FULL] * 5, at_once=2) == 5 * model + 2 * 3 * checkpoint


def test_half_precision_halves_it_and_fewer_checkpoints_are_less():
    half = ArmSpec.read(arm_spec(training={"model_init_kwargs": {"dtype": "bfloat16"}}))
    assert bytes_to_come(1000, [half], 1) == bytes_to_come(1000, [FULL], 1) // 2
    one = ArmSpec.read(arm_spec(training={"save_total_limit": 1}))
    assert bytes_to_come(1000, [one], 1) == 4000 + 2 * 12000


def test_kept_models_count():
    kept = ArmSpec.read(arm_spec(training={"max_steps": 10}, keep_models=3))  # after steps 3, 6 and 9; the final one
    more = bytes_to_come(1000, [kept], 1) - bytes_to_come(1000, [FULL], 1)
    assert more == 3 * 4000


def test_adapters_are_small():
    adapters = ArmSpec.read(arm_spec(lora={"r": 16}))
    assert bytes_to_come(1000, [adapters], 1) * 10 < bytes_to_come(1000, [FULL], 1)


def test_too_little_room_is_told_with_what_to_do(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"parameters": shutil.disk_usage(tmp_path).free}))
    told = no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1)
    assert "free" in told
    assert "save_total_limit" in told
    (tmp_path / "model.json").write_text(json.dumps({"parameters": 1000}))
    assert no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1) is None


def test_what_the_runs_have_written_counts_as_room(tmp_path):
    """A run that goes on needs no room for what it has written."""
    parameters = (shutil.disk_usage(tmp_path).free + (8 << 30)) // (4 + 3 * 12)  # 8 GiB too little
    (tmp_path / "model.json").write_text(json.dumps({"parameters": parameters}))
    assert no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1) is not None
    work = tmp_path / "runs/a-1/seed0/.work/checkpoint-5"
    work.mkdir(parents=True)
    with (work / "model.safetensors").open("w") as file:
        file.truncate(16 << 30)  # sparse
    assert no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1) is None


def test_nothing_is_said_of_a_model_that_nothing_is_known_of(tmp_path):
    assert no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1) is None
