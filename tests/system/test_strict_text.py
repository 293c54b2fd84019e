"""The readers of YAML and JSON: what they refuse, and what they read as the usual readers do."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from reward_ablation.system.strict_text import DuplicateKey, load_json, load_yaml


@pytest.mark.parametrize(
    "text",
    [
        "x: &x {p: 1}\ny: &y {<<: *x, p: 2}\nz: {<<: *y, p: 3}\nw: {<<: [*y, *x]}\n",  # keys replace merged ones
        "a: {b: 1}\nc: {b: 1}\n",  # in two mappings
        "1: a\n'1': b\n",  # a number and a text
    ],
)
def test_yaml_is_read_as_usual(text):
    assert load_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {x: 1,\n  'x': 2}", "line 2: key 'x' occurs twice, first in line 1; "),
        ("x: &x {p: 1}\ny: {<<: *x, p: 1, p: 2}", "line 2: key 'p' occurs twice, first in line 2; "),
    ],
)
def test_a_key_twice_in_yaml_is_refused(text, message):
    with pytest.raises(DuplicateKey) as error:
        load_yaml(text)
    assert str(error.value).startswith(message)


def bomb(first: str, line: str) -> str:
    return first + "".join(line.format(next=i + 1, nine=",".join([f"*a{i}"] * 9)) for i in range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb("a0: &a0 {k: 1}\n", "a{next}: &a{next} {{<<: [{nine}]}}\n"), "more than 1000000 entries"),
        ("a: &a [*a]\n", "more than 1000000 entries or 40 levels"),
        ("a: " + "[" * 200_000, "more than 40 levels"),  # deep enough to crash a reader in C
        ("? [x]\n: 1", "line 1, column 3: not YAML: found unhashable key"),
        ("a: !!bool x", "line 1, column 4: "),
        ("a: {7: b,\n  010: c}", "line 2, column 3: 010 begins with 0, and YAML reads such numbers by eights: 010 is"),
        ("a: 1\nb: \x00", "line 2: control characters are not allowed: "),
        ("a: '\ud800'", "half a character (a surrogate)"),
        ("a: 1\n---\nb: 2", "line 2, column 1: not YAML: but found another document"),
    ],
)
def test_other_yaml_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load_yaml(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": {"a": 2},\n"\\u0061": 3}', "line 2: key 'a' occurs twice, first in line 1; "),
        ('[{"q": "{\\"q\\": 1}"},\n{"q": 1,\n"q": 2}]', "line 3: key 'q' occurs twice, first in line 2; "),
        ('{"a": ' + "[" * 5000, "lists and objects are nested too deep; flatten them"),
        ('{"a": ' + "1" * 5000 + "}", "a whole number has too many digits; write it as text"),
    ],
)
def test_json_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load_json(text)
    assert str(error.value).startswith(message)


def test_json_is_read_as_usual():
    text = '{"a": [1, 2.5, null, {"a": "}{"}], "b": NaN}'
    assert str(load_json(text)) == str(json.loads(text)) == str(load_json(text.encode()))
    with pytest.raises(json.JSONDecodeError):
        load_json("{")
