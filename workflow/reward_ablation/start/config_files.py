"""Config files: read as they are meant, and refused where Snakemake would read them otherwise."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from reward_ablation.start.config_paths import from_working_folder
from reward_ablation.start.overrides import merge
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.strict_text import DuplicateKey, load_json, load_yaml

#: The option that takes all words up to the next option as config files; and the shortest abbreviation of its name
#: that Snakemake does not take for `--config`.
CONFIG_OPTION = "--configfiles"
SHORTEST_CONFIG_OPTION = "--configf"
PROFILE_OPTIONS = ("--profile", "--workflow-profile")
CONFIG_ENDINGS = (".yaml", ".yml", ".json")

#: The key with which Snakemake runs expressions in a config as Python.
_TEMPLATE = "__use_yte__"


def check_config_files(words: Sequence[str]) -> None:
    """Refuse config files that do not exist or that `check_contents` refuses, and a target that is taken for a file.

    All words after `--configfile`, up to the next option, are files for Snakemake.

    `words` is Snakemake's command line.
    """
    given: list[str] = []
    for first, *files in _with_values(words):
        option, equals, file = first.partition("=")
        if option == "--config":
            given += [file, *files] if equals else files
        elif first.startswith("-C"):
            given += [first[2:], *files] if first[2:] else files
        elif option in PROFILE_OPTIONS:
            check_profile(file if equals else files[0] if files else "")
        if not (option.startswith(SHORTEST_CONFIG_OPTION) and CONFIG_OPTION.startswith(option)):
            continue
        files = [file] if equals else files
        for number, file in enumerate(files):
            if number and not file.endswith(CONFIG_ENDINGS):
                raise StudyError(
                    f"{file}: is not a config file, but {option} takes all words up to the next option as files; type: "
                    f"snakemake {shlex.join(files[number:])} {option} {shlex.join(files[:number])}"
                )
            if not Path(file).exists() or Path(file).is_dir():
                raise StudyError(f"{option} {file}: no such file; name a config, such as config/demo.yaml")
        check_contents(files)
    _check_values_given(given)


def check_profile(name: str) -> None:
    """Refuse a profile in which a key occurs twice. A profile that Snakemake finds elsewhere is not checked."""
    folder = Path(name)
    for path in [folder] if folder.is_file() else sorted(folder.glob("config*.yaml")) if name else []:
        try:
            load_yaml(path.read_text(encoding="utf-8"))
        except DuplicateKey as error:
            raise StudyError(f"{path}: {error}") from None
        except (OSError, ValueError):  # Snakemake itself says what is wrong
            continue


def _check_values_given(words: Iterable[str]) -> None:
    """Refuse a key that occurs twice, also in a value of `--config`. Snakemake takes what is not YAML for text."""
    keys = set()
    for word in words:
        key, equals, text = word.partition("=")
        if equals and key in keys:
            raise StudyError(f"--config {key}: is given twice; take one of the two out")
        keys.add(key)
        try:
            load_yaml(text)
        except DuplicateKey as error:
            raise StudyError(f"--config {key}: {error}") from None
        except ValueError:
            continue


def check_contents(files: Iterable[str | Path]) -> None:
    """Refuse config files that Snakemake would read otherwise than they are meant, or fail to read."""
    for file in files:
        if Path(file).exists() and not Path(file).is_file():  # a pipe can be read once only
            continue
        contents_of(file)


def read_config(files: Iterable[Path], tell: Callable[[str], None]) -> dict[str, Any]:
    """The config of one or more files, of which later ones change earlier ones. Its paths are from the working folder.

    `tell` gets a line on a path that could mean two files.
    """
    config: dict[str, Any] = {}
    for number, file in enumerate(files):
        if number and file.is_file() and not str(file).endswith(CONFIG_ENDINGS):
            raise StudyError(f"{file}: is not a config file; let its name end in {' or '.join(CONFIG_ENDINGS)}")
        if not file.exists() or file.is_dir():
            raise StudyError(f"{file}: no such file; name a config, such as config/demo.yaml")
        content = contents_of(file)
        if not isinstance(content, dict):
            raise StudyError(f"{file}: is not a mapping; write the study's keys, as in config/demo.yaml")
        if file.is_file():  # a pipe has no folder
            from_working_folder(content, file, tell, known=config)
        merge(config, content)
    return config


@one_line_errors()
def refuse_command(command: str, files: Sequence[str | Path], wildcards: Any) -> NoReturn:
    """Input function of a target that became a command: says what to type in place of `snakemake COMMAND`."""
    names = shlex.join(os.path.relpath(file) for file in files)
    raise StudyError(f"{command}: is a command of its own; type: reward-ablation {command} {names}")


def contents_of(file: str | Path) -> Any:
    """What a config file says, read as JSON, and else as YAML.

    Raises StudyError for what Snakemake would read otherwise: it keeps the last of two equal keys, has no place in its
    messages, and runs Python from a file that says so.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        try:
            written = load_json(text)
        except json.JSONDecodeError:
            written = load_yaml(text)
        if isinstance(written, dict) and written.get(_TEMPLATE):
            raise ValueError(f"{_TEMPLATE}: would run Python from the config; write out the values")
    except OSError as error:
        raise StudyError(f"{file}: {error.strerror}; name a config with --configfile") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{file}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except ValueError as error:
        raise StudyError(f"{file}: {error}") from None
    return written


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Each option with the words that follow the option."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-"):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
    return groups
