"""Generated hostile programs. Each tries to pass, to do harm or to read foreign files, and must not succeed.

A case depends on its number alone. A program of kind `asserts` is to define `cube`; a `script` is to print the cube of
the number on its standard input. None of the programs computes one, so that none may pass.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

#: Stands in programs for the path of a file in the home folder, whose text is a secret.
CANARY_PATH = "CANARY_PATH"
WRONG = "def cube(x):\n    return -1\n"

Family = Callable[[Random], str]


def body(rng: Random, attack: str, after: str = WRONG) -> str:
    """The attack at the top level, in the function, or when the interpreter ends; errors hidden or not."""
    lines = attack.strip().splitlines()
    if rng.random() < 0.5:
        indented = "".join(f"    {line}\n" for line in lines)
        lines = f"try:\n{indented}except {rng.choice(['Exception', 'BaseException'])}:\n    pass".splitlines()
    indented = "".join(f"    {line}\n" for line in lines)
    at_top = "\n".join(lines) + f"\n{after}"
    in_function = f"def cube(x):\n{indented}    return {rng.choice(['True', '0', 'None', 'x', 'int'])}\n"
    at_exit = f"import atexit\ndef last():\n{indented}atexit.register(last)\n{after}"
    deleted = "class Last:\n    def __del__(self):\n" + "".join(f"    {line}\n" for line in indented.splitlines())
    return rng.choice([at_top, at_top, in_function, in_function, at_exit, f"{deleted}keep = Last()\n{after}"])


def of(*attacks: str) -> Family:
    return lambda rng: body(rng, rng.choice(attacks).replace("NUMBER", str(rng.randrange(1, 1000))))


def alone(*programs: str) -> Family:
    return lambda rng: rng.choice(programs).replace("NUMBER", str(rng.randrange(1, 1000)))


_REMOTE = "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\n"
_FORGED = r"""
import os, json
empty = b'["value", ["dict", [["list", []], ["list", []]]], []]\n'
lines = [b'{"passed": [true, true, true]}\n', b'["value", NUMBER, []]\n', empty]
for number in range(64):
    for line in lines:
        try:
            os.write(number, line)
        except OSError:
            pass
