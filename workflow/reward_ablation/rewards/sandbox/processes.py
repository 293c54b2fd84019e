"""The two processes of a job: one runs the program under test, the other runs the tests and has the verdict.

The process of the program knows neither the tests nor the expected results, and gives no verdict. For the tests, the
program's functions are `Remote`s: stand-ins that have the other process do the work. `server` calls these functions in
the processes that it has forked and limited. A job that only compares printed output has one process, the program's.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import os
import random
import sys
import threading
import types
from collections.abc import Iterator
from functools import partial
from itertools import compress
from typing import Any

from reward_ablation.rewards.sandbox.remote import OPERATIONS, SHARED_MODULES, Ended, Link

SERVED_NAME = "program"


def serve_program(source: str, first_line: int, descriptor: int) -> None:
    """Run a program's top level, and answer calls of the names that it defines until the other side ends."""
    random.seed(0)  # so that the verdict does not depend on chance
    output = sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", write_through=True)
    module = types.ModuleType(SERVED_NAME)
    sys.modules[SERVED_NAME] = module  # dataclasses look their module up
    _run_threads_in_place(SERVED_NAME)
    failure: list[BaseException] = []
    try:
        exec(_compiled(source, first_line), module.__dict__)
    except BaseException as error:  # also SystemExit: a program that exits has no functions to test
        failure.append(error)

    def names(_: Any, asked: list[str]) -> dict[str, Any]:
        if failure:
            raise failure[0]
        return {name: module.__dict__[name] for name in asked if name in module.__dict__}

    OPERATIONS["names"] = names
    OPERATIONS["eval"] = lambda _, code: eval(code, module.__dict__)
    OPERATIONS["exec"] = lambda _, code: exec(code, module.__dict__)
    try:
        Link(descriptor, output=output).serve()
    except Ended:
        os._exit(0)


def run_script(source: str, first_line: int) -> None:
    """Run a program as a script, on standard input and output, and end the process with the program's exit status."""
    random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    _run_threads_in_place("__main__")
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # as the module `site` does
    status = 1
    try:
        exec(_compiled(source, first_line), module.__dict__)
        status = 0
    except SystemExit as end:
        status = int(end.code not in (None, 0))
    finally:
        sys.stdout.flush()
        os._exit(status)


def _compiled(source: str, first_line: int) -> Any:
    """A program's code. `first_line` is its number of lines before the completion, 0 without code that it continues."""
    # Tokenizers of Llama 2's kind lose the first space of a text: where nothing else fits, it is put back.
    try:
        return compile(source, "program.py", "exec")
    except IndentationError:
        lines = source.split("\n")
        if not first_line or not lines[first_line].startswith(" "):
            raise
        lines[first_line] = " " + lines[first_line]
        return compile("\n".join(lines), "program.py", "exec")


def _run_threads_in_place(module: str) -> None:
    """Have `start` do the work of a thread of the program: its limits allow no thread, and programs wait for theirs."""
    start = threading.Thread.start

    def start_here(self: Any) -> None:
        if getattr(vars(self).get("_target") or type(self), "__module__", None) != module:
            return start(self)  # such as a pool's worker, which would wait for ever
        self.join, self.is_alive = lambda timeout=None: None, lambda: False
        with contextlib.suppress(Exception, SystemExit):  # neither ends the other threads
            self.run()

    threading.Thread.start = start_here  # type: ignore[method-assign]


TESTS_MODULE = "tests"
_MODULES = {name: name for name in (*SHARED_MODULES, "numpy")} | {"np": "numpy"}


def run_tests(tests: list[str], code_before: str, descriptor: int, all_of_them: bool) -> dict[str, Any]:
    """Whether each test passes: {"passed": [true, false], "program_ended": false}; or {"unreadable": reason}.

    Set-up code among the tests runs in its place and has no result. `descriptor` is the socket to the program.
    Without `all_of_them`, the tests after the first failure are not run and count as failed.
    """
    try:
        code = [compile(test, "test.py", "exec") for test in tests]
        trees = [ast.parse(test) for test in tests]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"unreadable": f"{type(error).__name__}: {error}"[:300]}
    counted = _counted(trees)
    if not any(counted):  # every program would pass
        return {"unreadable": "the tests only define, or only a runner of their own would see that one fails"}
    random.seed(0)
    module = types.ModuleType(TESTS_MODULE)
    sys.modules[TESTS_MODULE] = module
    namespace = module.__dict__
    passed = [False] * len(tests)
    link = Link(descriptor, _may_serve)
    seed = random.seed  # a test seeds the program as well
    random.seed = lambda *of, **named: (link.ask("getattr", random, "seed")(*of, **named), seed(*of, **named))[1]
    try:
        exec(_without_stubs(code_before), namespace)
        names = _names_of_program(link, trees, set(namespace))
        # The program may have written the code that a test evaluates.
        namespace.update({name: partial(link.ask, name, None) for name in ("eval", "exec")} | names)
    except BaseException:  # the program has ended, or fails at its top level
        return {"passed": [*compress(passed, counted)], "program_ended": link.has_ended}
    for number, test in enumerate(code):
        link.has_failed_assertion = False
        with contextlib.suppress(BaseException):  # a failed assertion, or anything that the program raises
            exec(test, namespace)
            passed[number] = not (link.has_ended or link.has_failed_assertion)  # even if the test caught the error
        if counted[number] and not (passed[number] or all_of_them):
            break
    return {"passed": [*compress(passed, counted)], "program_ended": link.has_ended}


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
#: What unittest and doctest run tests with: a test that fails is printed, and nothing is raised.
_RUNNERS = frozenset(("TextTestRunner", "TestResult", "TextTestResult", "testmod", "testfile"))
#: Functions that answer true or false. As a statement, their answer is lost, like that of a comparison.
_ANSWERS = frozenset(("all", "any", "bool", "callable", "hasattr", "isinstance", "issubclass", "isclose", "allclose"))


