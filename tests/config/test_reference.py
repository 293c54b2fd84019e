"""The pages on the config's keys name all keys of the models."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))

import config_keys

from schemas import config_schema

README = Path(__file__).parents[2] / "config" / "README.md"
SCHEMA = config_schema()
SECTIONS = {
    "StudyConfig": SCHEMA,
    **{name: of for name, of in SCHEMA["$defs"].items() if name not in config_keys.TRL_CONFIG_OF},
}


def test_the_page_of_keys_is_that_of_the_models():
    text = config_keys.PAGE.read_text()
    assert config_keys.page(text) == text, "run `make schemas`"
    assert text.startswith("# All keys\n")


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_of_keys_and_the_explained_config_have_every_key(section):
    """In the explained config a key is code, by itself or with its value, in a sentence, a table or an example."""
    text = README.read_text()
    code = " ".join([*re.findall(r"`([^`\n]+)`", text), *re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)])
    explained = {*re.findall(r"[a-z_]\w*", code)}
    listed = {
        path.rpartition(".")[2] for path in re.findall(r"^\| `([^`]+)`", config_keys.PAGE.read_text(), re.MULTILINE)
    }
    for key in SECTIONS[section]["properties"]:
        assert key in listed
        assert key in explained, f"config/README.md does not explain {key}"


def test_a_key_without_a_description_is_an_error():
    with pytest.raises(KeyError, match=r"Lora\.new"):
        config_keys.description_of("Lora", "new", {"type": "integer"})
