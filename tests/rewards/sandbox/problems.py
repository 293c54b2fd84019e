"""Small problems in the style of MBPP and HumanEval, with right and wrong programs. All were made for these tests."""

# ruff: noqa: E501 - a program is one text

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Tests, programs that pass them, programs that fail them, and the code that all these programs continue."""

    name: str
    tests: list[str]
    right: list[str]
    wrong: list[str]
    code_before: str = ""


PROBLEMS = [
    Problem(
        "sort in place: an argument that changes",
        [
            "x = [3, 1, 2]\nsort_it(x)\nassert x == [1, 2, 3]",
            "x = {}\nsort_it(x=x.setdefault('a', [2, 1]))\nassert x == {'a': [1, 2]}",
            "from collections import defaultdict\nx = defaultdict(int, a=1)\ncount(x, 'b')\nassert x == {'a': 1, 'b': 1} and x['c'] == 0",
        ],
        ["def sort_it(x):\n    x[:] = sorted(x)\ndef count(x, key):\n    x[key] = x.get(key, 0) + 1"],
        ["def sort_it(x):\n    return sorted(x)\ndef count(x, key):\n    x = {**x, key: 1}"],
    ),
    Problem(
        "compose: functions as arguments and results",
        [
            "assert compose(lambda x: x + 1, lambda x: x * 2)(5) == 11",
            "def square(x):\n    return x * x",
            "assert compose(square, square)(2) == 16",
            "assert compose(str, abs)(-3) == '3'",
        ],
        [
            "class compose:\n    def __init__(s, f, g):\n        s.f, s.g = f, g\n"
            "    def __call__(s, x):\n        return s.f(s.g(x))",
        ],
        ["def compose(f, g):\n    return lambda x: g(f(x))", "def compose(f, g):\n    return f"],
    ),
    Problem(
        "parts of objects that the other side changes",
        [
            "root = Node(1)\nroot.nodes.append(Node(2))\nassert depth(root) == 2",
            "root.nodes[0].nodes.append(Node(3))\nroot.names['a'] = 3\nassert depth(root) == 3 and root.names == {'a': 3}",
            "root.value = root.nodes[0]\nassert depth(root.value) == depth(root.nodes[0]) == fill(root) == 2",
            "kept = root.nodes\nassert depth(root) == 3\nkept.clear()\nassert depth(root) == 1 and root.nodes == []",
            "class Own:\n    def __init__(self):\n        self.nodes, self.fixed = [], ()\n    copy = property(lambda self: [*self.nodes])",
            "own = Own()\nfill(own)\nassert own.nodes == [5] and depth(own) == 2",
        ],
        [
            "class Node:\n    def __init__(self, value):\n        self.value, self.nodes, self.names = value, [], {}\n"
            "def depth(n):\n    return 1 + max((depth(m) for m in getattr(n, 'nodes', ())), default=0)\n"
            "def fill(n):\n    if isinstance(n, Node):\n        return depth(n.value)\n    n.copy.append(4)\n    n.nodes.append(5)",
        ],
        [
            "class Node:\n    def __init__(self, value):\n        self.nodes = []\ndef depth(n):\n    return 2\nfill = depth"
        ],
    ),
    Problem(
        "random numbers with the seed of the tests",
        ["import random\nrandom.seed(5)\nx = draw()\nrandom.seed(a=5)\nassert draw() == x == random.random()"],
        ["import random\ndef draw():\n    return random.random()"],
        ["import random\ndef draw():\n    return random.random() + random.random()"],
    ),
    Problem(
        "errors: built-in ones, common ones and the program's own",
        [
            "try:\n    check_age(-1)\n    raised = False\nexcept ValueError:\n    raised = True\nassert raised",
            "try:\n    check_age(200)\n    assert False\nexcept TooOld as error:\n    assert str(error) == '200'",
        ],
        [
            f"{wrong}\ndef check_age(n):\n    raise ValueError if n < 0 else TooOld(n)"
            for wrong in ("class TooOld(Exception): pass", "TooOld = Exception", "TooOld = AssertionError")
        ],
        [
            "class TooOld(Exception): pass\ndef check_age(n):\n    raise TooOld(n)",
            *(
                f"TooOld = {wrong}\ndef check_age(n):\n    if n < 0: raise ValueError"
                for wrong in ("Exception", "AssertionError")
            ),
        ],
    ),
    Problem(
        "arguments: iterators, keywords and defaults",
        [
            "assert pairs(iter([1, 2, 3, 4])) == [(1, 2), (3, 4)] and pairs(x for x in 'ab') == [('a', 'b')]",
            "assert greet(*['C'], **{'end': '?'}) == 'Hello C?' and greet(name='Bo') == 'Hello Bo!'",
            "assert echo(self=1, remote=2, operation=3, target=4) == {'self': 1, 'remote': 2, 'operation': 3, 'target': 4}",
        ],
        [
            "def pairs(x):\n    x = iter(x)\n    return list(zip(x, x))\n"
            "def greet(name, *, end='!'):\n    return f'Hello {name}{end}'\ndef echo(**named):\n    return named"
        ],
        ["def pairs(x):\n    return x.gi_frame.f_globals", "def greet(name, end):\n    return 'Hello'"],
    ),
    Problem(
        "arrays as arguments and results",
        [
            "import numpy as np",
            "a = np.array([[1.5, 2.0], [3.0, 4.0]])",
            "assert double(a).tolist() == [[3.0, 4.0], [6.0, 8.0]] and double(a).shape == (2, 2)",
            "assert np.allclose(double(a), a + a) and (double(np.arange(3)) == [0, 2, 4]).all()",
            "double_in_place(a)\nassert a[1, 1] == 8",
            "assert double(np.array([])).size == 0 and double(np.int64(3)) == 6",
        ],
        ["import numpy as np\ndouble = lambda a: np.add(a, a)\ndef double_in_place(a):\n    a[...] = double(a)"],
        ["double = lambda a: a.tolist() * 2\ndouble_in_place = double"],
    ),
    Problem(
        "numbers of the program's own class",
        [
            "assert float(Money(2)) == 2.0 and int(Money(3)) == 3 and abs(Money(-4)) == 4 and round(Money(5)) == 5",
            "assert -Money(1) == Money(-1) and (-Money(1)).value == -1",
            "assert f'{Money(2):.1f}' == '2.0' and [1, 2, 3][Money(1)] == 2",
            "assert len({Money(1), Money(1), Money(2)}) == 2 and hash(Money(1)) == hash(Money(1))",
            "import copy\nm = copy.deepcopy(Money(7))\nassert m.value == 7 and m == Money(7) and m is not Money(7)",
        ],
        [
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Money:\n    value: int\n"
            "    def __neg__(self):\n        return Money(-self.value)\n    def __index__(self):\n        return self.value\n"
            "    def __abs__(self):\n        return abs(self.value)\n    def __round__(self):\n        return self.value\n"
            "    def __format__(self, spec):\n        return format(float(self.value), spec)\n"
        ],
        ["class Money:\n    def __init__(self, x): pass\n    __float__ = lambda s: 1.0"],
    ),
    Problem(
        "coroutines",
        [
            "import asyncio\nasync def main():\n    return await asyncio.gather(later(1), later(2))\nassert asyncio.run(main()) == [2, 3]",
        ],
        ["import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x + 1"],
        ["later = lambda x: x + 1", "async def later(x):\n    return x"],
    ),
    Problem(
        "printed text, also in a function that the program calls",
        [
            "import io\nfrom contextlib import redirect_stdout",
            "out = io.StringIO()\nwith redirect_stdout(out):\n    show(1, lambda x: print('-'))\nassert out.getvalue() == 'a 1\\n-\\n'",
        ],
        ["print('start')\ndef show(x, f):\n    print('a', x)\n    f('b')"],
        ["def show(x, f):\n    f('b')\n    print('a', x)"],
    ),
    Problem(
        "types as results",
        ["assert kind(3) == int and [kind(3), kind('')] == [int, str] and isinstance(3, kind(3))"],
        ["kind = type"],
        ["kind = lambda x: object", "class kind:\n    def __init__(self, x): pass\n    __eq__ = lambda *a: True"],
    ),
    Problem(
        "stack: a class with state",
        [
            "s = Stack()\nassert s.is_empty()\ns.push(1)\ns.push('a')\nassert len(s) == 2 and s.top == 'a'",
            "try:\n    s.push(s.pop() + s.pop())\nexcept TypeError:\n    assert not len(s)\nelse:\n    assert False",
            "try:\n    s.pop()\nexcept IndexError as error:\n    assert 'empty' in str(error)\nelse:\n    assert False",
            "assert isinstance(s, Stack) and not isinstance(3, Stack)",
        ],
        [
            "class Stack(list):\n    push = list.append\n    is_empty = lambda s: len(s) == 0\n    top = property(lambda s: s[-1])"
        ],
        ["class Stack:\n    def is_empty(self):\n        return True\n    push = is_empty\n    __len__ = lambda s: 2"],
    ),
    Problem(
        "types of the standard library",
        [
            "from collections import Counter, deque\nassert count('aab') == Counter('aab') == {'a': 2, 'b': 1}",
            "from fractions import Fraction\nassert half(3) == Fraction(3, 2) and last([1, 2, 3]) == deque([2, 3])",
            "import datetime, decimal\nassert day(1) == datetime.date(2024, 1, 1) and cents('1.1') == decimal.Decimal('1.1')",
            "assert pair() == (None, True, b'x', 1j, {(0, 1): [1]}, 10**3000)",
            "assert names() == {'a', 'b'} and list(names()) == ['b', 'a'] and sum(values()) == 3",
            "assert corner() == (1, 2) and corner().y == 2 and corner()._fields == ('x', 'y') and colour() == 3",
        ],
        [
            "from collections import Counter as count, deque, namedtuple\nfrom decimal import Decimal as cents\nimport datetime, enum, fractions\n"
            "half = lambda n: fractions.Fraction(n, 2)\nday = lambda d: datetime.date(2024, 1, d)\nlast = lambda x: deque(x, 2)\n"
            "pair = lambda: (None, True, b'x', 1j, {(0, 1): [1]}, 10**3000)\nd = {'b': 1, 'a': 2}\nnames, values = d.keys, d.values\n"
            "corner = lambda: namedtuple('P', 'x y')(1, 2)\ncolour = lambda: enum.IntEnum('C', 'GREEN BLUE RED').RED"
        ],
        [
            "from collections import Counter as count\nhalf = day = cents = last = names = values = pair = corner = colour = float"
        ],
    ),
    Problem(
        "HumanEval's form: a helper, the head of a function, and check(candidate), which uses the given helper",
        [
            "METADATA = {}\ndef check(candidate):\n    for i in range(1, 20):\n"
            "        assert abs(poly([6, -i], candidate([6, -i]))) < 1e-6\n\ncheck(find_zero)"
        ],
        ["    return -xs[0] / xs[1]\n", "def find_zero(xs):\n    return -xs[0] / xs[1]\n"],
        [
            "    return 6\n",
            "    return None\n\ndef poly(xs, x):\n    return 0.0\n",
            "def check(candidate):\n    pass\nfind_zero = check",
        ],
        "def poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\n\ndef find_zero(xs):\n    '''Zero of a line.'''\n",
    ),
]
