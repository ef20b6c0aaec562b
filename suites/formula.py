"""A workload's function changed for another fuser: other modules, other constants, `out=`.

Every change keeps the formula: it says where results go, in which module a function is looked up,
or how a number is spelled.
"""

import ast
import dis
import importlib.util
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fuser.suites.runners import NotExpressibleError

Function = Callable[..., Any]
OUT = "_out"
NARROW = "_narrow"

UFUNC_OF: Mapping[type[ast.AST], str] = types.MappingProxyType({
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
    ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.Pow: "power",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift", ast.RShift: "right_shift", ast.USub: "negative",
    ast.Invert: "invert", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater",
    ast.GtE: "greater_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
})
TAKES_OUT = frozenset({"clip", "sum", "prod", "mean", "max", "min", "amax", "amin", "round"})
"""Functions of NumPy that are no ufuncs and write into `out=`."""


@dataclass(slots=True)
class Rebuilding:
    """How a function and the Python functions it calls are copied.

    `swap` gives what a global means in the copy, `change` edits the source of each function,
    `finish` is applied to each copy (a compiler's decorator).
    """

    swap: Callable[[Any], Any] = lambda value: value
    change: Callable[[], ast.NodeTransformer] | None = None
    finish: Callable[[Function], Function] = lambda function: function
    extra: Mapping[str, Any] = field(default_factory=dict)
    done: dict[int, Function] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)  # whose copies are being made

    def copy(self, function: Function, finish: Callable[[Function], Function]) -> Function:
        """Return the copy of one function, and of those it calls.

        Raises:
            NotExpressibleError: the source is needed and cannot be read.
        """
        plain = _plain(function)
        if id(plain) in self.done:
            return self.done[id(plain)]
        if id(plain) in self.open:
            raise NotExpressibleError(f"{plain.__name__} calls itself")
        self.open.add(id(plain))
        source = plain if self.change is None else _edited(plain, self.change(), self.extra)
        names = _names(source.__code__)
        known = {
            name: self._meaning(value)
            for name, value in source.__globals__.items()
            if name in names
        }
        known["__builtins__"] = source.__globals__.get("__builtins__", __builtins__)
        known["__name__"] = source.__globals__.get("__name__", __name__)
        cells = tuple(
            types.CellType(self._meaning(cell.cell_contents)) for cell in source.__closure__ or ()
        )
        copied = types.FunctionType(
            source.__code__, known, source.__name__, source.__defaults__, cells or None
        )
        self.done[id(plain)] = finish(copied)
        return self.done[id(plain)]

    def _meaning(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType) and not value.__module__.startswith("numpy"):
            return self.copy(value, self.finish)
        return self.swap(value)


def in_module(module: Any) -> Callable[[Any], Any]:
    """Return a `swap` that gives another library's module for NumPy, its function for a ufunc."""

    def swap(value: Any) -> Any:
        if isinstance(value, np.ufunc):
            return getattr(module, value.__name__, value)
        return module if value is np else value

    return swap


def module_text(function: Function) -> str:
    """Return the source of a function as a module of its own: no annotations, numbers written in.

    Raises:
        NotExpressibleError: it uses other things of its module than NumPy and numbers.
    """
    plain = _plain(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise NotExpressibleError(f"{plain.__name__} is not defined by `def`")
    definition.returns = None
    for argument in definition.args.args:
        argument.annotation = None
    lines = ["import numpy as np"]
    for name in sorted(_names(plain.__code__) & plain.__globals__.keys()):
        value = plain.__globals__[name]
        if isinstance(value, int | float):
            lines.append(f"{name} = {value!r}")
        elif value is not np:
            raise NotExpressibleError(f"{plain.__name__} uses {name} of its module")
    return "\n".join([*lines, ast.unparse(tree), ""])


def loaded(name: str, path: Path) -> types.ModuleType:
    """Return the module of a file, in Python or compiled."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _plain(function: Function) -> types.FunctionType:
    found = inspect.unwrap(function)
    if not isinstance(found, types.FunctionType):
        raise NotExpressibleError(f"{function!r} is no plain Python function")
    return found


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that a code object and those inside it use."""
    found = {
        each.argval for each in dis.get_instructions(code)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")  # attributes are names of a code object too
    }
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= _names(each)
    return found


def _edited(
    function: types.FunctionType, change: ast.NodeTransformer, extra: Mapping[str, Any]
) -> types.FunctionType:
    """Return the function compiled from its changed source."""
    if function.__closure__:
        raise NotExpressibleError(f"{function.__name__} uses variables of an outer function")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError) as error:
        raise NotExpressibleError(f"no source of {function.__name__}: {error}") from error
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise NotExpressibleError(f"{function.__name__} is not defined by `def`")
    definition.decorator_list = []
    definition.returns = None
    for argument in (*definition.args.args, *definition.args.kwonlyargs):
        argument.annotation = None
    changed = ast.fix_missing_locations(change.visit(tree))
    known = {**function.__globals__, **extra}
    exec(compile(changed, inspect.getfile(function), "exec"), known)  # our own workload's source
    made = known[function.__name__]
    assert isinstance(made, types.FunctionType)  # the tree holds one function definition
    return made


