"""Generated files agree with the models and the installed TRL."""

import dataclasses
import importlib
import inspect
import json
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))

import schemas

pytestmark = pytest.mark.slow  # imports TRL


each_trainer = pytest.mark.parametrize("settings", schemas.ALL_SETTINGS, ids=lambda settings: settings.config)


@each_trainer
def test_settings_schema_is_that_of_the_installed_trl(settings):
    generated = schemas.as_text(schemas.settings_schema(settings))
    assert (schemas.WORKFLOW / "reward_ablation" / "config" / settings.file).read_text() == generated, (
        "run `make schemas`"
    )


@each_trainer
def test_what_is_reserved_is_a_setting(settings):
    import trl

    assert set(settings.reserved) <= {field.name for field in dataclasses.fields(getattr(trl, settings.config))}


def test_config_schema_is_that_of_the_models():
    assert schemas.CONFIG_FILE.read_text() == schemas.as_text(schemas.config_schema()), "run `make schemas`"


CONFIGS = schemas.CONFIG_FILE.parents[2] / "config"


@pytest.mark.parametrize("name", sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")))
def test_shipped_configs_fit_the_schema(name):
    config = yaml.safe_load((CONFIGS / name).read_text())
    jsonschema.validate(config, json.loads(schemas.CONFIG_FILE.read_text()))


@each_trainer
def test_choices_are_those_in_trls_source(settings):
    """Choices that TRL declares as plain strings stand in its source as literals."""
    import trl

    config = getattr(trl, settings.config)
    source = inspect.getsource(inspect.getmodule(config))
    source += inspect.getsource(importlib.import_module(config.__module__.replace("_config", "_trainer")))
    for name, choices in settings.choices.items():
        for choice in choices:
            assert f'"{choice}"' in source, f"{name}: TRL no longer knows {choice}"