"""
_EVERYTHING = [f"__{name}__" for name in ("eq", "ne", "lt", "gt", "le", "ge", "bool", "contains", "sub", "abs")]
_EQUAL = f"Any = type('Any', (BASE,), {{name: lambda *a: True for name in {_EVERYTHING}}})\n"

#: Programs that try to pass without computing a cube.
FORGERIES: dict[str, Family] = {
    "exit": of("import os\nos._exit(0)", "import signal, os\nos.kill(os.getpid(), signal.SIGKILL)"),
    "equals everything": lambda rng: (
        _EQUAL.replace("BASE", rng.choice(["object", "int", "float", "str", "list", "dict", "Exception", "tuple"]))
        + rng.choice(["def cube(x):\n    return Any()\n", "cube = Any\n", "cube = lambda x: Any\n"])
    ),
    "metaclass": alone(
        "class M(type):\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 1\nclass A(metaclass=M): pass\n"
        "cube = lambda x: A\n",
        "class Number(int):\n    @property\n    def __class__(self): return int\n    __eq__ = lambda *a: True\n"
        "cube = lambda x: Number(NUMBER)\n",
    ),
    "builtins": of(
        "import builtins\nbuiltins.AssertionError = type('E', (Exception,), {})",
        "import builtins\nfor name in list(vars(builtins)):\n    setattr(builtins, name, lambda *a, **k: True)",
        "import ast, sys\nast.Assert = ast.Pass\nsys.flags = None",
    ),
    "names of tests": alone(
        f"check = candidate = abs = round = math = __builtins__ = lambda *a, **k: True\n{WRONG}",
        "__builtins__ = {'abs': lambda x: 0, 'AssertionError': type('E', (Exception,), {})}\n" + WRONG,
        "import sys\ncube = sys.exit\n",
    ),
    "frames": of(
        "import sys\nframe = sys._getframe()\nwhile frame:\n    for key in list(frame.f_locals):\n"
        "        value = frame.f_locals[key]\n        if isinstance(value, list):\n"
        "            value[:] = [True] * len(value)\n        if isinstance(value, dict):\n"
        "            value['passed'] = [True] * 3\n    frame = frame.f_back",
        "import sys\nsys.excepthook = sys.unraisablehook = lambda *a: None\nsys.addaudithook(lambda *a: None)",
    ),
    "garbage": of(
        "import gc\nfor one in gc.get_objects():\n    if isinstance(one, list):\n"
        "        one[:] = [True if type(x) is bool else x for x in one]",
        "import gc\nfor one in gc.get_objects():\n    if type(one).__name__ in ('Link', 'Server'):\n"
        "        type(one)._answer = lambda self, *a: self._send(['value', True, []])",
    ),
    "harness": of(
        f"{_REMOTE}remote.OPERATIONS['call'] = lambda *a, **k: True",
        f"{_REMOTE}remote.encode = lambda value, refer: ['shared', ['unittest.mock', '']]",
        f"{_REMOTE}forged = ['dict', [['list', ['passed']], ['list', [True]]]]\n"
        "remote.Link._answer = lambda self, *a: self._send(['value', forged, [[0, 1], [-1, 1]]])",
        "import json\njson.dumps = lambda *a, **k: '[\"value\", [\"int\", [\"' + 'f' * 10**6 + '\"]], []]'",
    ),
    "descriptors": of(
        _FORGED,
        "import os\nfor number in range(64):\n    try:\n        os.close(number)\n    except OSError:\n        pass",
        "import socket\nfor number in range(3, 64):\n    try:\n        one = socket.socket(fileno=number)\n"
        "        one.sendall(b'x' * (1 << 22))\n    except OSError:\n        pass",
    ),
    "ctypes": of(
        "import ctypes\nctypes.memset(id(27) + 24, 0, 4)\nctypes.memset(id(False) + 24, 1, 4)",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.prctl(1, 0)\nlibc.ptrace(16, 1, 0, 0)\nlibc.setsid()",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.unshare(0x10000000)\nlibc.mount(b'x', b'/', b'tmpfs', 0, None)",
    ),
    "memory of processes": of(
        "with open('/proc/self/mem', 'r+b', 0) as memory:\n    memory.seek(id(True))\n    memory.write(b'x' * 64)",
        "import os\nfor name in os.listdir('/proc'):\n    open(f'/proc/{name}/environ').read()",
    ),
}

#: Programs that try to harm the machine, to read files that are not theirs, or to outlive their tests.
HARMS: dict[str, Family] = {
    "signals": of(
        "import os\nos.kill(-1, 9)",
        "import os\nfor number in range(2, 4000):\n    try:\n        os.kill(number, 9)\n"
        "    except OSError:\n        pass",
        "import signal\nfor number in range(1, 65):\n    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
    ),
    "fork bomb": of(
        "import os\nwhile True:\n    os.fork()", "import ctypes\nwhile ctypes.CDLL(None).fork() >= 0:\n    pass"
    ),
    "daemon": of(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)",
        "import _thread, time\nwhile True:\n    _thread.start_new_thread(time.sleep, (1000,))",
    ),
    "output": of("while True:\n    print('x' * 10000)", "print('x' * 10**8)"),
    "home": alone(
        f"import os\ndef cube(x):\n    os.symlink({CANARY_PATH!r}, 'link')\n    return open('link').read()\n",
        f"import os\nos.remove({CANARY_PATH!r})\n{WRONG}",
        f"open({CANARY_PATH!r}, 'w').write('x')\n{WRONG}",
        "import os\ndef cube(x):\n    return os.environ.get('CANARY_SECRET')\n",
    ),
    "files": of(
        "import os\nfor folder, _, names in os.walk('/'):\n    for name in names[:9]:\n        try:\n"
        "            open(os.path.join(folder, name), 'ab')\n        except OSError:\n            pass",
        "while True:\n    open('large', 'ab').write(b'x' * (1 << 20))",
        "import os\nos.mknod('device', 0o60666, 2049)\nopen('device', 'rb').read(1)",
        "import tempfile, os\nfor folder in ('/tmp', '/var/tmp', '/dev/shm', '/run'):\n"
        "    tempfile.NamedTemporaryFile(dir=folder, delete=False)",
    ),
    "sockets": of(
        "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
        "import socket\none = socket.socket(socket.AF_UNIX)\none.bind('\\0name')\none.listen()",
    ),
    "memory": of(
        "kept = b'x' * (NUMBER << 30)",
        "import os\nkept = [os.memfd_create('m') for _ in range(64)]\nfor one in kept:\n    os.truncate(one, 1 << 40)",
        "import ctypes\nlibc = ctypes.CDLL(None)\nfor _ in range(NUMBER):\n    libc.shmget(0, 1 << 30, 0o1666)",
    ),
    "huge numbers": of("10 ** 10 ** 10", "import math\nmath.factorial(10**8)"),
    "huge results": alone(
        "cube = lambda x: 1 << 10**8\n",
        "cube = lambda x: range(10**18)\n",
        "def cube(x):\n    yield from iter(int, 1)\n",
        "def cube(x):\n    a = []\n    for _ in range(10**5):\n        a = [a]\n    return a\n",
        "def cube(x):\n    raise type('AssertionError', (BaseException,), {})\n",
    ),
    "recursion": of("f = lambda: f()\nf()", "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()"),
    "time": of(
        "while True:\n    pass",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))\nwhile True:\n    pass",
    ),
    "waiting": of("import time\ntime.sleep(NUMBER + 100)", "input()", "import os\nos.mkfifo('pipe')\nopen('pipe')"),
    "source": alone("(" * 10**5, "\0", "\ud800", "# coding: rot13\nqrs phor(k): erghea 1", "x = " + "9" * 10**5),
    "arguments": alone(
        "def cube(x):\n    x.clear()\n    return x\n",
        "import operator\ncube = operator.attrgetter('__class__')\n",
        "async def cube(x):\n    return x ** 3\n",
        "cube = lambda x: str(x ** 3)\n",
    ),
}
FAMILIES = FORGERIES | HARMS


class HostileCase(NamedTuple):
    """A program and whether it is a script."""

    family: str
    program: str
    is_script: bool


#: What a script may do: print, and all that needs no function.
_SCRIPTED = {
    "forged output": alone("print(input())\n", "print(open('/proc/self/environ').read())\n", '{"passed": [true]}\n'),
    "home": alone(
        f"print(open({CANARY_PATH!r}).read())\n",
        "import os\nprint(dict(os.environ))\n",
        "import glob\nfor path in glob.glob('/proc/*/environ'):\n    print(open(path, 'rb').read())\n",
    ),
    **{name: FAMILIES[name] for name in ("output", "fork bomb", "signals", "memory", "time", "waiting", "descriptors")},
}
_CHOICES = [(name, family, False) for name, family in FAMILIES.items()] + [
    (f"script: {name}", family, True) for name, family in _SCRIPTED.items()
]


def hostile_program(number: int, canary: Path) -> HostileCase:
    """The case of a number: families in turn, and within a family by chance."""
    name, family, is_script = _CHOICES[number % len(_CHOICES)]
    program = family(Random(f"{name}/{number}"))
    return HostileCase(name, program.replace(CANARY_PATH, str(canary)), is_script)


NUMBER_OF_FAMILIES = len(_CHOICES)
