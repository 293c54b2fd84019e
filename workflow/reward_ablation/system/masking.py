"""Secrets taken out of messages, also where a server has written a secret in another way before it repeats it.

All errors that the commands print pass `without_known_secrets`. Answers of endpoints, and errors about a component's
parameters, pass `masked`, with the secrets that the component reads.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from html import escape

#: Shortest secret, in bytes, that is looked for in base64 and hex. The codes of a shorter one are in many texts.
SHORTEST_CODED = 4

#: Signs of base64 that its URL-safe form writes otherwise, and URLs in percent.
_SIGNS = {"+": r"(?:\+|-|%2B)", "/": r"(?:\\?/|_|%2F)"}

#: What may stand between two characters of a code: a break of the line, also as an escape.
_BREAK = r"(?:\s|\\[rn])*"

#: Names of environment variables that hold a secret, such as HF_TOKEN, and the length from which a value counts as one.
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?$", re.IGNORECASE)
SHORTEST_SECRET = 8

#: User and password in a URL, such as that of a proxy.
_USER_IN_URL = re.compile(r"(?<![\w+.-])([\w+.-]+://)[^\s/@:]*:[^\s/@]+@")


def without_known_secrets(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text without passwords in URLs, and without the values of environment variables that are secrets."""
    for name, value in environment.items():
        if _SECRET_VARIABLE.search(name) and len(value) >= SHORTEST_SECRET:
            text = masked(text, value, f"({name})")
    return _USER_IN_URL.sub(r"\1(hidden)@", text)


def masked(text: str, secret: str, shown: str) -> str:
    """The text with `shown` in place of the secret, plain or with the escapes of Python, JSON, HTML and URLs.

    Also in hex, and in base64 of a text that contains it, such as `user:password`. Letter case does not count.
    """
    return _pattern(secret).sub(lambda found: shown, text) if secret else text


@lru_cache(maxsize=64)
def _pattern(secret: str) -> re.Pattern[str]:
    """A regular expression that matches the secret in each way of writing."""
    written = secret.encode("utf-8", "surrogatepass")
    ways = ["".join(map(_character, secret))]
    if len(written) >= SHORTEST_CODED:
        ways += [_base64(written, before) for before in range(3)]
        ways.append(r"[\s:,-]{0,2}".join(rf"(?:0x|\\x)?{byte:02x}" for byte in written))
    return re.compile("|".join(ways), re.IGNORECASE)


def _character(character: str) -> str:
    """A regular expression for a character, plain or escaped."""
    code, percent = ord(character), character.encode("utf-8", "surrogatepass")
    ways = {
        re.escape(character),
        re.escape(repr(character)[1:-1]),
        re.escape(escape(character)),
        "".join(f"%(?:25)*{byte:02x}" for byte in percent),
        f"&#(?:0*{code}|x0*{code:x});?",
        "".join(rf"\\{{1,4}}u{unit:04x}" for unit in _utf16(character)),
        *([r"\+"] if character == " " else []),
    }
    return rf"\\{{0,4}}(?:{'|'.join(sorted(ways, key=len, reverse=True))})"


def _utf16(character: str) -> list[int]:
    """The character's code units, as JSON escapes them."""
    units = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(units[start : start + 2]) for start in range(0, len(units), 2)]


def _base64(written: bytes, before: int) -> str:
    """A pattern for the secret in base64 after `before` bytes (mod 3). Its outer signs also hold bits of neighbours."""
    whole = b64encode(bytes(before) + written).decode().rstrip("=")
    first, last = -(-8 * before // 6), 8 * (before + len(written)) // 6
    sign = r"(?:[\w+/-]|%2[BF])"
    edges = [sign if before else "", f"(?:{sign}?(?:=|%3D){{0,2}})"]
    core = [_SIGNS.get(each, each) for each in whole[first:last]]
    return _BREAK.join(core).join([f"{edges[0]}{_BREAK}" if before else "", edges[1]])
