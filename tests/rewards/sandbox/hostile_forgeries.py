"""Programs that try to pass without computing a cube."""

from __future__ import annotations

from .attacks import WRONG, Family, alone, of

_FORGED = r"""
import os, json
lines = [b'{"passed": [true, true, true]}\n', b'["value", NUMBER, []]\n', b'["value", ["dict", []], []]\n']
for number in range(64):
    for line in lines:
        try:
            os.write(number, line)
        except OSError:
            pass
"""
_EVERYTHING = (
    "['__eq__', '__ne__', '__lt__', '__gt__', '__le__', '__ge__', '__bool__', '__contains__', '__sub__', '__abs__']"
)
_EQUAL = f"Any = type('Any', (BASE,), {{name: lambda *a: True for name in {_EVERYTHING}}})\n"

FORGERIES: dict[str, Family] = {
    "exit": of(
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "raise SystemExit",
        "quit()",
        "import os\nos.abort()",
        "import signal, os\nos.kill(os.getpid(), signal.SIGKILL)",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
    ),
    "equals everything": lambda rng: (
        _EQUAL.replace("BASE", rng.choice(["object", "int", "float", "str", "list", "dict", "Exception", "tuple"]))
        + rng.choice(["def cube(x):\n    return Any()\n", "cube = Any\n", "cube = lambda x: Any\n"])
    ),
    "metaclass": alone(
        "class M(type):\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 1\nclass A(metaclass=M): pass\n"
        "cube = lambda x: A\n",
        "class M(type):\n    __instancecheck__ = lambda *a: True\n    __call__ = lambda s, *a: s\n"
        "class cube(metaclass=M): pass\n",
        "from unittest.mock import ANY\ncube = lambda x: ANY\n",
        "from unittest.mock import MagicMock as cube\n",
        "from unittest.mock import MagicMock\nm = MagicMock()\nm.__eq__ = lambda *a: True\ncube = lambda x: m\n",
        "class Number(int):\n    @property\n    def __class__(self): return int\n    __eq__ = lambda *a: True\n"
        "cube = lambda x: Number(NUMBER)\n",
    ),
    "builtins": of(
        "import builtins\nbuiltins.AssertionError = type('E', (Exception,), {})",
        "import builtins\nbuiltins.__build_class__ = builtins.print = builtins.len = lambda *a, **k: True",
        "import builtins, operator\nbuiltins.int = builtins.all = builtins.abs = operator.eq = lambda *a: True",
        "import builtins\nfor name in list(vars(builtins)):\n    setattr(builtins, name, lambda *a, **k: True)",
        "import sys\nfor module in list(sys.modules.values()):\n"
        "    for name in list(vars(module)):\n        setattr(module, name, lambda *a, **k: True)",
        "import ast, sys\nast.Assert = ast.Pass\nsys.flags = None",
        "global __debug_, abs, isinstance, round\nabs = isinstance = round = lambda *a: NUMBER",
    ),
    "names of tests": alone(
        *(
            f"{names} = lambda *a, **k: True\n{WRONG}"
            for names in (
                "check = candidate",
                "abs = round",
                "math = __builtins__",
                "sorted = range = NUMBER_",
                "print",
            )
        ),
        "__builtins__ = {'abs': lambda x: 0, 'AssertionError': type('E', (Exception,), {})}\n" + WRONG,
        "__name__ = 'tests'\n__class__ = dict\n" + WRONG,
        "cube = eval\n",
        "cube = exec\n",
        "cube = print\n",
        "cube = compile\n",
        "import sys\ncube = sys.exit\n",
        "cube = property(lambda s: 1)\n",
        "cube = None\n",
        "cube = 27\n",
        "import sys as cube\n",
        "class cube: pass\n",
    ),
    "frames": of(
        "import sys\nframe = sys._getframe()\nwhile frame:\n    for key in list(frame.f_locals):\n"
        "        value = frame.f_locals[key]\n        if isinstance(value, list):\n"
        "            value[:] = [True] * len(value)\n        if isinstance(value, dict):\n"
        "            value['passed'] = [True] * 3\n    frame = frame.f_back",
        "import inspect\nfor frame in inspect.stack():\n    frame.frame.f_globals.update(passed=[True] * 3)",
        "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)",
        "import sys\nsys.excepthook = sys.unraisablehook = lambda *a: None\nsys.addaudithook(lambda *a: None)",
        "import sys, traceback\ntry:\n    1 / 0\nexcept Exception as error:\n"
        "    error.__traceback__.tb_frame.f_back.f_globals.clear()",
    ),
    "garbage": of(
        "import gc\nfor one in gc.get_objects():\n    if isinstance(one, list):\n"
        "        one[:] = [True if type(x) is bool else x for x in one]",
        "import gc\nfor one in gc.get_objects():\n    if isinstance(one, dict) and 'passed' in one:\n"
        "        one['passed'] = [True] * 3",
        "import gc\nfor one in gc.get_objects():\n    if type(one).__name__ in ('Link', 'Server'):\n"
        "        type(one)._answer = lambda self, *a: self._send(['value', True, []])",
        "import gc\nexpected = [one for one in gc.get_objects() if 'assert' in str(one)[:1000]]\ngc.disable()",
        "import gc, sys\ngc.collect()\nsys.setswitchinterval(1e-9)\ngc.set_threshold(1)",
    ),
    "harness": of(
        "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\n"
        "remote.OPERATIONS['call'] = lambda *a, **k: True",
        "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\n"
        "remote.encode = lambda value, refer: ['shared', ['unittest.mock', '']]",
        "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\n"
        "remote.Link._answer = lambda self, *a: self._send(['value', ['dict', [['passed', True]]], [[0, 1], [-1, 1]]])",
        "import json\njson.dumps = lambda *a, **k: '[\"value\", true, []]'",
        'import json\njson.dumps = lambda *a, **k: \'["ask", "call", [["shared", ["builtins", "exit"]]], {}]\'',
        'import json\njson.dumps = lambda *a, **k: \'["ask", "getattr", [["yours", NUMBER], "__globals__"], {}]\'',
        "import json\njson.dumps = lambda *a, **k: '{\"passed\": [true, true, true]}'",
        "import json\njson.dumps = lambda *a, **k: '[' * 100000",
        "import json\njson.dumps = lambda *a, **k: '[\"value\", [\"int\", \"' + 'f' * 10**6 + '\"], []]'",
        "import sys\nfor name in list(sys.modules):\n    if 'sandbox' in name:\n        del sys.modules[name]",
    ),
    "descriptors": of(
        _FORGED,
        "import os\nfor number in range(64):\n    try:\n        os.close(number)\n    except OSError:\n        pass",
        "import os\nfor number in range(64):\n    try:\n        os.dup2(1, number)\n    except OSError:\n        pass",
        "import os\nfor number in range(3, 64):\n    try:\n        os.read(number, 9)\n    except OSError: pass",
        "import socket\nfor number in range(3, 64):\n    try:\n        one = socket.socket(fileno=number)\n"
        "        one.sendall(b'x' * (1 << 22))\n    except OSError:\n        pass",
    ),
    "ctypes": of(
        "import ctypes\nctypes.string_at(NUMBER, 64)",
        "import ctypes\nctypes.memset(NUMBER, 0, 1 << 20)",
        "import ctypes\nctypes.memset(id(27) + 24, 0, 4)\nctypes.memset(id(False) + 24, 1, 4)",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.prctl(1, 0)\nlibc.ptrace(16, 1, 0, 0)\nlibc.setsid()",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.unshare(0x10000000)\nlibc.mount(b'x', b'/', b'tmpfs', 0, None)",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.chroot(b'/')\nlibc.reboot(0x1234567)\nlibc.sethostname(b'x', 1)",
        "import ctypes\nctypes.pythonapi.Py_Exit(0)",
        "import faulthandler\nfaulthandler._sigsegv()",
    ),
    "memory of processes": of(
        "with open('/proc/self/mem', 'r+b', 0) as memory:\n    memory.seek(id(True))\n    memory.write(b'x' * 64)",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b').write(b'x')",
        "import os\nfor name in os.listdir('/proc'):\n    open(f'/proc/{name}/environ').read()",
        "import os\nfor number in range(1, 5000):\n    try:\n        os.readlink(f'/proc/{number}/fd/1')\n"
        "    except OSError:\n        pass",
        "import ctypes\nctypes.CDLL(None).process_vm_writev(1, None, 0, None, 0, 0)",
    ),
}
