"""Generated hostile programs. Each tries to pass, to do harm or to read foreign files, and must not succeed.

A case depends on its number alone. A program of kind `asserts` is to define `cube`; a `script` is to print the cube of
the number on its standard input. None of the programs computes one, so that none may pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .attacks import CANARY_PATH, alone
from .hostile_forgeries import FORGERIES
from .hostile_harms import HARMS

FAMILIES = FORGERIES | HARMS


@dataclass(frozen=True)
class HostileCase:
    """A program and whether it is a script."""

    family: str
    program: str
    is_script: bool = False


#: What a script may do: print, and all that needs no function.
_SCRIPTED = {
    "forged output": alone(
        "print(input())\n",
        "print(open('/proc/self/environ').read())\n",
        "print('passed')\n",
        '{"passed": [true]}\n',
        "import os\nos._exit(0)\n",
        "print('27\\n' * NUMBER)\n",
        "print(eval(input()))\n",
    ),
    "home": lambda rng: rng.choice(
        [
            f"print(open({CANARY_PATH!r}).read())\n",
            f"import os\nos.symlink({CANARY_PATH!r}, 'l')\nprint(open('l').read())\n",
            "import os\nprint(dict(os.environ))\n",
            "import os\nfor folder, _, names in os.walk('/'):\n    for name in names:\n        if 'canary' in name:\n"
            "            print(open(os.path.join(folder, name)).read())\n",
            "import glob\nfor path in glob.glob('/proc/*/environ'):\n    print(open(path, 'rb').read())\n",
        ]
    ),
    **{
        name: FAMILIES[name]
        for name in ("output", "fork bomb", "daemon", "signals", "memory", "time", "waiting", "descriptors")
    },
}
_CHOICES = [(name, family, False) for name, family in FAMILIES.items()] + [
    (f"script: {name}", family, True) for name, family in _SCRIPTED.items()
]


def hostile_program(number: int) -> HostileCase:
    """The case of a number: families in turn, and within a family by chance."""
    name, family, is_script = _CHOICES[number % len(_CHOICES)]
    rng = Random(f"{name}/{number}")
    program = family(rng)
    if rng.random() < 0.3:
        program = f"# {rng.randrange(10**9)}\n{program}"
    return HostileCase(name, program, is_script)


NUMBER_OF_FAMILIES = len(_CHOICES)
