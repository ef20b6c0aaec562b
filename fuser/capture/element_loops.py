"""Loops over elements while tracing: a group of statements that becomes one call of its code.

`ElementLoop` is what a function's twin (`staging`) asks before such a group. It writes the group's
source again in terms of what its names stand for now: arrays and numbers of the trace are operands,
other numbers constants, functions of NumPy's, of `math` and Python's own go by their names, and
functions of the user's stand before it. What that source means is `fuser.element_loops`' to say;
where it says nothing, the statements are traced as they stand.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.errors import Unsupported
from fuser.base.records import record
from fuser.base.syntax_trees import Rewriter, copied, tree_nodes
from fuser.capture import element_staging, staging
from fuser.capture.element_staging import ElementSource
from fuser.element_loops.code import Array, Code
from fuser.element_loops.kinds import COMPLEX, DTYPES, NotTypedError
from fuser.element_loops.slices import SMALL
from fuser.element_loops.translate import (
    FUNCTIONS,
    ITEMS,
    LEFT,
    MADE,
    OWN,
    RESULT,
    RoomWantedError,
    translated,
)
from fuser.ir import opaque_calls
from fuser.ir.function_table import plain_function
from fuser.ir.graph import Node
from fuser.tracing import makers
from fuser.tracing.admitted_dtypes import runs_element_loops
from fuser.tracing.builtin_names import plain_builtin
from fuser.tracing.indices import length_of, symbolic_length
from fuser.tracing.late_lists import CountedList
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.reshapes import check_writable
from fuser.tracing.trace_state import LATER, Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: Names that the source of a loop has for something else.
_TAKEN = FUNCTIONS | {"numpy", "math", "host", "number_of_a_loop"}
#: Functions of NumPy's that are no ufuncs.
_OF_NUMPY = frozenset(
    "sum mean max min amax amin argmax argmin all any dot inner vdot where copy flip round around "
    "empty_like zeros_like ones_like full_like".split()
)
_UNBOUND = object()
#: Items that a list may have before a loop.
_FEW = 8
#: Items of a list: room besides those that loops tell, where none does, and at most by products.
_SLACK, _MANY, _MOST_ITEMS = 16, 1 << 14, 1 << 22


@record(frozen=False, slots=False, eq=False)
class _Operand:
    """An array or a number of the trace that the source names."""

    name: str
    kind: str
    value: Any


class ElementLoop:
    """One group of statements of a traced function, as its twin asks for it."""

    def __init__(self, tracing: Any, source: ElementSource, refused: set[Any]) -> None:
        """Prepare.

        Args:
            tracing: the trace.
            source: what the source says of the group.
            refused: groups that are none with what their names stood for; takes more.
        """
        self._tracing, self._source, self._refused = tracing, source, refused
        self._bound: dict[str, Any] = {}

    def taken(self) -> bool:
        """Whether the group has become part of the graph: then its statements do not run."""
        frame = sys._getframe(1)
        try:
            self._take(dict(frame.f_locals), frame.f_globals)
        except NotTypedError as reason:
            if self._source.alone:
                budget.note(f"{self._source.where}: {reason}")
            return False
        return True

    def binds(self, name: str) -> bool:
        """Whether a name is to be given another value."""
        return name in self._bound

    def value(self, name: str) -> Any:
        """That value."""
        return self._bound[name]

    def _take(self, env: dict[str, Any], names: Mapping[str, Any]) -> None:
        """Put the group into the graph.

        Raises:
            NotTypedError: it is not in the language, or its kinds are not known.
        """
        if not runs_element_loops():
            raise NotTypedError("the backend of the arrays runs no loops over single elements")
        if self._tracing.errors.ignored():
            raise NotTypedError("errors of floating point are silenced around it")
        found = {name: env[name] for name in sorted(self._source.needed) if name in env}
        kinds = (id(self._source), *((name, _kind(value)) for name, value in found.items()))
        if kinds in self._refused:  # in an iteration of a loop around it
            raise NotTypedError("it was none before")
        wanted = (RESULT,) if self._source.returns else self._source.wanted
        try:
            written = _Source(self._tracing, self._source, env, names)
            renamed = tuple(written.renamed(name) for name in wanted if name != RESULT)
            text = written.text
            asked = (RESULT,) if self._source.returns else renamed
            code, returned, asked = self._translated(text, written, asked)
        except NotTypedError:
            self._refused.add(kinds)
            raise
        if not code.arrays and not self._source.returns:
            raise NotTypedError("it reads no array")
        arrays = written.arrays
        if any(self._tracing.size(arrays[k].value.dims[axis]) > SMALL for k, axis in code.small):
            self._refused.add(kinds)
            raise NotTypedError("it multiplies matrices that are not small")
        numbers = [each for each in written.operands if not each.kind.endswith("]")]
        self._check_memory(code.arrays, arrays)
        nodes = self._call(text, asked, code, arrays, numbers)
        for known, operand in zip(code.arrays, arrays, strict=False):
            if known.written:
                self._tracing.note_write(operand.value.storage.argument)
                operand.value.storage.replace(nodes[known.name])
        for operand in arrays:
            self._tracing.note_read(operand.value.storage.looks_at)
        left = {
            each.name: self._left(nodes[each.name], each.kind) for each in code.results
        }
        whole = [operand.value for operand in arrays]
        if self._source.returns:
            self._bound[element_staging.RETURNED] = _built(returned, left, whole)
        else:
            self._bound = {
                name: _built(returned[own], left, whole)
                for name, own in zip(wanted, renamed, strict=True) if own in returned
            }  # fmt: skip
            self._bound |= {
                name: left[own] for name, own in zip(wanted, renamed, strict=True) if own in left
            }
            rooms = {each.name: each.value for each in arrays if each.name.startswith(LEFT)}
            self._bound |= {
                name: CountedList(rooms[f"{ITEMS}{own}"], left[f"{own} count"])
                for name, own in zip(wanted, renamed, strict=True) if f"{own} count" in left
            }  # fmt: skip
            self._bound |= {
                name: rooms[f"{LEFT}{own}"] for name, own in zip(wanted, renamed, strict=True)
                if f"{LEFT}{own}" in rooms
            }  # fmt: skip

    def _translated(
        self, text: str, written: _Source, asked: tuple[str, ...]
    ) -> tuple[Code, Any, tuple[str, ...]]:
        """The code of a group, and what is asked; adds operands for arrays that it leaves."""

        def translate() -> tuple[Code, Any]:
            pairs = tuple((each.name, each.kind) for each in written.operands)
            return translated(text, pairs, asked)

        try:
            return (*translate(), asked)
        except RoomWantedError as wanted:
            arrays = written.arrays
            asked = (*asked, *(f"{OWN}{name}" for name in written.own))
            for name, kind, within in wanted.rooms:
                lengths = tuple(arrays[array].value.dims[axis] for array, axis in within)
                dtype = np.dtype(kind.partition("[")[0])
                if not lengths:  # of a list
                    most = written.most_items(name.removeprefix(ITEMS))
                    lengths = (most if type(most) is int else length_of(most),)
                room = makers.unset(written.tracing, lengths, dtype)
                written.operands.append(_Operand(name, kind, room))
            written.operands.sort(key=lambda each: not each.kind.endswith("]"))
            return (*translate(), asked)

    def _left(self, node: Node, kind: str) -> Any:
        """A stand-in for a number that the loop leaves."""
        if kind.startswith("py"):
            return LateNumber(self._tracing, node, kind)
        return TracedArray.make(self._tracing, Storage(node), (), True)

    def _check_memory(self, known: Sequence[Array], operands: Sequence[_Operand]) -> None:
        """Refuse writes that another operand may have to see.

        Raises:
            NotTypedError: there may be one.
            Unsupported: an array of NumPy's own is written into.
        """
        written = [o.value for o, k in zip(operands, known, strict=False) if k.written]
        for value in written:
            if value.views or value.generic:
                raise NotTypedError("it writes into a view of an array")
            others = [o.value for o in operands if o.value.storage is value.storage]
            if len(others) > 1:
                raise NotTypedError("it writes into an array of which it reads a view")
            check_writable(self._tracing, value.storage)
            argument = value.storage.argument
            if argument is not None and self._tracing.arguments[argument].leaf is None:
                if not self._tracing.arrays:
                    found = "an array that the function makes, or reaches by a name"
                    raise Unsupported("write-into-constant", "loop", found, self._source.where)

    def _unset(self, value: TracedArray, known: Array, place: int) -> str | None:
        """The text of an array that is written into and has no values yet; None for any other."""
        like = value.storage.unset
        if like is None or not known.written:
            return None
        if isinstance(like, TracedArray):
            return f"unset(a{place}, {known.given[0]!r})" if like.node.op.is_input else None
        lengths = "".join(f"host({str(self._tracing.resolve(each))!r}), " for each in like)
        return f"unset(({lengths}), {known.given[0]!r})"

    def _call(
        self, text: str, wanted: Sequence[str], code: Code, arrays: Sequence[_Operand],
        numbers: Sequence[_Operand],
    ) -> dict[str, Node]:  # fmt: skip
        """The nodes of the call, by the names of what they are."""
        tracing = self._tracing
        operands: list[Node] = []
        listed = []
        for known, each in zip(code.operands, arrays, strict=True):
            unset = self._unset(each.value, known, len(operands))
            listed.append(f"{unset or f'a{len(operands)}'}, ")
            if unset is None:
                operands.append(each.value.node)
            elif isinstance(each.value.storage.unset, TracedArray):
                operands.append(each.value.storage.unset.node)
        given = []
        for each in numbers:
            if type(each.value) is HostScalar:
                given.append(f"host({each.value.text!r}), ")
            else:
                given.append(f"a{len(operands)}[()], ")
                operands.append(each.value.node)
        names = tuple(each.name for each in (*arrays, *numbers))
        kinds = tuple(each.kind for each in (*arrays, *numbers))
        spelled = (
            f"{opaque_calls.ELEMENT_LOOP}({text!r}, {names!r}, {kinds!r}, {tuple(wanted)!r}, "
            f"({''.join(listed)}), ({''.join(given)}))"
        )
        left: list[tuple[str, str, tuple[Any, ...], str]] = [
            (known.name, "", tuple(map(tracing.resolve, each.value.node.shape)), known.given[0])
            for known, each in zip(code.arrays, arrays, strict=False) if known.written
        ]  # fmt: skip
        left += [(each.name, "scalar ", (), each.dtype) for each in code.results]
        nodes = tracing.called(
            spelled, operands, self._source.where, [(*each[1:], LATER) for each in left]
        )
        return dict(zip((each[0] for each in left), nodes, strict=True))


def _built(returned: Any, left: Mapping[str, Any], arrays: Sequence[Any]) -> Any:
    """What `return` gives, of results and arrays."""
    if isinstance(returned, tuple):
        return tuple(_built(part, left, arrays) for part in returned)
    return arrays[returned] if isinstance(returned, int) else left[returned]


class _Source:
    """A group's source in terms of what its names stand for."""

    def __init__(
        self, tracing: Any, source: ElementSource, env: Mapping[str, Any],
        names: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Write it.

        Raises:
            NotTypedError: a name stands for what no element loop knows.
        """
        self.tracing, self.source, self.env = tracing, source, env
        self.operands: list[_Operand] = []
        self.lengths: dict[str, HostScalar] = {}  # numbers that may be those of axes
        self.first: list[str] = []
        self.functions: dict[int, str] = {}
        self.definitions: list[str] = []
        self._of_storage: dict[tuple[int, Any], str] = {}
        self._names: dict[str, str] = {}
        body = [copied(each) for each in source.body]
        loads = {p.id for p in tree_nodes(*body) if isinstance(p, ast.Name)}
        local = {name: env[name] for name in sorted(loads & source.needed) if name in env}
        scope = _Scope(self, set(source.assigned) | set(local), names)
        for name in local:
            self._given(name, local[name], name in source.assigned, scope)
        body = [scope.visit(each) for each in body]
        parts = [*self.definitions, *self.first]
        parts += [ast.unparse(ast.fix_missing_locations(each)) for each in body]
        self.text = "\n".join(parts)
        self.operands.sort(key=lambda each: not each.kind.endswith("]"))
        seen = [each.value.storage for each in self.arrays]
        self.own = [
            self.renamed(name) for name in sorted(source.own & set(local))
            if issubclass(type(local[name]), TracedArray) and not local[name].views
            and not local[name].storage.looks_at and seen.count(local[name].storage) == 1
        ]  # fmt: skip

    @property
    def arrays(self) -> list[_Operand]:
        """The operands that are arrays."""
        return [each for each in self.operands if each.kind.endswith("]")]

    def renamed(self, name: str) -> str:
        """What the source calls a variable."""
        found = self._names.get(name)
        if found is None:
            found = f"{name}_" if name in _TAKEN else name
            while found in self._names.values():
                found += "_"
            self._names[name] = found
        return found

    def _given(self, name: str, value: Any, assigned: bool, scope: _Scope) -> None:
        """What a variable stands for at the beginning."""
        known = self.renamed(name)
        if issubclass(type(value), TracedArray) and not value.generic:
            same = self._of_storage.setdefault((id(value.storage), value.views), known)
            if same != known:
                self.first.append(f"{known} = {same}")
            else:
                self.operands.append(_Operand(known, _kind_of_array(name, value), value))
        elif type(value) is np.ndarray:
            self._given(name, self.tracing.operand(value), assigned, scope)
        elif type(value) is list and name in self.source.lists and len(value) <= _FEW:
            parts = [self._part(f"{name}_{k}", part, scope) for k, part in enumerate(value)]
            self.first.append(f"{known} = [{', '.join(parts)}]")
        elif type(value) is tuple:
            parts = [self._part(f"{name}_{k}", part, scope) for k, part in enumerate(value)]
            self.first.append(f"{known} = ({''.join(f'{part}, ' for part in parts)})")
        elif (kind := _kind_of_number(value)) is not None:
            if type(value) is HostScalar and not assigned:
                self.lengths[known] = value
            self.operands.append(_Operand(known, kind, value))
        elif (text := _constant(value)) is not None:
            self.first.append(f"{known} = {text}")
        elif isinstance(value, (FunctionType, ModuleType)) or not assigned:
            scope.values[name] = value
        # Else it is assigned before it is read, or the source is refused.

    def most_items(self, known: str) -> Any:
        """How many items a list is to hold at most, by the loops around what appends to it.

        Where it gets longer than that, the kernel's run ends, and the plain function runs the call.
        """
        total: Any = _SLACK
        for loops in _loops_around(self.source.body, self._original(known)):
            counts = [_trips(loop, self.env) for loop in loops]
            product: Any = 1
            for count in (_SLACK if each is None else each for each in counts):
                if _hint(product) * _hint(count) <= _MOST_ITEMS:
                    product = product * count
            total = total + (product if any(each is not None for each in counts) else _MANY)
        return total

    def _original(self, known: str) -> str:
        """The function's name of a variable."""
        return next((name for name, own in self._names.items() if own == known), known)

    def _part(self, name: str, value: Any, scope: _Scope) -> str:
        """An item of a tuple or a list."""
        text = _constant(value)
        if text is None:
            self._given(name, value, True, scope)
            text = self.renamed(name)
        return text


def _loops_around(body: Sequence[ast.stmt], name: str) -> list[list[ast.stmt]]:
    """For each `append` to a list in statements, the loops around it, the outermost first."""
    found: list[list[ast.stmt]] = []
    for node in body:
        inside = [
            *getattr(node, "body", ()), *getattr(node, "orelse", ())
        ]  # fmt: skip
        if name not in element_staging.appended([node]):
            continue
        if not inside:
            found.append([])
            continue
        around = [node] if element_staging.has_loop(node) else []
        found += [[*around, *each] for each in _loops_around(inside, name)]
    return found


def _trips(loop: ast.stmt, env: Mapping[str, Any]) -> Any:
    """How often a loop runs at most: a number, or one of the trace; None where it does not say."""
    if not isinstance(loop, ast.For):
        return None
    over = loop.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name):
        args = over.args
        if over.func.id == "range":
            falls = len(args) == 3 and isinstance(args[2], ast.UnaryOp)
            count = _number_in(args[0] if falls or len(args) == 1 else args[1], env)
            return None if count is None else count + 1
        over = args[0] if args else over
    return _number_in(ast.Call(ast.Name("len", ast.Load()), [over], []), env)


