"""Keys of --config that belong to a command and to no study, such as `effect` of `snakemake power`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reward_ablation.start.internals import given_config, in_dry_runs
from reward_ablation.system.errors import StudyError, one_line_errors

#: Keys for stated variances, which several commands take.
STATED = ("seed_sd", "question_sd", "answer_sd", "mean")

#: Keys by command.
KEYS: dict[str, tuple[str, ...]] = {
    "budget": ("gpu_hours", "hours", "run_hours", "weights", "write", "pilot", "questions", *STATED),
    "power": ("pilot", "effect", "questions", *STATED),
    "prune": ("delete", "empty_trash"),
}


@dataclass(frozen=True)
class CommandKeys:
    """The commands' own keys of this start, with their values as Snakemake read them."""

    values: dict[str, Any] = field(default_factory=dict)

    def of(self, command: str | None) -> dict[str, Any]:
        """The values for a command; None is a start that makes files. A key of another command is refused."""
        for key in self.values:
            if key not in KEYS.get(command or "", ()):
                commands = [f"`snakemake {name}`" for name, keys in KEYS.items() if key in keys]
                raise StudyError(f"{key}: only {' and '.join(commands)} takes this key; take it out of --config")
        return dict(self.values)

    def check_start(self) -> None:
        """Refuse the keys in a start that makes files; to be called in `onstart`."""
        self.of(None)


def take_command_keys(config: dict[str, Any], workflow: Any) -> CommandKeys:
    """Take the commands' own keys out of a config, in place, before the config is resolved.

    Only --config may have these keys. A key in a config file stays, and is refused later as unknown. Snakemake does not
    know its targets yet, so each command refuses the keys of other commands later, and so do `onstart` and a dry run.
    """
    own = {key for keys in KEYS.values() for key in keys}
    keys = CommandKeys({key: config.pop(key) for key in given_config(workflow) if key in own and key in config})
    if keys.values:
        in_dry_runs(lambda _, logger: _check_dry_run(keys))
    return keys


@one_line_errors()
def _check_dry_run(keys: CommandKeys) -> None:
    keys.check_start()
