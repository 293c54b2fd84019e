"""Generated files are what the models and the installed TRL say now."""

import json

import jsonschema
import pytest
import yaml

from reward_ablation.study import schemas

pytestmark = pytest.mark.slow  # imports TRL


def test_settings_schema_is_that_of_the_installed_trl():
    assert schemas.SETTINGS_FILE.read_text() == schemas.as_text(schemas.grpo_schema()), "run `make schemas`"


def test_config_schema_is_that_of_the_models():
    assert schemas.CONFIG_FILE.read_text() == schemas.as_text(schemas.config_schema()), "run `make schemas`"


CONFIGS = schemas.CONFIG_FILE.parents[2] / "config"


@pytest.mark.parametrize("name", sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")))
def test_shipped_configs_fit_the_schema(name):
    config = yaml.safe_load((CONFIGS / name).read_text())
    jsonschema.validate(config, json.loads(schemas.CONFIG_FILE.read_text()))


@pytest.mark.parametrize("name", sorted(schemas.CHOICES))
def test_choices_are_those_in_trls_source(name):
    """Choices that GRPOConfig declares as plain strings stand in TRL's source as literals."""
    import inspect

    from trl.trainer import grpo_config, grpo_trainer

    source = inspect.getsource(grpo_trainer) + inspect.getsource(grpo_config)
    for choice in schemas.CHOICES[name]:
        assert f'"{choice}"' in source, f"{name}: TRL no longer knows {choice}"
