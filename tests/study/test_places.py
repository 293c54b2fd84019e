"""What was made of local files and folders is found again, however the config spells their paths and names."""

import copy
import json
import shutil

import pytest

from reward_ablation.start.decide import PresentInputs, stale_because
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import deciding_inputs
from reward_ablation.study.specs_of_config import local_digest
from reward_ablation.system.digests import folder_fingerprint

ROW = {"question": "1 + 1?", "answer": "2"}


@pytest.fixture
def config(config, tmp_path):
    """Model, training set, exam, demonstrations and reward model are the user's own."""
    for name in ("model", "judge"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"of": name}))
    for number, name in enumerate(("train", "exam", "other", "demos")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**ROW, "question": f"{number} + 1?"}) + "\n")
    config["model"] = {"source": "local", "path": "model"}
    config["data"] = {
        "train": {"source": "file", "path": "train.jsonl"},
        "evaluation": {name: {"source": "file", "path": f"{name}.jsonl"} for name in ("exam", "other")},
        "overlap": "drop",
    }
    config["components"]["liked"] = {"function": "reward_model", "parameters": {"model": "judge"}}
    config["arms"]["arms"]["b"]["weights"]["liked"] = 1
    return config


@pytest.fixture
def with_start(config):
    """A supervised start of the user's own demonstrations before the runs."""
    demonstrations = {"source": "file", "path": "demos.jsonl"}
    return {**config, "sft": {"data": demonstrations, "completion": ["{answer}"], "training": {"max_steps": 1}}}


def make(config, root):
    """All files that the runs of a study and their evaluations need, with the records that the workflow writes."""
    study = resolve(config, "study.yaml", root)

    def write(file, **record):
        path = root / study.config.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.with_suffix(".json").write_text(json.dumps(record))

    for file in (study.fetched_file, study.model_file):
        write(file, source="local", id=config["model"]["path"])
    for key, source in study.reward_models.items():
        write(f"models/reward-{key}/model.json", source="local", id=json.loads(source)["path"])
    specs = {study.problems_file: study.train_data_spec}
    specs |= {f"data/evaluation/{name}.parquet": spec for name, spec in study.datasets.items()}
    if study.config.sft:
        specs[study.demonstrations_file] = study.sft_data_spec
    for file, spec in specs.items():
        source = json.loads(spec)["source"]
        write(file, source={"path": source["path"], "sha256": source["content"]})
    return study


def names(study):
    """All that a path or a name could decide: files of inputs and of answers, and the spec of a supervised start."""
    [reward_model] = study.reward_models
    made = [study.sft_spec] if study.config.sft else []
    files = [study.fetched_file, study.model_file, study.problems_file, study.demonstrations_file, *study.datasets]
    return [*files, *study.runs, reward_model, *made]


def elsewhere(config, root):
    """The same study with another path to everything."""
    for name in ("train.jsonl", "exam.jsonl", "demos.jsonl", "judge"):
        shutil.move(root / name, root / f"moved_{name}")
    (root / "linked").symlink_to(root / "model")
    config = copy.deepcopy(config)
    config["model"]["path"] = str(root / "linked")
    config["data"]["train"]["path"] = "./moved_train.jsonl"
    evaluation = config["data"]["evaluation"]
    evaluation["exam"]["path"], evaluation["other"]["path"] = str(root / "moved_exam.jsonl"), "./other.jsonl"
    config["components"]["liked"]["parameters"]["model"] = "moved_judge/"
    config["sft"]["data"]["path"] = "moved_demos.jsonl"
    return config


def test_the_place_decides_nothing(with_start, tmp_path):
    before = names(make(with_start, tmp_path))
    moved = resolve(elsewhere(with_start, tmp_path), "study.yaml", tmp_path)
    assert names(moved) == before
    assert json.loads(moved.model_spec)["path"] == str(tmp_path / "linked"), "jobs read the present place"
    assert json.loads(moved.train_data_spec)["source"]["path"] == "./moved_train.jsonl"


@pytest.mark.parametrize("file", ["model/config.json", "train.jsonl", "exam.jsonl", "judge/config.json"])
def test_other_content_at_the_same_place_counts(config, tmp_path, file):
    before = names(make(config, tmp_path))
    (tmp_path / file).write_text((tmp_path / file).read_text().replace("1", "3").replace("of", "for"))
    local_digest.cache_clear()  # of one start
    folder_fingerprint.cache_clear()
    assert names(resolve(config, "study.yaml", tmp_path)) != before


def test_evaluation_sets_are_found_under_other_names(config, tmp_path):
    exam, other = make(config, tmp_path).datasets
    sets = config["data"]["evaluation"]
    config["data"]["evaluation"] = {"exam": sets["other"], "final": sets["exam"]}
    swapped = resolve(config, "study.yaml", tmp_path)
    assert list(swapped.datasets) == [other, exam]
    assert swapped.summary["questions"]["final"] == f"data/evaluation/{exam}.parquet"
    config["data"]["evaluation"] = {"final": sets["exam"], "again": sets["exam"]}
    first, second = resolve(config, "study.yaml", tmp_path).datasets
    assert (first, second) == (exam, f"again-{exam.rpartition('-')[2]}"), "two sets never share a file"


def test_of_a_local_model_the_spec_decides_and_not_the_record_with_its_path(config, with_start, tmp_path):
    study = make(config, tmp_path)
    [run, *_] = study.runs.values()
    record = {"seed": run.seed, "spec": run.arm_spec.content(), "code": run.code, "modules": {}}
    record["inputs"] = {**PresentInputs(study).inputs, "model": "of the record with another path"}
    assert stale_because(record, run, PresentInputs(study)) is None
    spec = next(iter(resolve(with_start, "study.yaml", tmp_path).runs.values())).arm_spec.content()
    assert deciding_inputs(spec, {"model": "a"}) == {"model": "a"}, "a start is made, and can be made anew"
