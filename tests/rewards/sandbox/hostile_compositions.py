"""Programs that give the tests an object to call, compare, enter or catch. Each comes with the test that it must fail."""

# ruff: noqa: E501 - a program is one text

from __future__ import annotations

#: Code that, in the tests' process, would make the next assertion pass.
_PATCH = "import sys, builtins\\nframe = sys._getframe()\\nwhile frame:\\n    frame.f_globals.update(WON=True)\\n    frame = frame.f_back"
_WON = "run(code())\nassert 'WON' in globals()"
_ANY = "type('Any', (BASE,), {n: lambda *a: True for n in ('__eq__', '__ne__', '__bool__', '__contains__', '__lt__', '__gt__')})"

COMPOSITIONS: dict[str, tuple[str, str]] = {
    "functions": (
        'decode = eval\nencode = lambda s: \'__import__("sys").modules["tests"] and {!r}\'.format(s)',
        "assert decode(encode('abc')) == 'abc'",
    ),
    "eval by the test": (
        'code = lambda: \'__import__("sys").modules["tests"].cube(3)\'\ncube = abs',
        "assert eval(code()) == 3",
    ),
    "import": ("load = __import__\nname = lambda: 'tests'", "assert load(name()).load"),
    "__missing__": (
        "class D(dict):\n    __missing__ = lambda s, k: 27\nmade = lambda: D(a=1)",
        "assert made() == {'a': 1, 'b': 27}",
    ),
    "__array_interface__": (
        "class A:\n    __array_interface__ = {'shape': (1,), 'typestr': '<i8', 'data': (4096, False), 'version': 3}\nf = A",
        "import numpy\nassert numpy.asarray(f()).tolist() == [0]",
    ),
    "__index__": ("class N:\n    __index__ = lambda s: 0\nf = N", "assert [1, 27][f()] == 27"),
    "metaclass": (
        "class M(type):\n    __instancecheck__ = lambda *a: True\nclass C(metaclass=M):\n    pass",
        "assert isinstance(3, C)",
    ),
    "__exit__": (
        "class c:\n    __enter__ = lambda s: s\n    __exit__ = lambda *a: True\nf = lambda: 3",
        "with c():\n    assert f() == 27",
    ),
    "caught AssertionError": (
        "Wrong = AssertionError\nf = lambda: 3",
        "try:\n    f()\n    assert False\nexcept Wrong:\n    pass",
    ),
    "hidden assertion": (
        "def each(f, x):\n    try:\n        f(x)\n    except BaseException:\n        pass",
        "def check(x):\n    assert x == 27\neach(check, 3)",
    ),
    "shadowed method": (
        "def grow(n):\n    n.is_tall = lambda: True",
        "class Tree:\n    def is_tall(self):\n        return False\ntree = Tree()\ngrow(tree)\nassert tree.is_tall()",
    ),
    "__reduce__": (
        f"class P:\n    def __reduce__(self):\n        return exec, ('{_PATCH}',)\nf = P",
        "import copy, pickle\ncopy.copy(f())\npickle.loads(pickle.dumps(f()))\nassert 'WON' in globals()",
    ),
    "await": (
        "class A:\n    def __await__(self):\n        yield\nf = A",
        "import asyncio\nassert asyncio.run(f()) == 27",
    ),
    "forged array": (
        "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\nremote.encode = lambda value, refer: ['dict', [['list', ['f']], ['list', [['ndarray', ['|O', ['list', [1]], '00' * 8]]]]]]",
        "assert len(f) == 1",
    ),
    "forged named tuple": (
        "import sys\nremote = sys.modules['reward_ablation.rewards.sandbox.remote']\nremote.encode = lambda value, refer: ['dict', [['list', ['f']], ['list', [['namedtuple', ['P', ['list', ['x=print(1)']], 1]]]]]]",
        "assert len(f) == 1",
    ),
}