def _counted(trees: list[ast.Module]) -> list[bool]:
    """Which texts are tests. A call in an assignment, as in set-up code, makes a test only where there is no other."""
    found = [_has_verdict(tree, (*_DEFINITIONS, *_ASSIGNMENTS)) for tree in trees]
    return found if any(found) else [_has_verdict(tree, _DEFINITIONS) for tree in trees]


def _has_verdict(tree: ast.Module, without: tuple[type[ast.AST], ...]) -> bool:
    """Whether an assert, a raise or, without a runner, a call runs in a text, outside of statements of some types."""
    # `main` of unittest or pytest would seek the tests in another module or file, and end the process.
    runners = set(_runners(tree))
    kinds = (ast.Assert, ast.Raise) if runners else (ast.Assert, ast.Raise, ast.Call)
    return "main" not in runners and any(isinstance(node, kinds) for node in _nodes(tree, without))


def _runners(tree: ast.Module) -> Iterator[str]:
    """Names of runners of tests that a text uses."""
    modules = {"unittest", "pytest"}
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from (alias.name for alias in node.names if alias.name in ("main", *_RUNNERS))
        elif isinstance(node, ast.Attribute) and node.attr == "main" and isinstance(node.value, ast.Name):
            yield from ("main" for _ in modules & {node.value.id})
        elif isinstance(node, ast.Attribute) and node.attr in _RUNNERS:
            yield node.attr


def _nodes(tree: ast.AST, without: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Nodes below a node, but no nodes of the types `without`, none that run only in the main file, no lost answers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and _is_true_or_false(node.value):
            continue
        if isinstance(node, ast.If) and "__name__" in _loaded(node.test):
            node = ast.Module(node.orelse, [])
        if not isinstance(node, without):
            yield node
            yield from _nodes(node, without)


def _is_true_or_false(value: ast.expr) -> bool:
    """Whether an expression, such as `f(1) == 2`, only says whether something holds."""
    if isinstance(value, ast.Call):
        return getattr(value.func, "id", getattr(value.func, "attr", None)) in _ANSWERS
    if isinstance(value, ast.BoolOp):  # not so in `f(1) == 2 or sys.exit(1)`
        return all(map(_is_true_or_false, value.values))
    return isinstance(value, ast.Compare) or isinstance(getattr(value, "op", None), ast.Not)


def _without_stubs(code: str) -> Any:
    """The code that the program continues, compiled, without statements that have a function for it to fill in."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):  # the head of a function, without a docstring
        tree = ast.Module([], [])
    tree.body = [statement for statement in tree.body if not any(_is_stub(node) for node in ast.walk(statement))]
    return compile(tree, "before.py", "exec")


def _is_stub(node: ast.AST) -> bool:
    """Whether a node is a function with nothing but a docstring, `pass` or `...`."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and all(
        isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in node.body
    )


def _names_of_program(link: Link, trees: list[ast.Module], known: set[str]) -> dict[str, Any]:
    """Values of the names that the tests use and do not define: modules that they do not call, else the program's."""
    # A built-in function is the program's only if it is the one name of the tests that the program defines, as for
    # `assert sum(10, 15) == 25`. Otherwise a program could redefine `abs` or `all` to pass.
    names = {name for tree in trees for name in _loaded(tree) if not name.startswith("__")} - known
    modules = {name for name in names & _MODULES.keys() if not any(_is_called(tree, name) for tree in trees)}
    found = {name: importlib.import_module(_MODULES[name]) for name in modules}
    own = names - modules
    is_builtin = {name for name in own if hasattr(builtins, name)}
    if given := _given(link, own - is_builtin):
        return found | given
    given = _given(link, is_builtin)
    return found | (given if len(given) == 1 else {})


def _given(link: Link, names: set[str]) -> dict[str, Any]:
    """Those of the names that the program defines. Other names in its reply are ignored, such as `__builtins__`."""
    given = link.ask("names", None, sorted(names))
    return {name: given[name] for name in names if name in given}


def _loaded(tree: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _is_called(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(tree)
    )


def _may_serve(operation: str, target: Any, arguments: tuple) -> bool:
    """Whether the program may do an operation on an object of the tests."""
    if target is None:
        return False
    if operation == "call":
        return callable(target)
    if operation in ("iter", "next"):
        return isinstance(target, Iterator)
    if type(target).__module__ != TESTS_MODULE:
        return False
    if operation in ("getattr", "setattr"):
        name = arguments[0]
        is_method = operation == "setattr" and callable(getattr(type(target), name, None))  # must stay the tests' own
        return isinstance(name, str) and not name.startswith("_") and not is_method
    return operation in ("eq", "hash", "str", "repr", "len", "bool")
