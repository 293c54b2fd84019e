"""`snakemake --lint` without the one lint rule that this workflow breaks on purpose.

All jobs run in the environment of the Snakemake that starts them (one lock for everything, and
torch, TRL and the trainer must agree), so no rule names a conda environment of its own.
"""

import re
import subprocess
import sys

ACCEPTED = "Specify a conda environment or container for each rule."


def main() -> int:
    command = [sys.executable, "-m", "snakemake", "--lint", "--configfile", "config/demo.yaml"]
    result = subprocess.run(command, capture_output=True, text=True)
    text = result.stdout + result.stderr
    titles = re.findall(r"^    \* (.+):$", text, flags=re.MULTILINE)
    if not titles or set(titles) - {ACCEPTED}:
        print(text, file=sys.stderr)
        return 1
    print(f"snakemake --lint: nothing but '{ACCEPTED}' ({len(titles)} rules)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
