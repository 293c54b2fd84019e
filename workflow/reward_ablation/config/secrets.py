"""Secrets of a study: a config names an environment variable, and never holds the secret itself.

The config is copied into specs, records, logs, command lines and the report. The name of the variable is copied with
it. Only a process that calls a component or a metric uses the value; planning only checks that the variable is set.
`study.resolve` refuses a config that holds a secret. The report and `start.overrides` show values `without_secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.masking import masked

_SERVICES = "openai|anthropic|azure|google|gemini|groq|mistral|wandb|github|judge"

#: Keys whose values are secrets, by their ends, so that `my_api_key` is one.
SECRET_KEY = re.compile(
    rf"((api|secret|access|private|account|{_SERVICES})[_-]?key|password|passwd|passphrase|secret|credential)s?$"
    rf"|(hf|hub|api|auth|access|bearer|{_SERVICES})[_-]?token$|authorization$",
    re.IGNORECASE,
)

#: Keys such as `eos_token`, whose value may be a secret or a word of a vocabulary. A value of one word of 16 or more
#: characters counts as a secret if it has a digit, and neither `<` nor `[` as special tokens such as `<|im_end|>` have.
TOKEN_KEY = re.compile(r"(^|[_-])token$", re.IGNORECASE)
LONG_WORD = re.compile(r"(?=.*\d)[^\s<\[]{16,}")

#: Texts that are or contain a secret, under any key. The lengths lie between the lengths of words and of secrets.
SECRET_TEXT = re.compile(
    r"(?<![\w-])("
    r"(hf|gsk|r8|[rs]k_live|gh[pousr])_[A-Za-z0-9]{20,}"  # Hugging Face, Groq, Replicate, Stripe, GitHub
    r"|github_pat_\w{20,}|pypi-[A-Za-z0-9]{20,}"  # GitHub, PyPI
    r"|(sk|nvapi|glpat)-[\w-]{16,}"  # OpenAI, Anthropic and others, NVIDIA, GitLab
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|(Account|SharedAccess)Key=[\w+/]{16,}"  # Amazon, Google, Azure
    r"|xox[abposr]-[\w-]{10,}"  # Slack
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\."  # JSON Web Token
    r"|(?i:bearer\s|x-api-key:)\s*(?=[\w.~+/-]*\d)[\w.~+/-]{16,}"  # without a digit it may be prose
    r")"
    r"|(?i:authorization['\"]?:\s*['\"]?(basic|bearer|token)\s)\s*[\w.~+/-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    # A URL with a password. The lookbehind and the user name without colons keep the time linear in the text's length.
    r"|(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^\s/@:]*:[^\s/@]+@"
    r"|[?&](api[_-]?key|key|token|access_token|secret|password|sig|signature)=[^&\s]{8,}"  # in a URL's query
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def without_secrets(values: Any, key: str = "") -> Any:
    """The same values, as read from YAML or JSON, without what looks like a secret. `key` is the key of the values."""
    if isinstance(values, dict):
        shown = {name: "(hidden)" if SECRET_TEXT.search(str(name)) else name for name in values}
        return {shown[name]: without_secrets(value, str(name)) for name, value in values.items()}
    if isinstance(values, list):
        return [without_secrets(value, key) for value in values]
    return "(hidden)" if _is_secret(key, values) else values


def _is_secret(key: str, value: Any) -> bool:
    if value in (None, "") or isinstance(value, bool):
        return False
    text = str(value)
    if SECRET_KEY.search(key) or SECRET_TEXT.search(text):
        return True
    return bool(TOKEN_KEY.search(key) and LONG_WORD.fullmatch(text))


def refuse_secrets(config: Any) -> None:
    """Refuse a config, as read from YAML, with what looks like a secret in plain text, without repeating the secret."""
    for path in _secrets_in(config, ()):
        instead = "take it out, and set the environment variable that its library reads, such as HF_TOKEN"
        if "parameters" in path and (path[0] == "components" or path[:2] == ("evaluation", "metrics")):
            instead = "write {env: NAME}, which reads it from the environment variable NAME"
        raise StudyError(
            f"{'.'.join(path)}: looks like a secret in plain text, and a config is copied into logs, results and the "
            f"report; {instead}"
        )


def _secrets_in(values: Any, path: tuple[str, ...], key: str = "") -> Iterator[tuple[str, ...]]:
    """Keys to each value that looks like a secret. A key that itself looks like a secret is not repeated."""
    if isinstance(values, dict):
        for name, value in values.items():
            if SECRET_TEXT.search(str(name)):
                yield (*path, "(a key)")
            else:
                yield from _secrets_in(value, (*path, str(name)), str(name))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from _secrets_in(value, (*path, str(index)), key)
    elif _is_secret(key, values):
        yield path


def variable_of(value: Any) -> str | None:
    """Name of the environment variable that `{env: NAME}` stands for; None for any other value."""
    if not isinstance(value, dict) or list(value) != ["env"]:
        return None
    name = value["env"]
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise StudyError("env: give the name of an environment variable, such as JUDGE_API_KEY")
    return name


def variables_in(value: Any) -> list[str]:
    """Names of the environment variables that a value reads, at any depth."""
    if name := variable_of(value):
        return [name]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [name for each in inner for name in variables_in(each)]


def missing_variables(value: Any, environment: Mapping[str, str]) -> list[str]:
    """Names of the environment variables that a value reads and that are unset or empty, each once."""
    return [name for name in dict.fromkeys(variables_in(value)) if not environment.get(name)]


def not_set(names: list[str]) -> str:
    """A phrase for a message: these environment variables are not set."""
    if len(names) == 1:
        return f"the environment variable {names[0]} is not set"
    return f"the environment variables {', '.join(names)} are not set"


def with_variables(value: Any, environment: Mapping[str, str]) -> Any:
    """The same value with every `{env: NAME}` replaced by the value of that environment variable, which must be set."""
    if name := variable_of(value):
        return environment[name]
    if isinstance(value, dict):
        return {key: with_variables(each, environment) for key, each in value.items()}
    return [with_variables(each, environment) for each in value] if isinstance(value, list) else value


def hidden(text: str, value: Any, environment: Mapping[str, str]) -> str:
    """A text in which the secrets that a value reads, however written, are replaced by the names of their variables."""
    secrets = {name: environment.get(name, "") for name in variables_in(value)}
    for name in sorted(secrets, key=lambda name: len(secrets[name]), reverse=True):  # one may be part of another
        text = masked(text, secrets[name], f"{{env: {name}}}")
    return text