class NarrowNumbers(ast.NodeTransformer):
    """Spells the numbers of arithmetic as `_narrow(number)`; indices and exponents stay."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Leave indices as they are."""
        node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Change both operands, but not a whole-number exponent."""
        if _is_number(node.left) and _is_number(node.right):
            return _narrowed(node)
        whole = isinstance(node.right, ast.Constant) and isinstance(node.right.value, int)
        node.left = self._operand(node.left)
        if not (isinstance(node.op, ast.Pow) and whole):
            node.right = self._operand(node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Change what is compared."""
        node.left = self._operand(node.left)
        node.comparators = [self._operand(each) for each in node.comparators]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Change the arguments of the array module's functions."""
        if isinstance(node.func, ast.Attribute):
            node.args = [self._operand(each) for each in node.args]
        else:
            node.args = [self.visit(each) for each in node.args]
        return node

    def _operand(self, node: ast.expr) -> ast.expr:
        if _is_number(node):
            return _narrowed(node)
        found: ast.expr = self.visit(node)
        return found


def _is_number(node: ast.AST) -> bool:
    """Return whether an expression is a number by itself: 2, -1.5, 1 / 150, 2 * np.pi."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("pi", "e")
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and _is_number(node.operand)
    return isinstance(node, ast.BinOp) and _is_number(node.left) and _is_number(node.right)


def _narrowed(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(NARROW, ast.Load()), [node], [])


class WriteInto(ast.NodeTransformer):
    """Makes the last operation of every result write into an array of the last argument."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Add the argument, change the one return at the end."""
        node.args.args.append(ast.arg(OUT))
        last = node.body[-1]
        returns = [each for each in ast.walk(node) if isinstance(each, ast.Return)]
        if len(returns) != 1 or not isinstance(last, ast.Return) or last.value is None:
            raise NotExpressibleError("does not end in its only return")
        results = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        changed = [
            _into(each, ast.Subscript(ast.Name(OUT, ast.Load()), ast.Constant(index), ast.Load()))
            for index, each in enumerate(results)
        ]
        is_tuple = isinstance(last.value, ast.Tuple)
        last.value = ast.Tuple(changed, ast.Load()) if is_tuple else changed[0]
        return node


def _into(node: ast.expr, target: ast.expr) -> ast.expr:
    """Return a call of the last operation that writes into `target`."""
    if isinstance(node, ast.BinOp):
        return _ufunc(type(node.op), [node.left, node.right], target)
    if isinstance(node, ast.UnaryOp):
        return _ufunc(type(node.op), [node.operand], target)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _ufunc(type(node.ops[0]), [node.left, *node.comparators], target)
    if isinstance(node, ast.Call) and _takes_out(node):
        node.keywords.append(ast.keyword("out", target))
        return node
    raise NotExpressibleError(f"it ends in `{ast.unparse(node)}`, which takes no out=")


def _takes_out(node: ast.Call) -> bool:
    function = node.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    is_ufunc = isinstance(getattr(np, function.attr, None), np.ufunc)
    return function.value.id == "np" and (is_ufunc or function.attr in TAKES_OUT)


def _ufunc(operation: type[ast.AST], operands: list[ast.expr], target: ast.expr) -> ast.expr:
    if operation not in UFUNC_OF:
        raise NotExpressibleError(f"it ends in `{operation.__name__}`, which takes no out=")
    function = ast.Attribute(ast.Name("np", ast.Load()), UFUNC_OF[operation], ast.Load())
    return ast.Call(function, operands, [ast.keyword("out", target)])
