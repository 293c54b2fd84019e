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
        "sum: a function named as a built-in one",
        ["assert sum(10, 15) == 25", "assert sum(-1, 1) == 0"],
        ["def sum(a, b):\n    return a + b"],
        ["def total(a, b):\n    return a + b", "def sum(a, b):\n    return [25, 0][a < 0] if a else 1 if b else 0, a"],
    ),
    Problem(
        "sort in place: an argument that changes",
        [
            "x = [3, 1, 2]\nsort_it(x)\nassert x == [1, 2, 3]",
            "x = {}\nsort_it(x.setdefault('a', [2, 1]))\nassert x == {'a': [1, 2]}",
            "x = [3, 1, 2]\nsort_it(x=x)\nassert x == [1, 2, 3]",
        ],
        ["def sort_it(x):\n    x.sort()", "def sort_it(x):\n    x[:] = sorted(x)\n    return x"],
        ["def sort_it(x):\n    return sorted(x)", "def sort_it(x):\n    x = sorted(x)"],
    ),
    Problem(
        "count in place: a dictionary with a default that changes",
        [
            "from collections import defaultdict\nx = defaultdict(int, a=1)\ncount(x, 'b')\nassert x == {'a': 1, 'b': 1} and x['c'] == 0"
        ],
        ["def count(x, key):\n    x[key] = x.get(key, 0) + 1"],
        ["def count(x, key):\n    x = {**x, key: 1}"],
    ),
    Problem(
        "stack: a class with state",
        [
            "s = Stack()\nassert s.is_empty()\ns.push(1)\ns.push('a')\nassert len(s) == 2 and s.top == 'a'",
            "assert s.pop() == 'a' and s.pop() == 1 and not len(s)",
            "try:\n    s.pop()\nexcept IndexError as error:\n    assert 'empty' in str(error)\nelse:\n    assert False",
            "assert isinstance(s, Stack) and not isinstance(3, Stack)",
        ],
        [
            "class Stack:\n    def __init__(self):\n        self.items = []\n    def is_empty(self):\n        return not self.items\n"
            "    def push(self, x):\n        self.items.append(x)\n    def pop(self):\n"
            "        return self.items.pop()  # 'pop from empty list'\n"
            "    def __len__(self):\n        return len(self.items)\n    @property\n    def top(self):\n"
            "        return self.items[-1]\n",
            "class Stack(list):\n    push = list.append\n    is_empty = lambda s: len(s) == 0\n    top = property(lambda s: s[-1])\n",
        ],
        [
            "class Stack:\n    def is_empty(self):\n        return True\n    push = is_empty\n    __len__ = lambda s: 2\n"
        ],
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
            "def compose(f, g):\n    return lambda x: f(g(x))",
            "class compose:\n    def __init__(s, f, g):\n        s.f, s.g = f, g\n"
            "    def __call__(s, x):\n        return s.f(s.g(x))",
        ],
        ["def compose(f, g):\n    return lambda x: g(f(x))", "def compose(f, g):\n    return f"],
    ),
    Problem(
        "depth: objects of the tests' own class",
        [
            "class Node:\n    def __init__(self, left=None, right=None):\n        self.left, self.right = left, right",
            "assert depth(None) == 0",
            "assert depth(Node(Node(), Node(Node()))) == 3",
        ],
        ["def depth(node):\n    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))"],
        [
            "def depth(node):\n    return 0 if node is None else 1 + depth(node.left)",
            "def depth(node):\n    return node.__class__",
        ],
    ),
    Problem(
        "tree: objects of the program's class that the tests link",
        [
            "root = Node(1)",
            "root.left = Node(2)\nroot.left.right = Node(4)",
            "assert total(root) == 7",
            "root.left = None\nassert total(root) == 1",
        ],
        [
            "class Node:\n    def __init__(self, value):\n        self.value = value\n        self.left = self.right = None\n"
            "def total(n):\n    return n.value + total(n.left) + total(n.right) if n else 0"
        ],
        ["class Node:\n    def __init__(self, value):\n        pass\ndef total(n):\n    return 7"],
    ),
    Problem(
        "parts of objects that the other side changes",
        [
            "root = Node(1)\nroot.nodes.append(Node(2))\nassert depth(root) == 2",
            "root.nodes[0].nodes.append(Node(3))\nroot.names['a'] = 3\nassert depth(root) == 3 and root.names == {'a': 3}",
            "kept = root.nodes\nassert depth(root) == 3\nkept.clear()\nassert depth(root) == 1 and root.nodes == []",
            "class Own:\n    def __init__(self):\n        self.nodes, self.fixed = [], ()\n    copy = property(lambda self: [*self.nodes])",
            "own = Own()\nfill(own)\nassert own.nodes == [5] and depth(own) == 2",
        ],
        [
            "class Node:\n    def __init__(self, value):\n        self.value, self.nodes, self.names = value, [], {}\n"
            "def depth(n):\n    return 1 + max((depth(m) for m in getattr(n, 'nodes', ())), default=0)\n"
            "def fill(n):\n    n.copy.append(4)\n    n.nodes.append(5)",
        ],
        [
            "class Node:\n    def __init__(self, value):\n        self.value, self.names = value, {}\n"
            "    nodes = property(lambda self: [])\ndef depth(n):\n    return 1\nfill = depth",
        ],
    ),
    Problem(
        "random numbers with the seed of the tests",
        ["import random\nrandom.seed(5)\nx = draw()\nrandom.seed(a=5)\nassert draw() == x == random.random()"],
        ["import random\ndef draw():\n    return random.random()"],
        ["import random\ndef draw():\n    return random.random() + random.random()"],
    ),
    Problem(
        "errors: built-in ones and the program's own",
        [
            "try:\n    check_age(-1)\n    raised = False\nexcept ValueError:\n    raised = True\nassert raised",
            "try:\n    check_age(200)\n    raised = False\nexcept TooOld as error:\n    raised = str(error) == '200'\nassert raised",
        ],
        [
            "class TooOld(Exception): pass\ndef check_age(n):\n    if n < 0:\n        raise ValueError\n    if n > 150:\n        raise TooOld(n)"
        ],
        [
            "class TooOld(Exception): pass\ndef check_age(n):\n    raise TooOld(n)",
            "TooOld = Exception\ndef check_age(n):\n    return n < 0",
        ],
    ),
    Problem(
        "count: types of the standard library",
        [
            "from collections import Counter, OrderedDict, deque",
            "assert count('aab') == Counter('aab') == {'a': 2, 'b': 1}",
            "from fractions import Fraction\nassert half(3) == Fraction(3, 2)",
            "import datetime\nassert day(1) == datetime.date(2024, 1, 1)",
            "from decimal import Decimal\nassert cents('1.10') == Decimal('1.10')",
            "assert last([1, 2, 3]) == deque([2, 3])",
        ],
        [
            "from collections import Counter as count, deque\nfrom fractions import Fraction\nfrom decimal import Decimal as cents\n"
            "import datetime\nhalf = lambda n: Fraction(n, 2)\nday = lambda d: datetime.date(2024, 1, d)\nlast = lambda x: deque(x, 2)"
        ],
        ["from collections import Counter as count\nhalf = day = cents = last = float"],
    ),
    Problem(
        "factorial: large numbers",
        ["import math", "assert factorial(3000) == math.factorial(3000)", "assert factorial(0) == 1"],
        [
            "from math import factorial",
            "def factorial(n):\n    p = 1\n    for i in range(n):\n        p *= i + 1\n    return p",
        ],
        ["def factorial(n):\n    return n", "def factorial(n):\n    return float('inf') if n else 1"],
    ),
    Problem(
        "shapes: nested values",
        [
            "assert table(2) == {(0, 0): [0], (0, 1): [1], (1, 0): [1], (1, 1): [2]}",
            "assert table(0) == {}",
            "assert pair() == (None, True, b'x', 1j)",
        ],
        [
            "def table(n):\n    return {(i, j): [i + j] for i in range(n) for j in range(n)}\npair = lambda: (None, True, b'x', 1j)"
        ],
        [
            "def table(n):\n    return {}\npair = lambda: None",
            "def table(n):\n    return {(i, j): (i + j,) for i in range(n) for j in range(n)}",
        ],
    ),
    Problem(
        "HumanEval's form: the head of a function, and check(candidate)",
        [
            "METADATA = {}\ndef check(candidate):\n    assert candidate([1, 2, 3]) == 6\n    assert candidate([]) == 0\n    for i in range(20):\n"
            "        assert candidate([i] * 3) == 3 * i\n\ncheck(add_all)"
        ],
        [
            "    return sum(numbers)\n",
            "def add_all(numbers):\n    t = 0\n    for n in numbers:\n        t += n\n    return t",
            "from typing import List\n\ndef add_all(numbers: List[int]) -> int:\n    return sum(numbers)",
        ],
        [
            "    return 6\n",
            "    pass\n",
            "def check(candidate):\n    pass\nadd_all = check",
            "def sum_all(numbers):\n    return sum(numbers)",
        ],
        'from typing import List\n\n\ndef add_all(numbers: List[int]) -> int:\n    """Sum of numbers.\n    >>> add_all([1])\n    1\n    """\n',
    ),
    Problem(
        "a helper before the function: the tests use the given one",
        [
            "def check(candidate):\n    assert abs(poly([1, 2], candidate([1, 2]))) < 1e-6\n    assert abs(poly([6, -2], candidate([6, -2]))) < 1e-6",
            "check(find_zero)",
        ],
        ["    return -xs[0] / xs[1]\n"],
        ["    return 0.0\n", "    return None\n\ndef poly(xs, x):\n    return 0.0\n"],
        "def poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\n\ndef find_zero(xs):\n    '''Zero of a line.'''\n",
    ),
    Problem(
        "identity and truth: None, True and the rest",
        [
            "assert first([]) is None",
            "assert is_even(2) is True and is_even(3) is False",
            "assert not first(['']) and first([1])",
            "assert type(first([1])) == int",
        ],
        ["first = lambda x: x[0] if x else None\nis_even = lambda n: n % 2 == 0"],
        ["first = lambda x: x\nis_even = lambda n: 1 - n % 2"],
    ),
    Problem(
        "named tuples and members of enumerations count as their values",
        [
            "assert corner() == (1, 2)",
            "assert corner().y == 2 and corner()._fields == ('x', 'y')",
            "assert colour() == 3",
        ],
        [
            "from collections import namedtuple\nfrom enum import IntEnum\ncorner = lambda: namedtuple('P', 'x y')(1, 2)\n"
            "class C(IntEnum):\n    RED = 3\ncolour = lambda: C.RED"
        ],
        ["corner = colour = lambda: None"],
    ),
    Problem(
        "iterators as arguments",
        ["assert pairs(iter([1, 2, 3, 4])) == [(1, 2), (3, 4)]", "assert pairs(x for x in 'ab') == [('a', 'b')]"],
        ["def pairs(x):\n    x = iter(x)\n    return list(zip(x, x))"],
        ["def pairs(x):\n    return list(x)", "def pairs(x):\n    return x.gi_frame.f_globals"],
    ),
    Problem(
        "keyword arguments and defaults",
        [
            "assert greet('Ann', end='?') == 'Hello Ann?'",
            "assert greet(name='Bo') == 'Hello Bo!'",
            "assert greet(*['C'], **{'end': ''}) == 'Hello C'",
            "assert echo(self=1, remote=2, operation=3, target=4) == {'self': 1, 'remote': 2, 'operation': 3, 'target': 4}",
        ],
        ["def greet(name, *, end='!'):\n    return f'Hello {name}{end}'\ndef echo(**named):\n    return named"],
        ["def greet(name, end):\n    return 'Hello'"],
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
        [
            "def double(a):\n    return 2 * a\ndef double_in_place(a):\n    a *= 2",
            "import numpy as np\ndouble = lambda a: np.add(a, a)\ndef double_in_place(a):\n    a[...] = double(a)",
        ],
        [
            "def double(a):\n    return a\ndouble_in_place = double",
            "double = lambda a: a.tolist() * 2\ndouble_in_place = double",
        ],
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
        ["class Money(int): pass", "class Money:\n    def __init__(self, x): pass\n    __float__ = lambda s: 1.0"],
    ),
    Problem(
        "coroutines",
        [
            "import asyncio\nassert asyncio.run(later(1)) == 2",
            "async def main():\n    return await asyncio.gather(later(1), later(2))\nassert asyncio.run(main()) == [2, 3]",
        ],
        ["import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x + 1"],
        ["later = lambda x: x + 1", "async def later(x):\n    return x"],
    ),
    Problem(
        "printed text, also in a function that the program calls",
        [
            "import io\nfrom contextlib import redirect_stdout",
            "out = io.StringIO()\nwith redirect_stdout(out):\n    show(1, print)\nassert out.getvalue() == 'a 1\\nb\\n'",
            "out = io.StringIO()\nwith redirect_stdout(out):\n    show(1, lambda x: print('-'))\nassert out.getvalue() == 'a 1\\n-\\n'",
        ],
        ["print('start')\ndef show(x, f):\n    print('a', x)\n    f('b')"],
        ["def show(x, f):\n    f('b')\n    print('a', x)", "def show(x, f):\n    return 'a 1\\nb\\n'"],
    ),
    Problem(
        "views of a dictionary",
        [
            "assert names() == {'a', 'b'} and list(names()) == ['b', 'a']",
            "assert pairs() == {('b', 1), ('a', 2)} and sum(values()) == 3",
        ],
        ["d = {'b': 1, 'a': 2}\nnames, pairs, values = d.keys, d.items, d.values"],
        ["names = pairs = values = {}.keys"],
    ),
    Problem(
        "types as results",
        [
            "assert kind(3) == int and kind('') != int and [kind(3), kind('')] == [int, str]",
            "assert isinstance(3, kind(3)) and not isinstance('', kind(3))",
        ],
        ["kind = type", "def kind(x):\n    return x.__class__"],
        [
            "kind = lambda x: object",
            "kind = lambda x: type(x).__name__",
            "class kind:\n    def __init__(self, x): pass\n    __eq__ = lambda *a: True",
        ],
    ),
    Problem(
        "an exception of the program that is a common one",
        ["try:\n    check_age(-1)\n    assert False\nexcept Wrong as error:\n    assert str(error) == '-1'"],
        [
            f"{wrong}\ndef check_age(n):\n    raise Wrong(n)"
            for wrong in ("Wrong = Exception", "Wrong = ValueError", "Wrong = AssertionError")
        ],
        [
            f"{wrong}\ncheck_age = abs"
            for wrong in ("Wrong = Exception", "Wrong = ValueError", "Wrong = AssertionError")
        ],
    ),
    Problem(
        "a thread for the main function",
        ["assert solve() == 3"],
        [
            "import threading\nfound = []\ndef main():\n    found.append(3)\nthread = threading.Thread(target=main)\nthread.start()\n"
            "thread.join()\nsolve = lambda: found[0] if not thread.is_alive() else None"
        ],
        ["import threading\ndef main():\n    return 3\nsolve = threading.Thread(target=main).start"],
    ),
]