def _number_in(node: ast.expr, env: Mapping[str, Any]) -> Any:
    """An integer that an expression of numbers and lengths gives at the most; None for others."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and node.value >= 0 else None
    if isinstance(node, ast.Name):
        value = env.get(node.id)
        is_int = type(value) is int or (type(value) is HostScalar and value.kind is int)
        return value if is_int else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _number_in(node.left, env), _number_in(node.right, env)
        if left is None or right is None:
            return None
        return left + right if isinstance(node.op, ast.Add) else left * right
    if isinstance(node, ast.BinOp):
        return _number_in(node.left, env) if isinstance(node.op, ast.Sub) else None
    axis: Any = 0
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        axis, node = node.slice.value, node.value
        if not isinstance(node, ast.Attribute) or node.attr != "shape":
            return None
        node = node.value
    elif isinstance(node, ast.Attribute) and node.attr == "size":
        node = node.value
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and len(node.args) == 1:
        node = node.args[0]
    else:
        return None
    found: Any = env.get(node.id) if isinstance(node, ast.Name) else None
    if issubclass(type(found), TracedArray) and type(axis) is int and axis < found.ndim:
        return found.shape[axis]
    return None


def _hint(number: Any) -> int:
    """An integer, in the traced call."""
    return int(number.hint if type(number) is HostScalar else number)


def _kind(value: Any) -> Any:
    """What a group's translation asks of a value: numbers that a loop counts are alike."""
    if issubclass(type(value), TracedArray):
        return value.dtype, value.ndim, value.generic
    if type(value) in (HostScalar, LateNumber):
        return type(value), value.kind
    if type(value) is list:
        return list, *map(_kind, value)
    return type(value) if issubclass(type(value), (int, float, np.generic)) else id(value)


