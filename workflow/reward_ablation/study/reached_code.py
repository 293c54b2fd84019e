"""The part of a Python file that one of its functions reaches: what decides the function's results.

`code_digest` asks for it of a user's reward, metric or method: an edit of another function of the file must not train
again. Left out are statements that can have no effect: they only bind names that the function does not reach. Where
code looks names up by text, the whole file counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator

#: Names of functions and modules, and of attributes, by which code reaches what it does not name.
_BY_TEXT = {
    *("globals", "locals", "vars", "dir", "eval", "exec", "compile", "__import__", "importlib", "import_module"),
    *("inspect", "sys", "modules", "builtins", "gc", "pickle", "runpy", "__builtins__", "__file__", "__name__"),
}
_ATTRIBUTES = {"__globals__", "__dict__", "__annotations__", "__module__", "import_module", "globals", "modules"}
#: Decorators of methods that change nothing but the method.
_OF_METHODS = {"staticmethod", "classmethod", "property"}
#: Nodes of type hints whose evaluation runs no code of the file's.
_HINTS = (ast.Name, ast.Constant, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple, ast.Attribute, ast.Load, ast.List)


def reached(tree: ast.Module, function: str) -> list[ast.stmt]:
    """Statements of a file that decide a function's results, in order; all where that cannot be known."""
    statements = [each for number, each in enumerate(tree.body) if number or not is_text(each)]
    statements = [each for each in statements if not _is_of_main(each)]
    pairs = [(statement, _bound(statement)) for statement in statements]
    named = {name for _, names in pairs for name in names or ()}
    if function not in named or "*" in named or "__getattr__" in named:
        return tree.body
    idle = _Idle(pairs)
    wanted, taken, before = {function}, set[int](), -1
    while len(taken) > before:
        before = len(taken)
        for number, (statement, names) in enumerate(pairs):
            if names is None or names & wanted or not idle(statement):
                taken.add(number)
                wanted |= _used(statement, named)
    chosen = [statements[number] for number in sorted(taken)]
    return tree.body if any(map(_looks_up_by_text, chosen)) else chosen


def _bound(statement: ast.stmt) -> set[str] | None:
    """Names that a top-level statement binds; None for a statement that does more than bind names."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        case ast.Assign(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return None


class _Idle:
    """Tells whether a statement only binds names: nothing else of the file can notice that it is there."""

    def __init__(self, pairs: list[tuple[ast.stmt, set[str] | None]]):
        own = {name for statement, names in pairs if not isinstance(statement, ast.Import) for name in names or ()}
        future = (each for each, _ in pairs if isinstance(each, ast.ImportFrom) and each.module == "__future__")
        self.hints_are_texts = any(alias.name == "annotations" for each in future for alias in each.names)
        modules = [names for each, names in pairs if isinstance(each, ast.Import)]
        self.has_re = {"re"} in modules and "re" not in own  # whether `re` is Python's module
        # Names that the file binds, but for imported modules. A hint such as `own[...]` may call code of the file.
        self.own = own

    def __call__(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return not statement.decorator_list and self._function(statement)
            case ast.ClassDef():
                bare = not (statement.bases or statement.keywords or statement.decorator_list)
                return bare and all(map(self._in_class, statement.body))
            case ast.ImportFrom(module="__future__"):
                return False
            case ast.ImportFrom(module=str() as module, level=0):
                return module.partition(".")[0] in sys.stdlib_module_names
            case ast.Import(names=names):
                return all(alias.name.partition(".")[0] in sys.stdlib_module_names for alias in names)
            case ast.Assign(value=value):
                return self._value(value, _is_name)
            case ast.AnnAssign(value=value):
                return self._hint(statement.annotation) and (value is None or self._value(value, _is_name))
        return False

    def _in_class(self, statement: ast.stmt) -> bool:
        """Whether a statement in a class only binds names."""
        match statement:
            case ast.Pass():
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names = {each.id if isinstance(each, ast.Name) else "" for each in statement.decorator_list}
                return names <= _OF_METHODS - self.own and self._function(statement)
            case ast.Assign(value=value):  # an object could learn its name in the class, by `__set_name__`
                return self._value(value, lambda node: False) and _bound(statement) is not None
            case ast.AnnAssign(value=value):
                return self._hint(statement.annotation) and (value is None or self._value(value, lambda node: False))
        return is_text(statement)

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        given = function.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        hints = [function.returns, *(each.annotation for each in arguments if each)]
        defaults = [*given.defaults, *given.kw_defaults]
        return all(hint is None or self._hint(hint) for hint in hints) and all(
            default is None or self._value(default, _is_name) for default in defaults
        )

    def _hint(self, hint: ast.expr) -> bool:
        if self.hints_are_texts:
            return True
        bases = [node.value for node in ast.walk(hint) if isinstance(node, ast.Subscript | ast.Attribute)]
        is_own = any(isinstance(base, ast.Name) and base.id in self.own for base in bases)
        return not is_own and all(isinstance(node, _HINTS) for node in ast.walk(hint))

    def _value(self, value: ast.expr, also: Callable[[ast.expr], bool]) -> bool:
        """Whether a value is a literal, a pattern of one, or made of these. `also` allows further values."""
        match value:
            case ast.Constant():
                return True
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(self._value(part, also) for part in parts)
            case ast.Set(elts=parts):
                return all(isinstance(part, ast.Constant) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return all(isinstance(key, ast.Constant) for key in keys) and all(
                    self._value(part, also) for part in values
                )
            case ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.BinOp(left=ast.Constant(), right=ast.Constant()):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile"), args=parts, keywords=[]):
                return self.has_re and all(isinstance(part, ast.Constant) or _is_flag(part) for part in parts)
        return also(value)


def _is_name(value: ast.expr) -> bool:
    return isinstance(value, ast.Name)


def _is_flag(value: ast.expr) -> bool:
    return isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "re"


def _looks_up_by_text(statement: ast.stmt) -> bool:
    """Whether a statement may reach names that it does not write."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name):
                found = {name} & (_BY_TEXT | _ATTRIBUTES)
            case ast.Attribute(attr=name):
                found = {name} & _ATTRIBUTES
            case ast.alias():
                found = {*node.name.split("."), node.asname or ""} & _BY_TEXT
            case ast.ImportFrom(module=str() as module):
                found = {*module.split(".")} & _BY_TEXT
            case _:
                continue
        if found:
            return True
    return False


def _used(statement: ast.stmt, named: set[str]) -> set[str]:
    """Top-level names that a statement uses, also within texts, as in type hints."""
    used: set[str] = set()
    for word in _words(statement):
        if word in named:
            used.add(word)
        elif word.startswith("__") and not word.endswith("__"):  # in a class it may mean _Class__word
            used |= {name for name in named if name.endswith(word)}
    return used


def _words(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)


def _is_of_main(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`, which no import runs."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    return ast.unparse(statement.test) == "__name__ == '__main__'"


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a text alone, such as a docstring."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        return False
    return isinstance(statement.value.value, str)
