"""Programs that try to harm the machine, to read files that are not theirs, or to outlive their tests."""

from __future__ import annotations

from .attacks import CANARY_PATH, WRONG, Family, alone, of

HARMS: dict[str, Family] = {
    "signals": of(
        "import os\nos.kill(os.getppid(), 9)",
        "import os\nos.kill(-1, 9)",
        "import os\nos.killpg(0, 9)",
        "import os\nos.kill(1, 9)",
        "import os\nfor number in range(2, 4000):\n    try:\n        os.kill(number, 9)\n"
        "    except OSError:\n        pass",
        "import signal\nfor number in range(1, 65):\n    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    pass",
        "import signal\nsignal.alarm(NUMBER)\nsignal.setitimer(signal.ITIMER_PROF, 0.001)",
    ),
    "fork bomb": of(
        "import os\nwhile True:\n    os.fork()",
        "import os\nfor _ in range(NUMBER):\n    if os.fork() == 0:\n        while os.setsid() or True: pass",
        "import subprocess\nwhile True:\n    subprocess.Popen(['/bin/sh', '-c', 'sleep 1000'])",
        "import multiprocessing\nmultiprocessing.Pool(64).map(abs, range(NUMBER))",
        "import os\nos.posix_spawn('/bin/sleep', ['sleep', '1000'], {})",
        "import os\nos.execv('/bin/sh', ['sh', '-c', ':(){ :|:& };:'])",
        "import ctypes\nwhile ctypes.CDLL(None).fork() >= 0:\n    pass",
        "import ctypes\nfor _ in range(99):\n    ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0)",
    ),
    "daemon": of(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)",
        "import threading, time\nfor _ in range(9):\n    threading.Thread(target=time.sleep, args=(1000,)).start()",
        "import _thread, time\nwhile True:\n    _thread.start_new_thread(time.sleep, (1000,))",
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)",
    ),
    "output": of(
        "while True:\n    print('x' * 10000)",
        "import sys\nwhile True:\n    sys.stderr.write('x' * 10000)",
        "import os\nwhile True:\n    os.write(1, b'\\x1b[2J' * 1000)",
        "print('x' * 10**8)",
    ),
    "home": lambda rng: rng.choice(
        [
            f"def cube(x):\n    return open({CANARY_PATH!r}).read()\n",
            f"import os\ndef cube(x):\n    os.symlink({CANARY_PATH!r}, 'link')\n    return open('link').read()\n",
            f"import os\ndef cube(x):\n    os.link({CANARY_PATH!r}, 'link')\n    return open('link').read()\n",
            f"import os\nos.remove({CANARY_PATH!r})\n{WRONG}",
            f"import os\nos.chmod({CANARY_PATH!r}, 0)\n{WRONG}",
            f"import os\nos.truncate({CANARY_PATH!r}, 0)\n{WRONG}",
            f"open({CANARY_PATH!r}, 'w').write('x')\n{WRONG}",
            f"import shutil, os\nshutil.rmtree(os.path.dirname({CANARY_PATH!r}))\n{WRONG}",
            "import os\ndef cube(x):\n    return os.environ.get('CANARY_SECRET')\n",
            f"import os, pathlib\nos.rename({CANARY_PATH!r}, 'mine')\npathlib.Path.home()\n{WRONG}",
        ]
    ),
    "files": of(
        "open('/etc/shadow').read()",
        "import os\nfor folder, _, names in os.walk('/'):\n    for name in names[:9]:\n        try:\n"
        "            open(os.path.join(folder, name), 'ab')\n        except OSError:\n            pass",
        "import os\nfor number in range(10**6):\n    open(f'f{number}', 'w').write('x' * 1000)",
        "while True:\n    open('large', 'ab').write(b'x' * (1 << 20))",
        "import os\nwhile True:\n    os.mkdir('d')\n    os.chdir('d')",
        "import os\nos.mknod('device', 0o60666, 2049)\nopen('device', 'rb').read(1)",
        "import os\nos.symlink('.', 'loop')\nos.symlink('/', 'root')\nos.listdir('root')",
        "import os\nos.chmod('.', 0)\nos.mkdir('d', 0)",
        "import os\nopen(os.__file__, 'w').write('')",
        "import tempfile, os\nfor folder in ('/tmp', '/var/tmp', '/dev/shm', '/run'):\n"
        "    tempfile.NamedTemporaryFile(dir=folder, delete=False)",
    ),
    "sockets": of(
        "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
        "import socket\nsocket.create_connection(('1.1.1.1', 443), 1)",
        "import socket\nsocket.getaddrinfo('example.org', 80)",
        "import socket\none = socket.socket()\none.bind(('0.0.0.0', 0))\none.listen()\none.settimeout(1)\none.accept()",
        "import socket\none = socket.socket(socket.AF_UNIX)\none.bind('\\0name')\none.listen()",
        "import urllib.request\nurllib.request.urlopen('http://169.254.169.254/latest/meta-data', timeout=1)",
        "import socket\nkept = [socket.socketpair() for _ in range(NUMBER)]",
        "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    ),
    "memory": of(
        "kept = b'x' * (NUMBER << 30)",
        "kept = [0] * (NUMBER << 28)",
        "kept = []\nwhile True:\n    kept.append('x' * 10**7)",
        "import mmap\nkept = [mmap.mmap(-1, 1 << 28) for _ in range(NUMBER)]",
        "import os\nkept = [os.memfd_create('m') for _ in range(64)]\nfor one in kept:\n    os.truncate(one, 1 << 40)",
        "import ctypes\nlibc = ctypes.CDLL(None)\nfor _ in range(NUMBER):\n    libc.shmget(0, 1 << 30, 0o1666)",
        "kept = list(range(10**12))",
        "kept = {}\nwhile True:\n    kept[len(kept)] = [None] * 100",
    ),
    "huge numbers": of(
        "10 ** 10 ** 10",
        "9 ** 9 ** 9 % 7",
        "1 << (1 << 40)",
        "import math\nmath.factorial(10**8)",
        "int('9' * 10**7)",
        "str(10 ** 10**6)",
        "sum(range(10**11))",
        "import decimal\ndecimal.Decimal(9) ** 10**17",
    ),
    "huge results": lambda rng: (
        "def cube(x):\n    "
        + rng.choice(
            [
                "return 1 << 10**8",
                "return 'x' * 10**8",
                "return [[]] * 10**7",
                "return range(10**18)",
                "return {1: 1 << 10**7}",
                "return iter(int, 1)",
                "a = []\n    a.append(a)\n    return a",
                "yield from iter(int, 1)",
                "return float('nan')",
                "a = []\n    for _ in range(10**5):\n        a = [a]\n    return a",
                "raise ValueError('x' * 10**8)",
                "return b'\\0' * 10**7",
                "return '\\ud800'",
                "return complex('nan')",
                "return lambda: cube",
                "return cube",
                "raise type('AssertionError', (BaseException,), {})",
                "raise StopIteration",
                "return NotImplemented",
                "return ...",
            ]
        )
        + "\n"
    ),
    "recursion": of(
        "f = lambda: f()\nf()",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    return f()\nf()",
        "class A:\n    __repr__ = lambda s: repr(s)\nrepr(A())",
        "class A:\n    __getattr__ = lambda s, n: getattr(s, n + n)\nA().a",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return sorted([1, 2], key=f)\nf(1)",
        "a = []\nfor _ in range(10**6):\n    a = [a]\nrepr(a)",
        "exec('(' * 100 + ')' * 100)",
        "eval('-' * 10**6 + '1')",
    ),
    "time": of(
        "while True:\n    pass",
        "while True:\n    try:\n        pass\n    except BaseException:\n        pass",
        "import re\nre.match('(a+)+$', 'a' * 50 + 'b')",
        "import itertools\nlist(itertools.repeat(0, 10**12))",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))\nwhile True:\n    pass",
        "import os\nos.nice(-20)\nos.sched_setaffinity(0, {0})\nwhile True:\n    pass",
        "'x' in ('y' * 10**7 for _ in iter(int, 1))",
        "import collections\ncollections.deque(iter(int, 1), maxlen=0)",
    ),
    "waiting": of(
        "import time\ntime.sleep(NUMBER + 100)",
        "import signal\nsignal.pause()",
        "input()",
        "import select\nselect.select([], [], [])",
        "import os\nos.mkfifo('pipe')\nopen('pipe')",
        "import threading\nthreading.Lock().acquire() or threading.Event().wait()",
        "import os\nos.read(0, 1)",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    ),
    "source": lambda rng: (
        rng.choice(
            [
                "(" * 10**5,
                "x = " + "-" * 10**5 + "1",
                "a" * 10**6,
                "\0",
                "\ud800",
                "# coding: rot13\nqrs phor(k): erghea 1",
                "def cube(x):",
                "def cube(x)\n    return x",
                "if True:\n" * 200,
                "\n" * 10**6,
                "x = 1\n" * 10**5,
                "[" * 90 + "]" * 90,
                "from __future__ import braces",
                "import antigravity, this",
                "return 1",
                "assert False",
                "",
                "\ufeff" * 3,
                "{}" * 10**5,
                "x = " + "9" * 10**5,
                "x = " + "+".join(["1"] * 10**4),
                "lambda: " * 1000 + "1",
                "match 1:\n    case _: pass",
            ]
        )
        + "\n"
    ),
    "arguments": alone(
        "def cube(x):\n    x.clear()\n    return x\n",
        "import operator\ncube = operator.attrgetter('__class__')\n",
        "def cube(x=[]):\n    x += [1]\n    return x\n",
        "def cube(*a, **k):\n    return a\n",
        "async def cube(x):\n    return x ** 3\n",
        "def cube(x):\n    yield x ** 3\n",
        "cube = lambda x: str(x ** 3)\n",
        "cube = lambda x: [x ** 3]\n",
    ),
}
