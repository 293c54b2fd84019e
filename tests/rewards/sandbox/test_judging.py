"""Right programs pass, wrong programs fail, and the rest gets the right status."""

import pytest

from reward_ablation.rewards.sandbox import supervisor
from reward_ablation.rewards.sandbox.judging import Task, Verdict, judge
from reward_ablation.rewards.sandbox.supervisor import Job

from .problems import PROBLEMS

SUM = [{"input": "1 2\n", "output": "3\n"}, {"input": "-5 5\n", "output": "0\n"}]
NOTHING = [{"input": "0\n", "output": ""}]
IN_A_THREAD = (
    "import threading\nthreading.stack_size(1 << 26)\ndef main():\n    print(sum(map(int, input().split())))\n"
    "t = threading.Thread(target=main)\nt.start()\nt.join()"
)
#: A runner whose result is asserted.
RUN = (
    "found = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))\n"
    "assert found.wasSuccessful()"
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_right_programs_pass_and_wrong_ones_fail(verdicts, problem):
    found = verdicts([*problem.right, *problem.wrong], problem.tests, problem.code_before)
    expected = ["passed"] * len(problem.right) + ["failed"] * len(problem.wrong)
    assert [verdict.status for verdict in found] == expected


@pytest.mark.parametrize(
    ("tests", "program", "expected"),
    [
        (SUM, "if __name__ == '__main__':\n    print(sum(map(int, input().split())))\n    exit(1)", "passed"),
        (SUM, IN_A_THREAD, "passed"),
        (SUM, "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print, 3)", "failed"),
        (SUM, "input(); input()", "failed"),
        (SUM, "while True: pass", "timeout"),
        (SUM, "while True: print('x' * 1000)", "failed"),
        # where nothing is to be printed, the exit status counts
        (NOTHING, "exit(0)", "passed"),
        (NOTHING, "I do not know.", "failed"),
        (NOTHING, "import sys\nsys.exit('no')", "failed"),
        (["assert f(1) == 1"], "def f(x):\n    while True: pass", "timeout"),
        (["assert f(1) == 1"], "while True: pass", "timeout"),
        (["assert f(1) == 1"], "def f(x):\n    return 'x' * 10**10", "failed"),  # memory
        (["assert f(1) == 1"], "\ud800", "failed"),
        (["assert f(4).tolist() == [4.0, 2.0]"], "import numpy\nf = lambda x: x / numpy.array([1, 2])", "passed"),
    ],
)
def test_status(status, tests, program, expected):
    assert status(program, tests, seconds=1) == expected


UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n"


@pytest.mark.parametrize(
    "tests",
    [
        None,
        [],
        "assert f(1) == 1",
        ["assert f(1) =="],
        ["assert True", {"input": "", "output": ""}],
        # tests that only define, which any program would pass
        ["def test_f():\n    assert f(1) == 2"],
        [UNITTEST],
        # comparisons that nothing looks at, which any program would pass
        ["f(1) == 2", "all(f(x) == 2 for x in range(3)) and not f(1)"],
        ["import math\nif True:\n    math.isclose(f(1), 2)"],
        # the verdict is that of a runner: any program would pass, or none
        [f"{UNITTEST}unittest.main()"],
        [f"{UNITTEST}import unittest as u\nassert u.main(argv=['x'], exit=False).result.wasSuccessful()"],
        [f"{UNITTEST}suite = unittest.makeSuite(T)\nunittest.TextTestRunner().run(suite)"],
        ["import sys, pytest\ndef test_f():\n    assert f(1) == 2\nsys.exit(pytest.main([__file__]))"],
    ],
)
def test_tests_that_cannot_be_run_are_no_fault_of_the_program(status, tests):
    assert status("def f(x):\n    return x", tests) == "error"


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        (["f(1) == 2 or exit(1)", "f(1)"], "failed"),
        (["import math", "assert f(4) == math.sqrt(16)"], "passed"),  # code of the set-up, as in MBPP
        (["def check(g):\n    assert g(1) == 2", "check(f)"], "failed"),
        (["if f(1) == 1:\n    raise ValueError"], "failed"),
        (["import pytest\nwith pytest.raises(TypeError):\n    f()"], "passed"),
        (["assert f(1) == 1", "import unittest\nunittest.main()"], "passed"),
        (["import unittest\nassert f(1) == 2\nif __name__ == '__main__':\n    unittest.main()"], "failed"),
        ([UNITTEST.replace("2", "1") + RUN], "passed"),
        ([UNITTEST + RUN], "failed"),
    ],
)
def test_tests_that_define_and_call(status, tests, expected):
    assert status("def f(x):\n    return x", tests) == expected


def test_an_endless_test_ends(status, monkeypatch):
    monkeypatch.setattr(supervisor, "wall_seconds", lambda seconds: 2.0)
    assert status("import itertools\nf = itertools.count", ["assert -1 in f()"], seconds=1) == "timeout"


def test_the_share_of_tests_that_pass(verdicts):
    tests = ["assert f(1) == 1", "assert f(2) == 4", "assert f(0) == 0", "assert f(3) == 9"]
    programs = ["def f(x):\n    return x", "def f(x):\n    return x * x", "def f(x):\n    return 1 / x"]
    shares = [Verdict("failed", 0.5), Verdict("passed", 1.0), Verdict("failed", 0.25)]
    assert verdicts(programs, tests, all_tests=True) == shares
    assert [verdict.share for verdict in verdicts(programs, tests)] == [0.25, 1.0, 0.25]  # up to the first that fails
    set_up = ["import math", "class Node:\n    pass\nroot = Node()"]
    assert verdicts(programs, [*set_up, *tests], all_tests=True) == shares
    scripted = [{"input": "1", "output": "1"}, {"input": "2", "output": "4"}]
    assert verdicts(["print(input())"], scripted, all_tests=True) == [Verdict("failed", 0.5)]


def test_verdicts_do_not_depend_on_order_or_on_how_many_run_at_once():
    tasks = [
        Task(program, each.tests, each.code_before) for each in PROBLEMS[::6] for program in each.right + each.wrong
    ]
    settings = {"seconds": 2, "memory_mb": 512}
    one, four = judge(tasks, workers=1, **settings), judge(tasks[::-1], workers=4, **settings)
    assert one == four[::-1]


def test_a_program_has_the_same_random_numbers_and_order_of_sets_each_time(runner):
    program = "import random\nprint(random.random(), list({'a', 'b', 'c', 'd'}))"
    first = runner.run([Job(program, "script", "", 2, 512)] * 2, 2)
    runner.close()
    assert len({outcome.output for outcome in (*first, *runner.run([Job(program, "script", "", 2, 512)], 1))}) == 1


def test_a_program_may_use_files_of_its_own_and_the_installed_packages(runner):
    program = (
        "import tempfile, numpy\n"
        "def f(x):\n"
        "    with tempfile.TemporaryFile('w+') as file:\n"
        "        file.write(str(numpy.arange(x).sum()))\n"
        "        file.seek(0)\n"
        "        return int(file.read())\n"
    )
    assert judge([Task(program, ["assert f(4) == 6"])], seconds=2, memory_mb=1024, runner=runner)[0].status == "passed"
