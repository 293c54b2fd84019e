"""Secrets of a study: a config names an environment variable, and never holds the secret itself.

The config is copied into specs, records, logs, command lines and the report. The name of the variable is copied with
it; the value is read in the training process only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reward_ablation.study.errors import StudyError

#: Keys whose values are secrets.
SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|password|passwd|passphrase|secret|credentials?)$"
    r"|^((hf|hub|api|auth|access|use_auth|bearer|wandb|github)_)?token$|^authorization$",
    re.IGNORECASE,
)

#: Texts that are, or hold, a secret, whatever their key is.
SECRET_TEXT = re.compile(
    r"(?<![\w-])("
    r"hf_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|sk-[\w-]{16,}"  # OpenAI, Anthropic and others
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"  # GitHub, GitLab
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}"  # Amazon, Google
    r"|xox[abposr]-[\w-]{10,}"  # Slack
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\."  # JSON Web Token
    r"|[Bb]earer\s+[\w.~+/-]{16,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    # A URL with a password. The look behind and the text without colons keep the time linear in the text's length.
    r"|(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^\s/@:]*:[^\s/@]+@"
    r"|[?&](api[_-]?key|key|token|access_token|secret|password|sig|signature)=[^&\s]{8,}"  # and in its query
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def without_secrets(values: Any) -> Any:
    """The same values with every secret hidden."""
    if isinstance(values, dict):
        return {key: "(hidden)" if _is_secret(key, value) else without_secrets(value) for key, value in values.items()}
    if isinstance(values, list):
        return [without_secrets(value) for value in values]
    return "(hidden)" if _is_secret("", values) else values


def _is_secret(key: Any, value: Any) -> bool:
    if not isinstance(value, str) or not value:
        return False
    return bool(SECRET_KEY.search(str(key)) or SECRET_TEXT.search(value))


def refuse_secrets(config: Any) -> None:
    """Refuse a config that holds a secret in plain text, without repeating the secret.

    Parameters
    ----------
    config : dict
        The config as read from YAML.

    Raises
    ------
    StudyError
        `key: looks like a secret in plain text; ...`.
    """
    for path, text in _secrets_in(config, ()):
        of_component = path[:1] == ("components",) and "parameters" in path
        if of_component and path[-1] == "token" and len(text) < 16 and not SECRET_TEXT.search(text):
            continue  # a word that a model writes, such as `token: <think>`: secrets are longer
        instead = (
            "write {env: NAME}, which reads it from the environment variable NAME"
            if of_component
            else "take it out, and set the environment variable that its library reads, such as HF_TOKEN"
        )
        raise StudyError(
            f"{'.'.join(path)}: looks like a secret in plain text, and a config is copied into logs, results and the "
            f"report; {instead}"
        )


def _secrets_in(values: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Place and text of each value that looks like a secret; a key that looks like one is not repeated."""
    if isinstance(values, dict):
        entries = list(values.items())
    elif isinstance(values, list):
        entries = list(enumerate(values))
    else:
        entries = []
    for key, value in entries:
        if SECRET_TEXT.search(str(key)):
            yield (*path, "(a key)"), str(key)
        elif _is_secret(key, value):
            yield (*path, str(key)), value
        else:
            yield from _secrets_in(value, (*path, str(key)))


def variable_of(value: Any) -> str | None:
    """Name of the environment variable that `{env: NAME}` stands for; None for any other value.

    Raises
    ------
    StudyError
        The name is not one that an environment variable can have.
    """
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
    """Names of the environment variables that a value reads and that are not set, or empty."""
    return [name for name in variables_in(value) if not environment.get(name)]


def with_variables(value: Any, environment: Mapping[str, str]) -> Any:
    """The same value with every `{env: NAME}` replaced by the value of that environment variable."""
    if name := variable_of(value):
        return environment[name]
    if isinstance(value, dict):
        return {key: with_variables(each, environment) for key, each in value.items()}
    return [with_variables(each, environment) for each in value] if isinstance(value, list) else value


def hidden(text: str, value: Any, environment: Mapping[str, str]) -> str:
    """A text in which the secrets that a value reads are replaced by the names of their variables."""
    for name in variables_in(value):
        if secret := environment.get(name):
            for written in (secret, repr(secret)[1:-1]):  # the second stands in the text of lists and mappings
                text = text.replace(written, f"{{env: {name}}}")
    return text
