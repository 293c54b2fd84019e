"""A secret is taken out of a text, however a server has written the secret before it repeats it."""

import base64
import html
import json
import re
from itertools import product
from urllib.parse import quote, quote_plus, unquote

import pytest

from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.masking import masked

SECRETS = ["sk-Hunter2/hunter+2==", "pässwörd & \"more\"\n'x' 🔑", "abcd"]

WAYS = {
    "upper case": str.upper,
    "in a list": lambda secret: repr([secret]),
    "in a list in JSON": lambda secret: json.dumps(json.dumps([secret])),
    "JSON of PHP": lambda secret: json.dumps(secret).replace("/", r"\/"),
    "form": quote_plus,
    "in percent, twice, lower case": lambda secret: "".join(f"%25{byte:02x}" for byte in secret.encode()),
    "HTML": html.escape,
    "HTML in hex": lambda secret: "".join(f"&#x{ord(each):X};" for each in secret),
    "HEX": lambda secret: secret.encode().hex(":").upper(),
    "C": lambda secret: ", ".join(f"0x{byte:02x}" for byte in secret.encode()),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=[*WAYS])
def test_a_secret_is_hidden_in_each_way_of_writing(way):
    for secret in SECRETS:
        shown = masked(f"before {way(secret)} after {way(secret)}", secret, "(hidden)")
        assert shown.count("(hidden)") == 2
        rest = shown.replace("(hidden)", "").replace("before", "").replace("after", "")
        assert set(rest) <= set(" []\"'\\")  # what stands around the secret in lists


ENCODINGS = {
    "of URLs, without its end": lambda text: base64.urlsafe_b64encode(text).rstrip(b"="),
    "in percent": lambda text: quote(base64.b64encode(text), safe="").encode(),
    "in lines": lambda text: re.sub(b".{10}", rb"\g<0>\n", base64.b64encode(text)),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=[*ENCODINGS])
def test_a_secret_is_hidden_in_base64_at_each_place(encode):
    """At most the edges remain: characters that hold bits of the secret's neighbours alone."""
    for secret, before, after in product([*SECRETS, "~~~???>>>" * 3], ["", "u", "us"], ["", "\n", "@proxy:8080"]):
        code = encode(f"{before}{secret}{after}".encode()).decode()
        shown = masked(f"got {code}.", secret, "(hidden)")
        assert shown.count("(hidden)") == 1
        left, _, right = shown.removeprefix("got ").removesuffix(".").partition("(hidden)")
        left, right = ("".join(unquote(rest).split()) for rest in (left, right))
        assert len(left) <= len(base64.b64encode(before.encode()))
        assert len(right) <= len(base64.b64encode(after.encode() + b"??"))


def test_other_texts_stay_and_a_long_one_ends():
    assert masked("the code YQ== and 61", "a", "-") == "the code YQ== -nd 61"  # too short to be looked for in codes
    assert masked("hunter", "hunter2", "-") == "hunter"
    assert masked("a text", "", "-") == "a text"
    for text in ("\\" * 300_000, "%25" * 100_000, "s " * 150_000):
        assert masked(text, "sk-" + "a" * 60 + "b", "-") == text


def test_secrets_of_the_environment_are_in_no_last_line(monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", "hf_veryprivate")
    monkeypatch.setenv("MY_KEY", "short")
    basic = base64.b64encode(b"me:hf_veryprivate").decode()
    told = f"401: Bearer hf_veryprivate, Basic {basic}; proxy http://me:pw@proxy:80/x short"
    with pytest.raises(SystemExit), one_line_errors():
        raise StudyError(told)
    line = capsys.readouterr().err
    assert "veryprivate" not in line
    assert basic[8:-4] not in line
    assert "Bearer (HF_TOKEN)" in line
    assert "proxy http://(hidden)@proxy:80/x short" in line
    with pytest.raises(SystemExit), one_line_errors():
        raise RuntimeError(told)
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "veryprivate" not in shown
