"""Write the tables of a rule: `python -m reward_ablation.analysis RULE --study study.json --output tables`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from reward_ablation.analysis.registry import RULES
from reward_ablation.analysis.tables import command_line, run_command
from reward_ablation.system.errors import one_line_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, and let the module of the rule write its tables and its page of the report."""
    parser = command_line("analysis", "Write the tables of a rule, and its page of the report.")
    parser.add_argument("rule", choices=[name for name, rule in RULES.items() if rule.module.startswith("analysis.")])
    parser.add_argument(
        "--mixed-provenance",
        choices=["tell", "refuse"],
        default="tell",
        help="for provenance: what to do where runs differ in code or hardware",
    )
    options = parser.parse_args(arguments)
    run_command(import_module(f"reward_ablation.{RULES[options.rule].module}").write, options)


if __name__ == "__main__":
    with one_line_errors():
        main()