def _kind_of_array(name: str, value: TracedArray) -> str:
    """The kind of an array.

    Raises:
        NotTypedError: element loops do not know its dtype.
    """
    if value.dtype.name not in DTYPES and value.dtype.name not in COMPLEX:
        raise NotTypedError(f"{name} is an array of {value.dtype}")
    return f"{value.dtype.name}[{value.ndim}]"


def _kind_of_number(value: Any) -> str | None:
    """The kind of a number of the trace; None for anything else."""
    if type(value) is HostScalar:
        return f"py{value.kind.__name__}"
    if type(value) is LateNumber:
        return value.kind
    if issubclass(type(value), TracedArray) and value.generic and value.dtype.name in DTYPES:
        return str(value.dtype.name)
    return None


def _constant(value: Any) -> str | None:
    """A number that is known as the source has it; None for anything else."""
    if type(value) in (bool, int):
        return repr(value)
    if type(value) is complex:
        return f"complex({_constant(value.real)}, {_constant(value.imag)})"
    if type(value) is float:
        if math.isfinite(value):
            return repr(value)
        return "numpy.nan" if value != value else "numpy.inf" if value > 0 else "-numpy.inf"
    if isinstance(value, np.generic) and value.dtype.name in DTYPES:
        text = _constant(value.item())
        return f"numpy.{value.dtype.name}({text})"
    return None


