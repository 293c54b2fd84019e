"""Keys are an interface: the workflow finds a user's finished runs, answers, data and models by their keys."""

import json

import pytest

from reward_ablation.spec.parts import DataSpec, TrainDataSpec
from reward_ablation.spec.run import EvaluateSpec, RunSpec, SftSpec

from . import pinned_keys

MOVED = (
    "Keys of {where} have moved: users would train, prepare or evaluate again. Find the change of the spec and take it "
    "back; a new field of a spec needs a default. If the keys are meant to move, say in CHANGELOG.md what users must "
    "do, then write the file anew: python tests/study/pinned_keys.py"
)
FIELDS = (
    "{part}: its fields or defaults are not those of tests/study/pinned_keys.json. A changed default changes what "
    "specs on disk mean, and a field without a default moves keys: take the change back. A new field with a default "
    "is fine: write the file anew, python tests/study/pinned_keys.py"
)


@pytest.fixture(scope="module")
def studies():
    return pinned_keys.shipped_studies()


def test_keys_of_shipped_configs_stay(studies):
    pinned = pinned_keys.pinned()["keys"]
    assert set(studies) == set(pinned), "a config came or went: python tests/study/pinned_keys.py"
    for name, study in studies.items():
        assert json.loads(json.dumps(pinned_keys.keys_of(study))) == pinned[name], MOVED.format(where=name)


def test_fields_and_defaults_of_specs_stay():
    pinned, fields = pinned_keys.pinned()["fields"], pinned_keys.fields()
    for part in pinned.keys() | fields.keys():
        assert fields.get(part) == pinned.get(part), FIELDS.format(part=part)


def test_specs_of_shipped_configs_are_read_and_written_to_the_byte(studies):
    texts = 0
    for study in studies.values():
        for run in study.runs.values():
            texts += 1
            assert RunSpec.parse(run.spec).text == run.spec
            assert RunSpec.parse(run.spec) == RunSpec(**dict(run.arm_spec), seed=run.seed)
        for kind, text in (
            (EvaluateSpec, study.evaluation_spec),
            (TrainDataSpec, study.train_data_spec),
            *((DataSpec, text) for text in study.datasets.values()),
            *([(SftSpec, study.sft_spec)] if study.config.sft else []),
        ):
            assert kind.parse(text).text == text
    assert texts > 50