class _Scope(Rewriter, ast.NodeTransformer):
    """Writes the names of one function's code as a loop's source has them."""

    def __init__(
        self, source: _Source, own: set[str], names: Mapping[str, Any], cells: Any = None
    ) -> None:
        """Begin with names that are variables.

        Args:
            source: what it is for.
            own: the variables.
            names: global names.
            cells: what names of outer functions stand for.
        """
        self.source, self.own, self.names = source, own, names
        self.cells: Mapping[str, Any] = cells or {}
        self.values: dict[str, Any] = {}

    def found(self, node: ast.expr) -> Any:
        """What a name, or an attribute of a module, stands for; `_UNBOUND` for anything else."""
        if isinstance(node, ast.Attribute):
            base = self.found(node.value)
            if base is _UNBOUND or not _is_module(base):
                return _UNBOUND
            try:
                return getattr(base, node.attr)
            except AttributeError:
                return _UNBOUND
        if not isinstance(node, ast.Name):
            return _UNBOUND
        name = node.id
        if name in self.values:
            return self.values[name]
        if name in self.own:
            return _UNBOUND
        if name in self.cells:
            return self.cells[name]
        if name in self.names:
            return self.names[name]
        return getattr(builtins, name, _UNBOUND)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A variable, a constant, or a function."""
        value = self.found(node)
        if value is _UNBOUND:
            if node.id not in self.own:
                raise NotTypedError(f"{node.id} is not known")
            return ast.Name(self.source.renamed(node.id), node.ctx)
        return self._spelled(node.id, value)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """A call; where it makes an array, with the axes of operands that are as long."""
        made = ast.Call(
            self.visit(node.func), [*map(self.visit, node.args)], [*map(self.visit, node.keywords)],
            lineno=node.lineno,
        )  # fmt: skip
        if ast.unparse(made.func).removeprefix("numpy.") in MADE:
            made = _Lengths(self.source).visit(made)
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A function or number of a module, or an attribute of an array."""
        value = self.found(node)
        if value is _UNBOUND:
            return ast.Attribute(self.visit(node.value), node.attr, node.ctx)
        return self._spelled(ast.unparse(node), value)

    def _spelled(self, name: str, value: Any) -> ast.expr:
        """What stands for a value."""
        text = _constant(value)
        if text is None and type(value) is tuple:
            self.source._given(f"{name}_", value, False, self)
            text = self.source.renamed(f"{name}_")
        if text is None:
            text = _function(value)
        if text is None and type(value) is FunctionType:
            text = self._defined(value)
        is_array = issubclass(type(value), TracedArray) or type(value) is np.ndarray
        if text is None and (is_array or _kind_of_number(value) is not None):
            known = f"{name.replace('.', '_')}_"
            if known not in self.source._names:
                self.source._given(known, value, False, self)
            text = self.source.renamed(known)
        if text is None:
            raise NotTypedError(f"{name} is a {type(value).__name__}")
        return ast.parse(text, mode="eval").body

    def _defined(self, function: FunctionType) -> str:
        """The name of a function of the user's, whose source is put before the loop's."""
        known = self.source.functions.get(id(function))
        if known is not None:
            return known
        node = staging.definition(function.__code__)
        name = function.__name__
        if node is None or len(self.source.functions) > 16:
            raise NotTypedError(f"{name} has no source that is known to be its own")
        name = f"f{len(self.source.functions)}_{name}"
        self.source.functions[id(function)] = name
        body = [copied(each) for each in node.body]
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        if not all(map(element_staging.is_admitted, body)):
            raise NotTypedError(f"{name} does more than compute with numbers and elements")
        arguments = node.args
        if arguments.vararg or arguments.kwarg:
            raise NotTypedError(f"{name} takes any number of arguments")
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        own = {arg.arg for arg in every}
        own |= {p.id for p in tree_nodes(*body)
                if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}  # fmt: skip
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        cells = {each: cell.cell_contents for each, cell in closure}
        scope = _Scope(self.source, own, function.__globals__, cells)
        made = copied(arguments)
        for arg in (*made.posonlyargs, *made.args, *made.kwonlyargs):
            arg.annotation = None
            arg.arg = self.source.renamed(arg.arg)
        made.defaults = [_literal(name, value) for value in function.__defaults__ or ()]
        named = function.__kwdefaults__ or {}
        made.kw_defaults = [
            _literal(name, named[arg.arg]) if arg.arg in named else None
            for arg in arguments.kwonlyargs
        ]
        body = [scope.visit(each) for each in body] or [ast.Pass()]
        whole = ast.FunctionDef(name, made, body, [])
        self.source.definitions.append(ast.unparse(ast.fix_missing_locations(whole)))
        return name

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """An argument by its name."""
        assert node.arg is not None
        return ast.keyword(self.source.renamed(node.arg), self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """An assignment, whose annotation says nothing here."""
        if node.value is None:
            return ast.Pass()
        return ast.Assign([self.visit(node.target)], self.visit(node.value))

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """A `raise`: what is raised, the plain function says."""
        return ast.Raise(None, None)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """An `assert`, without its message."""
        return ast.Assert(self.visit(node.test), None)


class _Lengths(Rewriter, ast.NodeTransformer):
    """Writes numbers that are lengths of operands as such."""

    def __init__(self, source: _Source) -> None:
        """Begin with what the numbers and arrays of a source are."""
        self.source = source

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A number's name."""
        value = self.source.lengths.get(node.id)
        length = None if value is None else symbolic_length(value)
        for each in self.source.arrays if length is not None else ():
            for axis, dim in enumerate(each.value.dims):
                if self.source.tracing.resolve(dim) == self.source.tracing.resolve(length):
                    return ast.parse(f"{each.name}.shape[{axis}]", mode="eval").body
        return node


def _literal(name: str, value: Any) -> ast.expr:
    """The default of an argument.

    Raises:
        NotTypedError: it is no number.
    """
    text = _constant(value)
    if text is None:
        raise NotTypedError(f"{name} has a default that is no number")
    return ast.parse(text, mode="eval").body


def _is_module(value: Any) -> bool:
    """Whether a value is a module, or what a trace has in the place of one."""
    return isinstance(value, ModuleType) or type(value).__name__ in ("_Module", "_UserModule")


def _function(value: Any) -> str | None:
    """The source's name of a function of Python's, of `math` or of NumPy's; None for others."""
    value = plain_builtin(plain_function(value))
    if type(value) is partial:  # an array maker of the trace's
        maker = value.args[-1] if value.func is makers.stand_in else value
        found = [each for each in MADE if makers.MAKERS.get(each) is getattr(maker, "func", 0)]
        return f"numpy.{found[0]}" if found else None
    name = getattr(value, "__name__", None)
    if type(name) is not str:
        return None
    if name in FUNCTIONS and getattr(builtins, name) is value:
        return name
    if isinstance(value, np.ufunc) and getattr(np, name, None) is value:
        return f"numpy.{name}"
    if isinstance(value, type) and issubclass(value, np.generic):
        known = np.dtype(value).name if value is not np.generic else ""
        return f"numpy.{known}" if known in DTYPES else None
    if name in _OF_NUMPY and getattr(np, name, None) is value:
        return f"numpy.{name}"
    return f"math.{name}" if getattr(math, name, None) is value else None
