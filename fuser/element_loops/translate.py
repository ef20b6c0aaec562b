"""From the source of an element loop, and the kinds of what it finds, to its code.

The source is a part of Python: assignments to names and elements, `if`, `for` over ranges and
arrays, `while`, `break`, `continue`, `return` in functions that are called, and expressions of
numbers. It is read twice or more where a loop changes the kind of a variable: until the kinds at
its beginning are those that any iteration leaves.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from fuser.base.caches import memo
from fuser.base.records import changed, record
from fuser.base.syntax_trees import tree_nodes
from fuser.element_loops import complex_numbers, kinds, operators, slices
from fuser.element_loops.bounds import versioned
from fuser.element_loops.code import (
    Apart,
    Array,
    Block,
    Check,
    Code,
    Constant,
    Expression,
    For,
    Fresh,
    Get,
    If,
    Leave,
    Length,
    Load,
    Operation,
    Point,
    Repeat,
    Set,
    Statement,
    Variable,
    may_end_in,
)
from fuser.element_loops.complex_numbers import Complex, Number
from fuser.element_loops.kinds import (
    COMPLEX,
    DTYPES,
    GIVEN,
    PYTHON,
    NotTypedError,
    Type,
    representation,
)
from fuser.element_loops.operators import FALSE, TRUE, Value
from fuser.element_loops.slices import Index, Lanes, Slice, Span
from fuser.element_loops.transposing import transposed
from fuser.ir.ops import COMPARISONS, OPERATORS

#: Names of the source that stand for functions.
FUNCTIONS = frozenset(
    "range len min max abs int float bool complex round enumerate zip reversed".split()
)
MODULES = frozenset(("numpy", "math"))
#: The name of the function whose body is the region, where it may return.
RESULT = "return"
#: Reductions of arrays.
_REDUCED = frozenset("sum mean max min amax amin argmax argmin all any copy".split())
#: Functions of NumPy's that make arrays.
MADE = frozenset("empty zeros ones full empty_like zeros_like ones_like full_like".split())
#: What names of operands begin with that take arrays which names stand for at the end; and those of
#: names whose arrays have no other name.
LEFT, OWN = "left ", "own "
#: And those of operands that take the items of lists.
ITEMS = f"{LEFT}items "
#: Calls of functions within each other, at most; and looks at one loop.
_DEPTH, _LOOKS = 8, 12
#: Numbers that are written down, over which a loop may go.
_UNROLLED = 16
#: Expressions that are translated, at most.
_MOST = 40_000

_OPPOSITE = {
    "less": "greater_equal", "less_equal": "greater", "equal": "not_equal",
    "not_equal": "equal", "greater": "less_equal", "greater_equal": "less",
}  # fmt: skip
_UNARY = {ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"}


class RoomWantedError(NotTypedError):
    """Arrays are left that need operands to be left in.

    Attributes:
        rooms: the name of each operand, its kind, and for each of its axes an operand and an axis
            of it that are as long.
    """

    def __init__(self, rooms: Sequence[tuple[str, str, tuple[tuple[int, int], ...]]]) -> None:
        super().__init__("it leaves other arrays in the place of those that it finds")
        self.rooms = rooms


@record
class Bound:
    """What a variable holds: a number; `sure`: on every way to here; `length`: it is that."""

    type: Type
    sure: bool = True
    length: Length | None = None


@record
class BoundPair:
    """What a variable holds: a complex number; its parts are variables of their own."""

    dtype: str


@record
class BoundTuple:
    """What a variable holds: a tuple; its items are variables of their own."""

    count: int


@record
class Parts:
    """A tuple of what expressions give."""

    items: tuple[Any, ...]


@record
class BoundList:
    """What a variable holds: a list of numbers; how many there are is a variable of its own."""

    name: str
    kinds: frozenset[str]


Binding: TypeAlias = Bound | BoundPair | BoundTuple | BoundList | Slice
Environment = dict[str, Binding]
Statements = list[Any]


@memo(256)
def translated(
    source: str, bindings: tuple[tuple[str, str], ...], wanted: tuple[str, ...]
) -> tuple[Code, Any]:
    """The code of an element loop.

    Args:
        source: functions that it calls, then its statements.
        bindings: the names that it finds, each with `float64[2]` for an array of two axes, or the
            kind of a number.
        wanted: names whose numbers are results; `return` for what its `return` gives; `own x` for
            an array that nothing but the name `x` knows.

    Returns:
        The code, and what `return` gives: a name of a result, an array's number, or a tuple of
        these.

    Raises:
        NotTypedError: the source is not in the language, or its kinds are not known.
        RoomWantedError: it lacks operands for arrays.
    """
    try:
        tree = ast.parse(source)
        return _Translator(bindings).code(tree, wanted)
    except RecursionError:
        raise NotTypedError("it is nested too deeply") from None


class _Translator:
    """Translates one element loop."""

    def __init__(self, bindings: Sequence[tuple[str, str]]) -> None:
        """Begin with what the loop finds."""
        self.arrays: list[Array] = []
        self._operands_count = sum(kind.endswith("]") for _, kind in bindings)
        self.numbers: list[Variable] = []
        self.functions: dict[str, ast.FunctionDef] = {}
        self.env: Environment | None = {}
        self.out: Statements = []
        self.prefix = ""
        self.written: set[int] = set()
        self._labels = 0
        self._temporaries = 0
        self._edges: dict[int, list[tuple[Statements, Environment]]] = {}
        self._loops: list[tuple[int, int]] = []  # labels of `break` and `continue`
        self._returns: list[tuple[int, str]] = []
        self._calls: dict[tuple[str, int], str] = {}
        self._set: set[str] = set()  # names of variables that any statement binds
        self._leaves: list[Variable] = []
        self._heads: dict[tuple[str, int], Environment] = {}
        self._read = 0
        self._count = self._depth = self._deepest = 0
        self._seen: set[int] = set()
        self._scratch: dict[Any, int] = {}
        self.products: list[tuple[int, int]] = []
        self._given: set[str] = set()
        self.of_index = self.of_arrays = self.of_planes = self._of_elements = False
        self._chosen: dict[str, int] = {}  # arrays that are chosen, by the names they are for
        self._held: dict[int, set[int]] = {}  # what they may stand for
        self._sites: dict[tuple[str, int], int] = {}
        self._rooms: dict[tuple[int, int], int] = {}
        self._left: dict[str, int] = {}
        self._own: frozenset[str] = frozenset()
        self._leaving: list[int] = []
        self._listed: dict[str, frozenset[str]] = {}  # kinds of the items of lists
        self._asked: set[str] = set()  # those whose items are read
        self._wants: list[tuple[str, str, tuple[tuple[int, int], ...]]] = []
        for name, kind in bindings:
            if kind.endswith("]"):
                dtype, _, rank = kind[:-1].partition("[")
                if dtype not in DTYPES and dtype not in COMPLEX:
                    raise NotTypedError(f"{name} is an array of {dtype}")
                pairs, axes = dtype in COMPLEX, int(rank) + (dtype in COMPLEX)
                kind_of_parts = COMPLEX.get(dtype, dtype)
                self.arrays.append(Array(name, kind_of_parts, axes, False, pairs=pairs))
                if name.startswith(LEFT):
                    self._left[name] = len(self.arrays) - 1
                    continue
                self.env[name] = slices.whole(self, len(self.arrays) - 1)
                continue
            if kinds.dtype_of(kind) not in DTYPES:
                raise NotTypedError(f"{name} is of dtype {kind}")
            given = kinds.of(kind, -GIVEN, GIVEN) if kind == "pyint" else kinds.of(kind)
            slot = f"{name}.{given.dtype}"
            self.env[name] = Bound(given)
            self._given.add(slot)
            self.numbers.append(Variable(name, slot, given.dtype, kind))

    def code(self, tree: ast.Module, wanted: Sequence[str]) -> tuple[Code, Any]:
        """The whole."""
        body = []
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            else:
                body.append(node)
        self._own = frozenset(each.removeprefix(OWN) for each in wanted if each.startswith(OWN))
        wanted = [each for each in wanted if not each.startswith(OWN)]
        returned: Any = {}
        if RESULT in wanted:
            given = self._function_body(body, "")
            wanted = [name for name in wanted if name != RESULT]
            returned = self._leaf(given)
        else:
            self.block(body)
        results = list(self._results(wanted, returned)) + self._leaves
        self._wants += [
            (name, f"{_dtype_of_items(found)}[1]", ()) for name, found in self._listed.items()
            if self._left[name] >= self._operands_count
        ]  # fmt: skip
        if any(len(self._listed.get(name, ())) > 1 for name in self._asked):
            raise NotTypedError("an item of a list of several kinds")
        if self._wants:
            raise RoomWantedError(self._wants)
        if self.of_arrays and not self.of_index:
            raise NotTypedError("it computes with whole arrays")
        if self.of_planes and self._count == 1 and not self._of_elements:
            raise NotTypedError("it computes planes, as kernels do that threads share")
        for array in tuple(self.written):
            self.written |= self._stands_for(array)
        count = self._operands_count
        self.written = {array for array in self.written if array < count}
        if not results and not self.written:  # something that a graph can have
            results.append(self._result("done", operators.constant(True)))
        arrays = tuple(
            a if a.within else changed(a, written=k in self.written)
            for k, a in enumerate(self.arrays)
        )
        plain = _frozen(self.out)
        body_code, sure = self._with_bounds(plain)
        if not any(array.chosen for array in arrays):
            body_code, arrays = _transposed(body_code, plain, arrays)
        numbers, loops = tuple(self.numbers), (self._count, self._deepest)
        small = tuple(dict.fromkeys(self._within(*each) for each in self.products))
        code = Code(arrays, numbers, tuple(results), body_code, plain, loops, sure, small)
        return code, returned

    def _with_bounds(
        self, body: tuple[Statement, ...]
    ) -> tuple[tuple[Statement, ...], Expression]:
        """Statements that look at few indices, and when none of their runs ends early."""
        if not may_end_in(body):
            return body, TRUE
        given = {number.slot for number in self.numbers if number.kind == "pyint"}
        return versioned(body, given, self.arrays)

    def _leaf(self, value: Any) -> Any:
        """What `return` gives, or a name holds, as names of results; notes the results."""
        if isinstance(value, Parts):
            return tuple(map(self._leaf, value.items))
        if isinstance(value, Slice) and value == slices.whole(self, value.array):
            if not self.arrays[value.array].within:
                return value.array
            if self.arrays[value.array].chosen:
                return self._leave(f"{RESULT} {len(self._left) + len(self._wants)}", value)
        if not isinstance(value, Value):
            raise NotTypedError("it leaves what is neither a number nor a whole array")
        name = f"{RESULT} {len(self._leaves)}"
        self._leaves.append(self._result(name, value))
        return name

    def _results(self, wanted: Sequence[str], tuples: dict[str, Any]) -> Iterator[Variable]:
        """Results by name; what no way binds is none; `tuples` takes those that are tuples."""
        for name in wanted:
            if self.env is None:
                raise NotTypedError("it never ends")
            found = self.env.get(name)
            if isinstance(found, Bound):
                yield self._result(name, self.read(name))
            elif isinstance(found, BoundTuple):
                tuples[name] = self._leaf(self.read(name))
            elif isinstance(found, BoundList):
                count = self.read(f"{name} count")
                if len({kinds.dtype_of(kind) for kind in found.kinds}) > 1:
                    none = operators.compare("equal", count, operators.constant(0)).code
                    self.check(operators.either(none, self.read(f"{name} widest").code))
                yield self._result(f"{name} count", count)
            elif found is None and name in self._set:
                raise NotTypedError(f"{name} stands for an array or a tuple on some ways alone")
            elif found is not None and not self._is_itself(name, found):
                self._leave(name, found)

    # -- names that come to stand for other arrays --------------------------------------------

    def may_be_one(self, array: int, other: int) -> bool:
        """Whether two arrays may be one when the loop runs."""
        return self.arrays[array].chosen or self.arrays[other].chosen

    def _stands_for(self, array: int) -> set[int]:
        """The arrays that an array may stand for."""
        found: set[int] = set()
        waiting = [array]
        while waiting:
            for each in self._held.get(waiting.pop(), ()):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found

    def _chosen_for(self, name: str, like: int) -> int:
        """The array that a name stands for where only the run tells which."""
        known = self.arrays[like]
        if known.pairs:
            raise NotTypedError(f"{name.rpartition('/')[2]} stands for complex arrays")
        within = tuple(self._within(like, axis) for axis in range(known.rank))
        return self._chosen_as(name, known.dtype, within)

    def _chosen_as(self, name: str, dtype: str, within: tuple[tuple[int, int], ...]) -> int:
        """Likewise, an array of a dtype whose axes are as long as some of operands."""
        if name not in self._chosen:
            self._chosen[name] = len(self.arrays)
            title = f"chosen {len(self.arrays)}"
            self.arrays.append(Array(title, dtype, len(within), True, within, True))
            self._held[self._chosen[name]] = set()
        own = self.arrays[self._chosen[name]]
        if not within or (own.dtype, own.rank) != (dtype, len(within)):
            raise NotTypedError(f"{name.rpartition('/')[2]} stands for arrays of several kinds")
        return self._chosen[name]

    def _point(self, code: Statements, place: int, source: int) -> None:
        """Have an array that is chosen stand for another one; the run ends where that is longer."""
        if place == source:
            return
        for axis in range(self.arrays[place].rank):
            lengths = Length(*self._within(place, axis)), Length(*self._within(source, axis))
            if lengths[0] != lengths[1]:
                code.append(Check(Operation("equal", "bool", lengths)))
        code.append(Point(place, source))
        self._held[place].add(source)

    def _moved(self, name: str, value: Slice) -> Slice:
        """What a name is to stand for, of which later assignments to other names change nothing."""
        if not self.arrays[value.array].chosen:
            return value
        place = self._chosen_for(name, value.array)
        self._point(self.out, place, value.array)
        if value == slices.whole(self, value.array):
            return slices.whole(self, place)
        return Slice(place, value.axes)

    def _either(self, name: str, one: Slice, other: Slice) -> Slice:
        """What a name stands for where ways meet on which it stands for several arrays."""
        for each in (one, other):
            known = self.arrays[each.array]
            is_room = each.array in self._rooms.values()
            if each != slices.whole(self, each.array) or (
                known.within and not known.chosen and not is_room
            ):
                raise NotTypedError(f"{name.rpartition('/')[2]} stands for several arrays")
            self._chosen_for(name, each.array)
        return slices.whole(self, self._chosen[name])

    def _fresh(
        self, key: tuple[str, int], dtype: str, within: tuple[tuple[int, int], ...]
    ) -> Slice:
        """`np.empty_like(x)`, `np.zeros(n)`: memory that no name knows."""
        site = self._sites.setdefault(key, len(self._sites))
        place = self._chosen_as(f"made {site}/", dtype, within)
        known = self.arrays[place]
        held = tuple(each for each in self._chosen.values() if each != place)
        for number in range(len(held) + 1):
            if (site, number) not in self._rooms:
                self._rooms[site, number] = len(self.arrays)
                title = f"room {len(self.arrays)}"
                self.arrays.append(Array(title, known.dtype, known.rank, True, known.within))
        rooms = tuple(self._rooms[site, number] for number in range(len(held) + 1))
        self._held[place].update(rooms)
        for axis in range(known.rank):
            lengths = Length(*self._within(place, axis)), Length(*within[axis])
            if lengths[0] != lengths[1]:
                self.check(Operation("equal", "bool", lengths))
        self.out.append(Fresh(place, rooms, held))
        return slices.whole(self, place)

    def _made(self, node: ast.Call, name: str) -> Slice:
        """`np.zeros_like(x)`, `np.full((n, m), 1.0)` and the like, as long as axes of operands."""
        args, options = list(node.args), {pair.arg: pair.value for pair in node.keywords}
        order = ("shape", "fill_value", "dtype") if name.startswith("full") else ("shape", "dtype")
        options |= dict(zip(order, args, strict=False))
        if not options.keys() <= set(order) or "shape" not in options or len(args) > len(order):
            raise NotTypedError(f"line {node.lineno}: np.{name} of other arguments")
        like = self.expression(options["shape"])
        value = operators.constant(1 if name.startswith("ones") else 0)
        if "fill_value" in options:
            value = self.temporary(self.number(self.expression(options["fill_value"])))
        dtype = "float64" if name != "full" else kinds.dtype_of(min(value.type.kinds))
        if name.endswith("_like"):
            if not isinstance(like, Slice) or like != slices.whole(self, like.array):
                raise NotTypedError(f"np.{name} of a part of an array")
            known = self.arrays[like.array]
            dtype = "" if known.pairs else known.dtype
            within = tuple(self._within(like.array, axis) for axis in range(known.rank))
        else:
            lengths = self._kept(like).items if isinstance(like, Parts) else (like,)
            within = tuple(self._axis_of(node, self.number(each)) for each in lengths)
        if "dtype" in options:
            dtype = self._dtype_named(options["dtype"])
        if dtype not in DTYPES or len(value.type.kinds) > 1:
            raise NotTypedError(f"line {node.lineno}: np.{name} of another dtype")
        key = (self.prefix, id(node))
        found = self._fresh(key, dtype, within)
        if not name.startswith("empty"):
            slices.assign(self, key, found, value)
        return found

    def _axis_of(self, node: ast.expr, length: Value) -> tuple[int, int]:
        """An operand's axis that is as long as a number says."""
        if not isinstance(length.code, Length):
            raise NotTypedError(f"line {node.lineno}: an array as long as no other one")
        return self._within(length.code.array, length.code.axis)

    def _dtype_named(self, node: ast.expr) -> str:
        """The dtype that an argument names; "" for one that is not known."""
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            like = self.expression(node.value)
            return self._dtype_of(like) if isinstance(like, Slice) else ""
        text = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
        text = str(text).removeprefix("numpy.")
        return {"float": "float64", "int": "int64"}.get(text, text)

    def _leave(self, name: str, found: Any) -> int:
        """Copy the array of a name into the operand that returns it; gives that operand's number.

        Where it is one that the function may know by another name, the run ends.
        """
        if not isinstance(found, Slice) or not self.arrays[found.array].chosen:
            raise NotTypedError(f"{name} is no number after the loop")
        known, may_be = self.arrays[found.array], self._stands_for(found.array)
        others = [array for array in may_be if array < self._operands_count
                  and self.arrays[array].name not in self._own]  # fmt: skip
        if found != slices.whole(self, found.array):
            raise NotTypedError(f"{name} stands for a part of an array after the loop")
        key = f"{LEFT}{name}"
        place = self._left.get(key, -1)
        if place < 0:
            self._wants.append((key, f"{known.dtype}[{known.rank}]", known.within))
            return place
        if others and not may_be & set(self._rooms.values()):
            raise NotTypedError(f"{name} stands for another array after the loop")
        for other in sorted(others):
            self.out.append(Apart(found.array, other))
        for other in self._leaving:
            self.out.append(Apart(found.array, other))
        self._leaving.append(found.array)
        for axis in range(known.rank):
            lengths = Length(place, axis), Length(*known.within[axis])
            self.check(Operation("equal", "bool", lengths))
        self.written.add(place)
        lanes = slices.lanes_of(self, found)

        def copy(indices: tuple[Expression, ...]) -> None:
            slices.store(self, slices.whole(self, place), indices, lanes.element(indices))

        slices.for_each(self, lanes.lengths, copy)
        return place

    def _is_itself(self, name: str, found: Any) -> bool:
        """Whether a name stands for the array that it stood for."""
        if not isinstance(found, Slice) or found != slices.whole(self, found.array):
            return False
        return self.arrays[found.array].name == name

    def _result(self, name: str, value: Value) -> Variable:
        """One result."""
        scalars = value.type.kinds - PYTHON.keys()
        if value.type.is_either:
            self.check(value.numpy)
        elif len(value.type.kinds) > 1:
            raise NotTypedError(f"{name} becomes {' or '.join(sorted(value.type.kinds))}")
        (kind,) = scalars or value.type.kinds
        slot = f"result {name}"
        self.out.append(Set(slot, value.code))
        return Variable(name, slot, value.type.dtype, kind)

    # -- what slices ask for ------------------------------------------------------------------

    def count(self, length: Expression, body: Callable[[Expression], None]) -> None:
        """Append a loop over 0, 1 … below a length."""
        slot = self._slot()
        with self._into() as code:
            body(Get(slot, "int64"))
        self.out.append(("for", slot, Constant("int64", 0), length, 1, code))

    def choose(
        self, test: Expression, then: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Append two ways on, of which neither changes a variable of the source."""
        codes: list[Statements] = []
        for way in (then, other):
            with self._into() as code:
                way()
            codes.append(code)
        self.out.append(("if", test, *codes))

    def scratch(self, key: Any, dtype: str, within: tuple[tuple[int, int], ...]) -> int:
        """An array for what is computed, as long as axes of others."""
        lengths = tuple(self._within(*pair) for pair in within)
        key, pairs = (*key, dtype, lengths), dtype in COMPLEX
        if pairs:
            two = ((k, a.rank - 1) for k, a in enumerate(self.arrays) if a.pairs and not a.within)
            if (last := next(two, None)) is None:
                raise NotTypedError("complex numbers that are computed of real arrays alone")
            lengths = *lengths, last
        if key not in self._scratch:
            self._scratch[key] = len(self.arrays)
            name, dtype = f"scratch {len(self.arrays)}", COMPLEX.get(dtype, dtype)
            self.arrays.append(Array(name, dtype, len(lengths), True, lengths, pairs=pairs))
        return self._scratch[key]

    def _within(self, array: int, axis: int) -> tuple[int, int]:
        """An operand's axis that is as long as that of an array."""
        known = self.arrays[array].within
        return known[axis] if known else (array, axis)

    def variable(self) -> str:
        """A new variable."""
        return self._slot()

    def set_variable(self, slot: str, value: Expression) -> None:
        """Give it a value."""
        self.out.append(Set(slot, value))

    # -- statements ---------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements, up to one that nothing comes after."""
        for node in body:
            if self.env is None:
                return
            self._count_look()
            method = getattr(self, f"_do_{type(node).__name__}", None)
            if method is None:
                raise NotTypedError(f"line {node.lineno}: {type(node).__name__}")
            method(node)

    def _count_look(self) -> None:
        """Stop where a source takes too long."""
        self._read += 1
        if self._read > _MOST:
            raise NotTypedError("its loops are nested too deeply")

    def check(self, test: Expression) -> None:
        """End the run unless something holds."""
        if test != TRUE:
            self.out.append(Check(test))

    def _do_Pass(self, node: ast.Pass) -> None:  # noqa: N802 - by the nodes' names
        """Nothing."""

    def _do_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        """A call for its effect."""
        if not isinstance(node.value, ast.Constant):
            self.expression(node.value, may_be_none=True)

    def _do_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        """`x = …`, `a[i] = …`, `x, y = …`."""
        if self._makes_lists(node):
            return
        named = any(isinstance(target, ast.Name) for target in node.targets)
        if named and isinstance(node.value, ast.Attribute) and node.value.attr == "T":
            raise NotTypedError(f"line {node.lineno}: a name of a transposed array")
        if isinstance(node.value, ast.List) and not any(
            isinstance(target, ast.Name) for target in node.targets
        ):
            value: Any = self._of_Tuple(node.value)
        else:
            value = self.expression(node.value)
        several = len(node.targets) > 1
        if isinstance(value, Lanes) and (several or isinstance(node.targets[0], ast.Name)):
            value = slices.kept(self, (self.prefix, id(node)), value)
        elif isinstance(value, Parts) or several:
            value = self._kept(value)
        for target in node.targets:
            self._assign(target, value)

    def _kept(self, value: Any) -> Any:
        """A value that later assignments do not change."""
        if isinstance(value, Parts):
            return Parts(tuple(map(self._kept, value.items)))
        if isinstance(value, Lanes):
            raise NotTypedError("arrays in a tuple")
        if isinstance(value, Slice) and (value.spans or self._is_array(value)):
            return self._moved(f"{self._slot()}/", value)
        if isinstance(value, Slice):
            value = self.scalar(value)
        return self.settled(value) if isinstance(value, Value | Complex) else value

    def _do_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        """`x += …`, `a[i] += …`."""
        name = OPERATORS.get(type(node.op))
        if name is None:
            raise NotTypedError(f"line {node.lineno}: an operator")
        if isinstance(node.target, ast.Name):
            place = self.read(self.prefix + node.target.id)
        elif isinstance(node.target, ast.Subscript):
            place = self._place(node.target)
        else:
            raise NotTypedError(f"line {node.lineno}: an assignment to an attribute")
        if isinstance(place, Value | Complex):
            assert isinstance(node.target, ast.Name)
            found = self._binary(name, place, self.expression(node.value))
            self.set(self.prefix + node.target.id, self.scalar(found))
            return
        if not isinstance(place, Slice):
            raise NotTypedError(f"line {node.lineno}: an operation in place on a tuple")
        if place.spans:
            place = slices.checked_once(self, place)
            old: Any = slices.lanes_of(self, place)
            made = self._binary(name, old, self.expression(node.value))
            slices.assign(self, (self.prefix, id(node)), place, made, same_kind=True)
            return
        place = Slice(place.array, tuple(
            Index(self.temporary(operators.python(axis.place)).code, axis.sure)
            for axis in place.axes if isinstance(axis, Index)
        ))  # fmt: skip
        value = self._binary(name, self.scalar(place), self.expression(node.value))
        self._store(place, self.scalar(value))

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        """`x: float = …`."""
        if node.value is not None:
            self._assign(node.target, self.expression(node.value))

    def _assign(self, target: ast.expr, value: Any) -> None:
        """Give a target a value."""
        if isinstance(target, ast.Name):
            self.set(self.prefix + target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, Slice) and value.spans:
                value = self._kept(Parts(tuple(self._rows(value, len(target.elts)))))
            if not isinstance(value, Parts) or len(value.items) != len(target.elts):
                raise NotTypedError(f"line {target.lineno}: a tuple of another length")
            for each, part in zip(target.elts, value.items, strict=True):
                self._assign(each, part)
        elif isinstance(target, ast.Subscript):
            place = self._place(target)
            if not isinstance(place, Slice):
                raise NotTypedError(f"line {target.lineno}: an assignment by an array of indices")
            if isinstance(value, Parts):
                self._assign_items(place, value)
            elif place.spans:
                value = self._arrays(value)
                slices.assign(self, (self.prefix, id(target)), place, value)
            else:
                self._store(place, self.scalar(value))
        else:
            raise NotTypedError(f"line {target.lineno}: an assignment to an attribute")

    def _makes_lists(self, node: ast.Assign) -> bool:
        """`out = []`, `one, other = [], []`; whether an assignment is one of these."""
        place, value = node.targets[0], node.value
        if isinstance(value, ast.List) and isinstance(place, ast.Name):
            self._new_list(self.prefix + place.id, node)
            return True
        if not (isinstance(value, ast.Tuple) and isinstance(place, ast.Tuple)):
            return False
        if not any(isinstance(each, ast.List) and not each.elts for each in value.elts):
            return False
        own, read = ({part.id for part in tree_nodes(each) if isinstance(part, ast.Name)}
                     for each in (place, value))  # fmt: skip
        if own & read or len(value.elts) != len(place.elts):
            raise NotTypedError(f"line {node.lineno}: lists in a tuple")
        for target, one in zip(place.elts, value.elts, strict=True):
            self._do_Assign(ast.Assign([target], one, lineno=node.lineno))
        return True

    def _new_list(self, name: str, node: ast.Assign) -> None:
        """`out = []`, `out = [x]`."""
        assert isinstance(node.value, ast.List)
        if len(node.targets) > 1:
            raise NotTypedError(f"line {node.lineno}: a list of two names")
        items = [self.temporary(self.number(self.expression(e))) for e in node.value.elts]
        assert self.env is not None
        self.set(f"{name} count", operators.python(slices.ZERO, 0, GIVEN))
        self.set(f"{name} widest", operators.python(FALSE))
        self._set.add(name)
        self.env[name] = BoundList(name, frozenset())
        for item in items:
            self._append(name, item)

    def _append(self, name: str, item: Value) -> None:
        """Append to a list; where its operand is full, the run ends."""
        assert self.env is not None
        known = self.env[name]
        assert isinstance(known, BoundList)
        room, count = self._room_of(name), self.read(f"{name} count")
        found = known.kinds | item.type.kinds
        self._listed[f"{ITEMS}{name}"] = self._listed.get(f"{ITEMS}{name}", frozenset()) | found
        self.env[name] = BoundList(name, found)
        item = self.temporary(item)
        self.check(Operation("less", "bool", (count.code, Length(room, 0))))
        place = Slice(room, (Index(count.code, True),))
        self._store(place, operators.scalar(
            operators.convert(item.code, self.arrays[room].dtype)
        ))  # fmt: skip
        if item.type.dtype == self.arrays[room].dtype:
            self.set(f"{name} widest", operators.python(TRUE))
        after = operators.binary("add", count, operators.constant(1))
        self.set(f"{name} count", changed(after, type=kinds.of("pyint", 0, GIVEN)))

    def _room_of(self, name: str) -> int:
        """The operand that takes the items of a list; an array in its place until there is one."""
        key = f"{ITEMS}{name}"
        if key not in self._left:
            self._left[key] = len(self.arrays)
            self.arrays.append(Array(key, "float64", 1, True, ((0, 0),)))
        return self._left[key]

    def _item(self, known: BoundList, index: Value) -> Value:
        """`out[-1]`: an item of a list."""
        if not known.kinds:  # Python raises; a further look at the loop may know of some
            self.check(FALSE)
            return operators.constant(0)
        if len(known.kinds) != 1:
            raise NotTypedError("an item of a list of several kinds")
        (kind,) = known.kinds
        self._asked.add(f"{ITEMS}{known.name}")
        count, place = self.read(f"{known.name} count").code, self._whole(index)
        below = operators.compare("less", place, operators.constant(0)).code
        from_end = Operation("add", "int64", (place.code, count))
        code: Expression = Operation("select", "int64", (below, from_end, place.code))
        code = self.temporary(operators.python(code)).code
        inside = (Operation("greater_equal", "bool", (code, slices.ZERO)),
                  Operation("less", "bool", (code, count)))  # fmt: skip
        self.check(operators.both(*inside))
        room = self._room_of(known.name)
        loaded = Load(room, (code,), kinds.dtype_of(kind), False)
        found = self.temporary(operators.scalar(loaded))
        return Value(found.code, kinds.of(kind), TRUE if kind not in PYTHON else FALSE)

    def _list_named(self, node: ast.expr) -> BoundList | None:
        """The list that a name stands for; None for anything else."""
        assert self.env is not None
        found = self.env.get(self.prefix + node.id) if isinstance(node, ast.Name) else None
        return found if isinstance(found, BoundList) else None

    def _method_of_list(self, known: BoundList, node: ast.Call) -> Value | None:
        """`out.append(x)`, `out.pop()`."""
        assert isinstance(node.func, ast.Attribute)
        if node.func.attr == "append" and len(node.args) == 1 and not node.keywords:
            self._append(known.name, self.number(self.expression(node.args[0])))
            return None
        if node.func.attr != "pop" or node.args or node.keywords:
            raise NotTypedError(f"line {node.lineno}: the method {node.func.attr} of a list")
        found = self._item(known, operators.constant(-1))
        less = operators.binary(
            "subtract", self.read(f"{known.name} count"), operators.constant(1)
        )
        self.set(f"{known.name} count", changed(less, type=kinds.of("pyint", 0, GIVEN)))
        return found

    def _assign_items(self, place: Slice, value: Parts) -> None:
        """`a[i] = x, y`: the items as elements of an array of the dtype that NumPy gives them."""
        items = [self.number(each) for each in value.items]
        dtypes = {each.type.dtype for each in items}
        if len(place.spans) != 1 or (len(dtypes) > 1 and self._dtype_of(place) != "float64"):
            raise NotTypedError("a tuple that is assigned to several rows, or as another dtype")
        for row, item in zip(self._rows(place, len(items)), items, strict=True):
            assert isinstance(row, Slice)
            self._store(row, item)

    def _rows(self, value: Slice, count: int) -> Iterator[Slice]:
        """What stands at each index of the first axis of a part, which has so many."""
        value = self._fixed(value)
        axis, span = value.spans[0]
        self.check(Operation("equal", "bool", (span.length, Constant("int64", count))))
        for k in range(count):
            place = slices.plus(span.start, Constant("int64", k * span.step))
            axes = *value.axes[:axis], Index(place, True), *value.axes[axis + 1 :]
            yield Slice(value.array, axes)

    def _dtype_of(self, value: Slice) -> str:
        """The dtype of an array's elements; none of complex ones."""
        return "" if slices.is_complex(self, value) else self.arrays[value.array].dtype

    def _store(self, place: Slice, value: Number) -> None:
        """`array[indices] = value`."""
        self._of_elements = True
        self.written.add(place.array)
        slices.store(self, place, (), value, not self._is_sure(place))

    def _is_sure(self, place: Slice) -> bool:
        """Whether an element is known to lie within its array."""
        return all(isinstance(axis, Index) and axis.sure for axis in place.axes)

    def set(self, name: str, value: Any) -> None:
        """Give a variable a value."""
        assert self.env is not None
        self._set.add(name)
        if isinstance(value, Parts):
            for place, part in enumerate(self._kept(value).items):
                self.set(f"{name} {place}", part)
            self.env[name] = BoundTuple(len(value.items))
            return
        if isinstance(value, Slice) and (value.axes or self._is_array(value)):
            self.env[name] = self._moved(name, self._fixed(value))
            return
        if isinstance(value, Complex):
            both = self.temporary(value.real), self.temporary(value.imag)
            for part, number in zip(("real", "imag"), both, strict=True):
                self.set(f"{name} {part}", number)
            self.env[name] = BoundPair(value.dtype)
            return
        number = self.number(value)
        if number.type.is_either:
            self.out.append(Set(f"{name}/numpy", number.numpy))
        self.out.append(Set(f"{name}.{number.type.dtype}", number.code))
        length = number.code if isinstance(number.code, Length) else None
        self.env[name] = Bound(number.type, True, length)

    def _is_array(self, value: Slice) -> bool:
        """Whether a name of it stands for an array without axes, and for no number."""
        return value == slices.whole(self, value.array)

    def _fixed(self, value: Slice) -> Slice:
        """A part of an array whose indices no later assignment changes."""

        def fixed(code: Expression) -> Expression:
            return self.temporary(operators.python(code)).code

        axes = slices.checked_once(self, value).axes
        return Slice(value.array, tuple(
            Index(fixed(axis.place), axis.sure) if isinstance(axis, Index)
            else Span(fixed(axis.start), fixed(axis.length), axis.step) for axis in axes
        ))  # fmt: skip

    def _do_If(self, node: ast.If) -> None:  # noqa: N802
        """`if …: … else: …`."""
        test = self.test(node.test)
        if test in (TRUE, FALSE):
            self.block(node.body if test == TRUE else node.orelse)
            return

        def way(holds: bool, body: Sequence[ast.stmt]) -> None:
            self._assume(node.test, holds)
            self.block(body)

        self._branch(test, lambda: way(True, node.body), lambda: way(False, node.orelse))

    def _assume(self, test: ast.expr, holds: bool) -> None:
        """Narrow the bounds of integers by a condition that is known to hold, or not to."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._assume(test.operand, not holds)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
            for each in test.values:
                self._assume(each, holds)
        elif isinstance(test, ast.Compare) and (holds or len(test.ops) == 1):
            operands = [test.left, *test.comparators]
            for op, left, right in zip(test.ops, operands[:-1], operands[1:], strict=True):
                name = COMPARISONS.get(type(op), "")
                self._narrow(name if holds else _OPPOSITE.get(name, ""), left, right)

    def _narrow(self, name: str, left: ast.expr, right: ast.expr) -> None:
        """Narrow the bounds of two integers of which a comparison holds."""
        one, other = self._range_of(left), self._range_of(right)
        if name not in _OPPOSITE or one is None or other is None:
            return
        if name in ("greater", "greater_equal"):
            self._narrow({"greater": "less"}.get(name, "less_equal"), right, left)
        elif name == "equal":
            both = max(one[0], other[0]), min(one[1], other[1])
            self._bound(left, *both)
            self._bound(right, *both)
        elif name != "not_equal":
            gap = 1 if name == "less" else 0
            self._bound(left, one[0], min(one[1], other[1] - gap))
            self._bound(right, max(other[0], one[0] + gap), other[1])

    def _range_of(self, node: ast.expr) -> tuple[int, int] | None:
        """Between which integers an expression lies, as far as it says so; None for others."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value, node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            return 0, GIVEN
        found = (self.env or {}).get(self.prefix + node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, Bound) or found.type.dtype.startswith(("float", "bool")):
            return None
        return found.type.low, found.type.high

    def _bound(self, node: ast.expr, low: int, high: int) -> None:
        """Note between which integers a variable lies."""
        if isinstance(node, ast.Name) and low <= high and self.env is not None:
            found = self.env.get(self.prefix + node.id)
            if isinstance(found, Bound):
                known = Type(found.type.kinds, low, high)
                self.env[self.prefix + node.id] = changed(found, type=known)

    def _branch(
        self, test: Expression, then: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Two ways on, and what is known where they meet."""
        assert self.env is not None
        before = self.env
        ends: list[tuple[Statements, Environment]] = []
        codes: list[Statements] = []
        for way in (then, other):
            self.env = dict(before)
            with self._into() as code:
                way()
            codes.append(code)
            if self.env is not None:
                ends.append((code, self.env))
        self.out.append(("if", test, *codes))
        self.env = self._merged(ends)

    @contextmanager
    def _into(self) -> Iterator[Statements]:
        """Have statements go into a list of their own."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def _do_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        """`assert …`: the plain function raises."""
        self.check(self.test(node.test))
        self._assume(node.test, True)

    def _do_Raise(self, node: ast.Raise) -> None:  # noqa: N802
        """`raise …`: the plain function raises."""
        self.out.append(Check(FALSE))
        self.env = None

    def _do_Break(self, node: ast.Break) -> None:  # noqa: N802
        """`break`."""
        self.leave(self._loops[-1][0])

    def _do_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        """`continue`."""
        self.leave(self._loops[-1][1])

    def _do_Return(self, node: ast.Return) -> None:  # noqa: N802
        """`return …`."""
        if not self._returns:
            raise NotTypedError(f"line {node.lineno}: a return")
        label, name = self._returns[-1]
        if node.value is not None:
            value = self.expression(node.value)
            assert self.env is not None
            if isinstance(value, Value | Complex | Parts):
                self.set(name, value)
            else:
                self.env[name] = value
        self.leave(label)

    # -- ways through statements ----------------------------------------------------------------

    def label(self) -> int:
        """A new label."""
        self._labels += 1
        self._edges[self._labels] = []
        return self._labels

    def leave(self, label: int) -> None:
        """Go on after the block of a label."""
        assert self.env is not None
        before: Statements = []
        self.out += [before, Leave(label)]
        self._edges[label].append((before, self.env))
        self.env = None

    @contextmanager
    def _block(self, label: int) -> Iterator[None]:
        """Statements that a label's `leave` leaves."""
        with self._into() as code:
            yield
        ends = self._edges.pop(label)
        if self.env is not None:
            ends.append((code, self.env))
        self.out.append(("block", label, code))
        self.env = self._merged(ends)

    def _merged(self, ends: Sequence[tuple[Statements, Environment]]) -> Environment | None:
        """What is known where several ways meet, each converted to it."""
        if not ends:
            return None
        found = dict(ends[0][1])
        for _, env in ends[1:]:
            found = self._joined(found, env)
        for code, env in ends:
            self._convert(code, env, found)
        return found

    def _joined(
        self, one: Environment, other: Environment, widen: bool = False
    ) -> Environment:
        """What is known where two ways meet."""
        one, other = self._paired(one, other), self._paired(other, one)
        found: Environment = {}
        for name in (*one, *(each for each in other if each not in one)):
            left, right = one.get(name), other.get(name)
            if isinstance(left, Bound) and isinstance(right, Bound):
                both = kinds.join(left.type, right.type)
                if widen:
                    both = kinds.widened(left.type, both)
                length = left.length if left.length == right.length else None
                found[name] = Bound(both, left.sure and right.sure, length)
            elif left is None and isinstance(right, Bound):
                found[name] = Bound(right.type, False)
            elif right is None and isinstance(left, Bound):
                found[name] = Bound(left.type, False)
            elif left == right and left is not None:
                found[name] = left
            elif isinstance(left, Bound) or isinstance(right, Bound):
                raise NotTypedError(f"{name.rpartition('/')[2]} is a number, then none")
            elif isinstance(left, Slice) and isinstance(right, Slice):
                found[name] = self._either(name, left, right)
            elif isinstance(left, BoundList) and isinstance(right, BoundList):
                found[name] = BoundList(left.name, left.kinds | right.kinds)
            elif left is not None and right is not None:
                raise NotTypedError(f"{name.rpartition('/')[2]} stands for several arrays")
        return found

    def _paired(self, env: Environment, other: Environment) -> Environment:
        """An environment where integers that are complex numbers in another one are some, too."""
        pairs = [name for name, binding in other.items() if isinstance(binding, BoundPair)]
        for name in pairs:
            old = env.get(name)
            if isinstance(old, Bound) and old.sure and complex_numbers.may_be_pair(old.type):
                part = Bound(kinds.of("pyfloat"))
                env = {**env, name: other[name], f"{name} real": part, f"{name} imag": part}
        return env

    def _convert(self, code: Statements, env: Environment, to: Environment) -> None:
        """Have variables be represented as they are where this way leads."""
        for name, binding in to.items():
            if isinstance(binding, BoundPair) and isinstance(env.get(name), Bound):
                whole = operators.convert(Get(f"{name}.int64", "int64"), "float64")
                code.append(Set(f"{name} real.float64", whole))
                code.append(Set(f"{name} imag.float64", Constant("float64", 0.0)))
        env = self._paired(env, to)
        for name, binding in to.items():
            old = env.get(name)
            if isinstance(binding, Slice) and isinstance(old, Slice):
                if self.arrays[binding.array].chosen:
                    self._point(code, binding.array, old.array)
            if not isinstance(binding, Bound):
                continue
            if not isinstance(old, Bound):
                code.append(Set(f"{name}/bound", FALSE))
                continue
            if not binding.sure and old.sure:
                code.append(Set(f"{name}/bound", TRUE))
            if binding.type.is_either and not old.type.is_either:
                code.append(Set(f"{name}/numpy", TRUE if old.type.is_numpy else FALSE))
            dtype = binding.type.dtype
            if old.type.dtype != dtype:
                held = Value(Get(f"{name}.{old.type.dtype}", old.type.dtype), old.type, FALSE)
                code.append(Set(f"{name}.{dtype}", operators.exactly(held, dtype)))

    # -- loops ------------------------------------------------------------------------------------

    def _do_For(self, node: ast.For) -> None:  # noqa: N802
        """`for … in range(…)`, and over arrays, `enumerate` and `zip` of these."""
        iterable = node.iter
        items_written = self._written_down(iterable)
        if items_written is not None:
            self._unrolled(node, items_written)
            return
        span = self._span(iterable)
        if span is not None:
            start, stop, step = span
            if isinstance(step, Value):
                self._by_steps(node, start, stop, step)
                return
            self._for(node, start, stop, step, lambda index: self._assign(node.target, index))
            return
        items = self._items(iterable)
        length: Expression | None = None
        for own in items[0]:
            if length is None:
                length = own
            elif own != length:
                smaller = Operation("less", "bool", (own, length))
                length = Operation("select", "int64", (smaller, own, length))
        assert length is not None
        limit = self.temporary(operators.python(length, 0, GIVEN))
        step = -1 if items[2] else 1
        first, last = operators.constant(0), limit
        if items[2]:
            one = operators.constant(1)
            first, last = operators.binary("subtract", limit, one), operators.constant(-1)
        begin = lambda index: self._assign(node.target, items[1](index))  # noqa: E731
        self._for(node, first, last, step, begin)

    def _written_down(self, node: ast.expr) -> tuple[Any, ...] | None:
        """The items of a tuple or a list that is written down, or of a tuple; None for others."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self._argument(item) for item in node.elts)
        if isinstance(node, ast.Name) and self.env is not None:
            if isinstance(self.env.get(self.prefix + node.id), BoundTuple):
                return tuple(self._kept(self.read(self.prefix + node.id)).items)
        return None

    def _unrolled(self, node: ast.For, values: Sequence[Any]) -> None:
        """A loop over what is written down: its body stands there for each."""
        if len(values) > _UNROLLED:
            raise NotTypedError(f"line {node.lineno}: a loop over more than {_UNROLLED} numbers")
        after = self.label()
        with self._block(after):
            for value in values:
                again = self.label()
                self._loops.append((after, again))
                with self._block(again):
                    if self.env is not None:
                        self._assign(node.target, value)
                        self.block(node.body)
                self._loops.pop()
            if self.env is not None:
                self.block(node.orelse)

    def _by_steps(self, node: ast.For, start: Value, stop: Value, step: Value) -> None:
        """A loop over a range whose step is computed: where it is not positive, the run ends."""
        start, stop, step = map(self.temporary, (start, stop, step))
        limit = 2**60
        for value, low in ((start, -limit), (stop, -limit), (step, 1)):
            if value.type.low < low or value.type.high > limit:
                near = [
                    operators.compare(name, value, operators.constant(bound)).code
                    for name, bound in (("greater_equal", low), ("less_equal", limit))
                ]
                self.check(operators.both(*near))
        self._for(node, start, stop, step, lambda index: self._assign(node.target, index))

    def _span(self, node: ast.expr) -> tuple[Value, Value, int | Value] | None:
        """Start, stop and step of a range; None where it is none."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        if node.func.id == "reversed" and len(node.args) == 1 and not node.keywords:
            span = self._span(node.args[0])
            if span is None or isinstance(span[2], Value) or abs(span[2]) != 1:
                return None
            start, stop, step = span
            assert isinstance(step, int)
            one = operators.constant(step)
            ends = (operators.binary("subtract", each, one) for each in (stop, start))
            first, last = ends
            return first, last, -step
        if node.func.id != "range" or node.keywords or not 1 <= len(node.args) <= 3:
            return None
        values = [self._whole(self.number(self.expression(arg))) for arg in node.args]
        start, stop = values[:2] if len(values) > 1 else (operators.constant(0), values[0])
        if len(values) < 3:
            return start, stop, 1
        code = values[2].code
        if code == slices.ZERO:
            raise NotTypedError(f"line {node.lineno}: the step of a range is zero")
        return start, stop, int(code.value) if isinstance(code, Constant) else values[2]

    def _whole(self, value: Value) -> Value:
        """An integer that a range, or an index, takes, as a Python number."""
        dtype = value.type.dtype
        if dtype == "bool" or dtype.startswith("float"):
            raise NotTypedError("an index, or a bound of a range, is no integer")
        low, high = value.type.low, value.type.high
        if dtype == "uint64":
            return operators.python(operators.exactly(value, "int64"), 0)
        return operators.python(operators.convert(value.code, "int64"), low, high)

    def _items(self, node: ast.expr) -> tuple[list[Expression], Callable[[Value], Any], bool]:
        """How many elements a loop goes over, what each iteration has, and whether backwards."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, args = node.func.id, node.args
            if name == "enumerate" and [pair.arg for pair in node.keywords] == ["start"]:
                args = [*args, node.keywords[0].value]
            elif node.keywords:
                args = []
            if name == "enumerate" and 1 <= len(args) <= 2:
                arrays, item, back = self._items(args[0])
                first = self._first_number(args[1:])

                def counted(index: Value) -> Parts:
                    return Parts((operators.binary("add", index, first), item(index)))

                if not back:
                    return arrays, counted, False
            if name == "zip" and args:
                parts = [self._items(arg) for arg in args]
                if not any(part[2] for part in parts):
                    arrays = [each for part in parts for each in part[0]]
                    return arrays, lambda i: Parts(tuple(part[1](i) for part in parts)), False
            if name == "reversed" and len(args) == 1:
                arrays, item, back = self._items(args[0])
                return arrays, item, not back
        value = self.expression(node)
        if not isinstance(value, Slice) or not value.spans:
            raise NotTypedError(f"line {node.lineno}: what the loop goes over")
        value = self._fixed(value)
        if len(value.spans) == 1:
            lanes = slices.lanes_of(self, value)
            return [lanes.lengths[0]], lambda index: lanes.element((index.code,)), False
        axis, span = value.spans[0]

        def part(index: Value) -> Slice:
            place = slices.plus(span.start, slices.times(index.code, span.step))
            axes = *value.axes[:axis], Index(place, True), *value.axes[axis + 1 :]
            self.of_index = True
            return Slice(value.array, axes)

        return [span.length], part, False

    def _first_number(self, args: Sequence[ast.expr]) -> Value:
        """What `enumerate` counts from."""
        if not args:
            return operators.constant(0)
        return self.temporary(self._whole(self.number(self.expression(args[0]))))

    def _for(
        self, node: ast.For, start: Value, stop: Value, step: int | Value,
        begin: Callable[[Value], None],
    ) -> None:  # fmt: skip
        """A loop over integers; a step that is computed is positive."""
        start, stop = self.temporary(start), self.temporary(stop)
        for bound in (start, stop):
            if bound.type.low < -(2**62) or bound.type.high > 2**62:
                near = [
                    operators.compare(name, bound, operators.constant(value)).code
                    for name, value in (("greater", -(2**62)), ("less", 2**62))
                ]
                self.check(operators.both(*near))
        low, high = start.type.low, stop.type.high - 1
        pace = step if isinstance(step, int) else step.code
        if isinstance(step, int) and step < 0:
            low, high = stop.type.low + 1, start.type.high
        if low > high:  # it runs no time
            low = high = max(kinds.LEAST, min(kinds.MOST, low))
        slot = self._slot()
        index = operators.python(Get(slot, "int64"), low, high)

        def body() -> None:
            begin(index)
            self.block(node.body)

        def whole(code: Statements) -> None:
            self.out.append(("for", slot, start.code, stop.code, pace, code))

        self._loop(node, body, whole)

    def _do_While(self, node: ast.While) -> None:  # noqa: N802
        """`while …: …`."""
        done = self.label()

        def body() -> None:
            self._edges[done].clear()
            test = self.test(node.test)
            if test == FALSE:
                self.leave(done)
            elif test != TRUE:
                self._branch(
                    test, lambda: self._assume(node.test, True), lambda: self.leave(done)
                )
            if self.env is not None:
                self.block(node.body)

        def whole(code: Statements) -> None:
            self.out.append(("block", done, [("repeat", code)]))

        self._loop(node, body, whole, done)

    def _loop(
        self, node: ast.For | ast.While, body: Callable[[], None],
        whole: Callable[[Statements], None], done: int | None = None,
    ) -> None:  # fmt: skip
        """A loop: its body is translated until it leaves what it finds.

        Args:
            node: the loop.
            body: translates one iteration.
            whole: appends the loop of an iteration's statements.
            done: the label that ends a loop with a condition; None for a loop over integers.
        """
        assert self.env is not None
        entry, key = self.env, (self.prefix, id(node))
        if id(node) not in self._seen:
            self._seen.add(id(node))
            self._count += 1
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)
        head = dict(entry)
        if key in self._heads:
            numbers: Environment = {
                name: each for name, each in head.items() if isinstance(each, Bound | BoundPair)
            }
            head |= self._joined(numbers, self._heads[key])
        marks = {label: len(edges) for label, edges in self._edges.items()}
        counters = _counters(node)
        for _ in range(_LOOKS):
            for label, count in marks.items():
                del self._edges[label][count:]
            after = self.label()
            code, ends = self._iteration(head, body, after)
            found = dict(head)
            for _, env in ends:
                found = self._joined(found, env, widen=True)
            for name in counters:
                self._count_slowly(found, head, self.prefix + name)
            if found == head:
                break
            head = found
        else:
            raise NotTypedError(f"line {node.lineno}: the kinds of its numbers do not settle")
        self._heads[key] = {
            name: one for name, one in head.items() if isinstance(one, Bound | BoundPair)
        }
        self._depth -= 1
        self._convert(self.out, entry, head)
        for tail, env in ends:
            self._convert(tail, env, head)
        with self._into() as made:
            whole(code)
            # What comes after it: `else`, for those ways that do not break.
            if done is None:
                self.env = dict(head)
            else:
                self.env = self._merged(self._edges.pop(done))
            if self.env is not None:
                self.block(node.orelse)
            breaks = self._edges.pop(after)
            if self.env is not None:
                breaks.append((self.out, self.env))
        self.out.append(("block", after, made))
        self.env = self._merged(breaks)

    def _count_slowly(self, found: Environment, head: Environment, name: str) -> None:
        """Bound an integer that a loop changes by small constants alone."""
        old, new = head.get(name), found.get(name)
        if isinstance(old, Bound) and isinstance(new, Bound) and new.type.kinds == {"pyint"}:
            if old.type.low >= -kinds.COUNTED and old.type.high <= kinds.COUNTED:
                low = max(new.type.low, -kinds.COUNTED)
                high = min(new.type.high, kinds.COUNTED)
                found[name] = changed(new, type=Type(new.type.kinds, low, high))

    def _iteration(
        self, head: Environment, body: Callable[[], None], after: int
    ) -> tuple[Statements, list[tuple[Statements, Environment]]]:
        """One iteration's statements, and the ways that lead to the next one."""
        again = self.label()
        self._edges[after].clear()
        self.env = dict(head)
        self._loops.append((after, again))
        with self._into() as code, self._into() as inside:
            body()
        self._loops.pop()
        ends = self._edges.pop(again)
        if self.env is not None:
            ends.append((inside, self.env))
        code.append(("block", again, inside))
        return code, ends

    # -- functions ----------------------------------------------------------------------------

    def _call(self, node: ast.Call, name: str) -> Any:
        """A call of a function of the source."""
        function = self.functions[name]
        if self.prefix.count("/") >= _DEPTH:
            raise NotTypedError(f"{name} calls itself, or calls are nested too deeply")
        formal = function.args
        names = [arg.arg for arg in (*formal.posonlyargs, *formal.args)]
        given: dict[str, Any] = {}
        defaults: Sequence[ast.expr | None] = formal.defaults
        for arg, default in zip(names[::-1], defaults[::-1], strict=False):
            assert default is not None
            given[arg] = self.expression(default)
        for keyword, default in zip(formal.kwonlyargs, formal.kw_defaults, strict=True):
            names.append(keyword.arg)
            if default is not None:
                given[keyword.arg] = self.expression(default)
        if len(node.args) > len(formal.posonlyargs) + len(formal.args):
            raise NotTypedError(f"{name} is given too many arguments")
        values = dict(zip(names, map(self._argument, node.args), strict=False))
        for pair in node.keywords:
            if pair.arg is None or pair.arg in values or pair.arg not in names:
                raise NotTypedError(f"{name} is given other arguments")
            values[pair.arg] = self._argument(pair.value)
        given |= values
        if given.keys() != set(names):
            raise NotTypedError(f"{name} is given too few arguments")
        key = self.prefix, id(node)
        inside = self._calls.setdefault(key, f"{self.prefix}{name}{len(self._calls)}/")
        outer, self.prefix = self.prefix, inside
        loops, self._loops = self._loops, []
        for arg, value in given.items():
            self.set(inside + arg, value)
        found = self._function_body(function.body, inside)
        self._loops, self.prefix = loops, outer
        if self.env is not None:
            gone = [name for name in self.env if name.startswith(inside)]
            for each in gone:
                del self.env[each]
        return found

    def _argument(self, node: ast.expr) -> Any:
        """An argument, evaluated once: later assignments to names in it do not change it."""
        return self._kept(self.expression(node))

    def _function_body(self, body: Sequence[ast.stmt], inside: str) -> Any:
        """Statements up to a `return`; what it gives, None where it gives nothing."""
        label, result = self.label(), inside + RESULT
        self._returns.append((label, result))
        with self._block(label):
            self.block(body)
        self._returns.pop()
        if self.env is None:
            raise NotTypedError("it never ends")
        binding = self.env.get(result)
        if isinstance(binding, Bound | BoundPair | BoundTuple):
            return self._kept(self.read(result))
        return binding

    # -- expressions ----------------------------------------------------------------------------

    def _slot(self) -> str:
        """A new variable's."""
        self._temporaries += 1
        return f"{self._temporaries}"

    def settled(self, value: Number) -> Number:
        """A number in a variable of its own, or in two."""
        if isinstance(value, Value):
            return self.temporary(value)
        return Complex(self.temporary(value.real), self.temporary(value.imag), value.dtype)

    def temporary(self, value: Value) -> Value:
        """A real number in a variable of its own."""
        if isinstance(value.code, (Constant, Length)):
            return value
        slot = self._slot()
        self.out.append(Set(slot, value.code))
        numpy = value.numpy
        if numpy not in (TRUE, FALSE):
            self.out.append(Set(f"{slot}/numpy", numpy))
            numpy = Get(f"{slot}/numpy", "bool")
        return Value(Get(slot, value.type.dtype), value.type, numpy)

    def number(self, value: Any) -> Value:
        """What has to be a real number.

        Raises:
            NotTypedError: it is none.
        """
        found = self.scalar(value)
        if isinstance(found, Complex):
            raise NotTypedError("a complex number where a real one belongs")
        return found

    def scalar(self, value: Any) -> Number:
        """What has to be a number.

        Raises:
            NotTypedError: it is none.
        """
        if isinstance(value, Value | Complex):
            return value
        if isinstance(value, Slice) and not value.spans:
            return slices.load(self, value, (), not self._is_sure(value))
        raise NotTypedError("an array where a number belongs")

    def read(self, name: str) -> Any:
        """What a name stands for."""
        assert self.env is not None
        binding = self.env.get(name)
        if binding is None:
            raise NotTypedError(f"{name.rpartition('/')[2]} is not set")
        if isinstance(binding, BoundPair):
            real, imag = (self.read(f"{name} {part}") for part in ("real", "imag"))
            return Complex(real, imag, binding.dtype)
        if isinstance(binding, BoundTuple):
            return Parts(tuple(self.read(f"{name} {k}") for k in range(binding.count)))
        if not isinstance(binding, Bound):
            return binding
        if not binding.sure:
            self.check(Get(f"{name}/bound", "bool"))
            self.env[name] = changed(binding, sure=True)
        found = binding.type
        numpy: Expression = TRUE if found.is_numpy else FALSE
        if found.is_either:
            numpy = Get(f"{name}/numpy", "bool")
        return Value(binding.length or Get(f"{name}.{found.dtype}", found.dtype), found, numpy)

    def expression(self, node: ast.expr, may_be_none: bool = False) -> Any:
        """What an expression gives: a number, an array, or a tuple.

        Raises:
            NotTypedError: it is not in the language.
        """
        self._count_look()
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise NotTypedError(f"line {node.lineno}: {type(node).__name__}")
        value = method(node)
        if value is None and not may_be_none:
            raise NotTypedError(f"line {node.lineno}: a function that gives nothing")
        return value

    def _of_Constant(self, node: ast.Constant) -> Number:  # noqa: N802
        """A number."""
        if type(node.value) is complex:
            return complex_numbers.literal(node.value)
        return operators.constant(node.value)  # type: ignore[arg-type]

    def _of_Name(self, node: ast.Name) -> Any:  # noqa: N802
        """A variable; in a function, what it reaches by a name that it does not set."""
        name = self.prefix + node.id
        assert self.env is not None
        reached = node.id.endswith("_") and node.id in self.env  # as sources name what they reach
        if reached and name not in self.env and name not in self._set:
            return self.read(node.id)
        return self.read(name)

    def _of_Tuple(self, node: ast.Tuple | ast.List) -> Parts:  # noqa: N802
        """A tuple."""
        return Parts(tuple(self._argument(each) for each in node.elts))

    def _of_Attribute(self, node: ast.Attribute) -> Any:  # noqa: N802
        """`x.shape`, `x.size`, `x.ndim`, `math.pi`."""
        if isinstance(node.value, ast.Name) and node.value.id in MODULES:
            found = getattr(math if node.value.id == "math" else np, node.attr, None)
            return operators.constant(found)  # type: ignore[arg-type]
        value = self.expression(node.value)
        if node.attr in ("real", "imag"):
            return self._part(node, value)
        if not isinstance(value, (Slice, Lanes)):
            raise NotTypedError(f"line {node.lineno}: an attribute of a number")
        if isinstance(value, Lanes) and node.attr != "T":  # whose elements may raise
            raise NotTypedError(f"line {node.lineno}: .{node.attr} of what is not kept")
        known = self._arrays(value, False)
        lengths = [operators.python(n, 0, GIVEN) for n in getattr(known, "lengths", ())]
        rank = len(lengths)
        if node.attr == "T" and rank < 2:
            return value
        if node.attr == "T":
            whole = self._arrays(value)
            turned = changed(
                whole, lengths=whole.lengths[::-1], within=whole.within[::-1],
                element=lambda indices: whole.element(indices[::-1]),
            )  # fmt: skip
            kept = slices.kept(self, (self.prefix, id(node)), turned)  # in the order of its axes
            return slices.lanes_of(self, kept)
        if node.attr == "shape":
            return Parts(tuple(lengths))
        if node.attr == "ndim":
            return operators.constant(rank)
        if node.attr == "size":
            total = operators.constant(1)
            for length in lengths:
                total = operators.binary("multiply", total, length)
            return changed(total, type=kinds.of("pyint", 0, GIVEN))
        raise NotTypedError(f"line {node.lineno}: .{node.attr}")

    def _part(self, node: ast.Attribute, value: Any) -> Any:
        """`z.real`, `z.imag` of complex numbers."""
        if isinstance(value, Complex):
            return complex_numbers.unary(node.attr, value)
        if isinstance(value, Slice) and slices.is_complex(self, value):
            return slices.component(value, node.attr == "imag")
        raise NotTypedError(f"line {node.lineno}: .{node.attr} of real numbers")

    def _arrays(self, value: Any, counted: bool = True) -> Any:
        """A part of an array as its elements; a number as itself."""
        if isinstance(value, Lanes):
            return value
        if isinstance(value, Slice) and value.spans:
            self.of_arrays = self.of_arrays or counted
            return slices.lanes_of(self, value)
        return self.scalar(value)

    def _operands(self, *nodes: ast.expr) -> list[Any]:
        """Numbers and arrays, of which later ones do not change earlier ones."""
        found: list[Any] = []
        for place, node in enumerate(nodes):
            value = self.expression(node)
            value = value if isinstance(value, Lanes) else self._arrays(value)
            later = nodes[place + 1 :]
            if isinstance(value, Value | Complex) and any(map(self._has_calls, later)):
                value = self.settled(value)
            found.append(value)
        return found

    def _has_calls(self, node: ast.expr) -> bool:
        """Whether an expression calls a function of the source."""
        return any(
            isinstance(part, ast.Call) and isinstance(part.func, ast.Name)
            and part.func.id in self.functions for part in tree_nodes(node)
        )  # fmt: skip

    def _of_BinOp(self, node: ast.BinOp) -> Any:  # noqa: N802
        """An operator of two numbers."""
        operands = self._operands(node.left, node.right)
        if isinstance(node.op, ast.MatMult):
            return self._product(node, *operands)
        name = OPERATORS.get(type(node.op))
        if name is None:
            raise NotTypedError(f"line {node.lineno}: an operator")
        return self._binary(name, *operands)

    def _binary(self, name: str, left: Any, right: Any) -> Any:
        """An operator of two numbers, or arrays."""
        found = self._applied(
            lambda one, other: complex_numbers.binary(name, one, other), [left, right]
        )
        if name != "power" or not isinstance(found, Complex):
            return found
        real, imag = self._not_infinite(found.real), self._not_infinite(found.imag)
        return Complex(real, imag, found.dtype)

    def _not_infinite(self, value: Value) -> Value:
        """A float; where it is infinite, and Python would raise, the run ends."""
        if value.numpy == TRUE:
            return value
        value = self.temporary(value)
        size = Operation("absolute", value.type.dtype, (value.code,))
        self.check(Operation("not_equal", "bool", (size, Constant(size.dtype, math.inf))))
        return value

    def _moderate(self, value: Complex) -> Complex:
        """A complex number whose exponential needs no case of its own; else the run ends."""
        found = Complex(self.temporary(value.real), self.temporary(value.imag), value.dtype)
        for part, most in ((found.real, 80.0), (found.imag, math.inf)):
            size = Operation("absolute", part.type.dtype, (part.code,))
            self.check(Operation("less", "bool", (size, Constant(size.dtype, most))))
        return found

    def _applied(self, function: Callable[..., Number], values: Sequence[Any]) -> Any:
        """A function of numbers, or element by element."""
        known = [self._arrays(value) for value in values]
        if any(isinstance(value, Lanes) for value in known):
            return slices.each(self, function, known)
        return function(*known)

    def _product(self, node: ast.expr, left: Any, right: Any) -> Any:
        """`left @ right`."""
        if not isinstance(left, Lanes) or not isinstance(right, Lanes):
            raise NotTypedError("a product of a number")
        if max(len(left.lengths), len(right.lengths)) > 1:  # whose elements are asked for twice
            left, right = (
                slices.lanes_of(self, slices.kept(self, (self.prefix, id(node), place), each))
                for place, each in enumerate((left, right))
            )
        return slices.product(self, (self.prefix, id(node)), left, right)

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Any:  # noqa: N802
        """An operator of one number."""
        if isinstance(node.op, ast.Not):
            return operators.python(operators.negated(self.test(node.operand)))
        name = _UNARY[type(node.op)]
        operand = self.expression(node.operand)
        return self._applied(lambda value: complex_numbers.unary(name, value), [operand])

    def _of_Compare(self, node: ast.Compare) -> Any:  # noqa: N802
        """A comparison, or a chain of them."""
        if len(node.ops) == 1 and (known := self._of_items(node, node.ops[0])) is not None:
            return operators.python(known)
        names = [COMPARISONS.get(type(op)) for op in node.ops]
        if None in names:
            raise NotTypedError(f"line {node.lineno}: a comparison")
        operands = self._operands(node.left, *node.comparators)
        if len(names) == 1:
            name = str(names[0])
            return self._applied(
                lambda one, other: complex_numbers.compare(name, one, other), operands
            )
        operands = [self.number(operand) for operand in operands]
        values = [
            operators.compare(str(name), left, right)
            for name, left, right in zip(names, operands[:-1], operands[1:], strict=True)
        ]
        whole: Expression = TRUE
        for value in values:
            whole = operators.both(whole, value.code)
        found = [value.type for value in values]
        if any(each.is_numpy for each in found):
            return self._chosen_last(values)
        return operators.python(whole)

    def _of_items(self, node: ast.Compare, op: ast.cmpop) -> Expression | None:
        """`x in (1, 2)`, `(a, b) == (c, d)`; None for comparisons of other things."""
        left, right = node.left, node.comparators[0]
        found: Expression
        if isinstance(op, (ast.In, ast.NotIn)):
            items = self._written_down(right)
            if items is None:
                return None
            value, found = self._argument(left), FALSE
            for item in items:
                found = operators.either(found, self._same(value, item))
            return found if isinstance(op, ast.In) else operators.negated(found)
        if not isinstance(op, (ast.Eq, ast.NotEq)) or isinstance(left, ast.List):
            return None
        one, other = self._written_down(left), self._written_down(right)
        if one is None or other is None or isinstance(right, ast.List):
            return None
        found = self._same(Parts(one), Parts(other))
        return found if isinstance(op, ast.Eq) else operators.negated(found)

    def _same(self, one: Any, other: Any) -> Expression:
        """Whether items are equal: a NaN is equal to itself there, which is not known of two."""
        if isinstance(one, Parts) and isinstance(other, Parts):
            if len(one.items) != len(other.items):
                return FALSE
            whole: Expression = TRUE
            for pair in zip(one.items, other.items, strict=True):
                whole = operators.both(whole, self._same(*pair))
            return whole
        pair = self.number(one), self.number(other)
        if all(each.type.dtype.startswith("float") for each in pair):
            if not any(isinstance(each.code, Constant) for each in pair):
                raise NotTypedError("floats among the items of tuples that are compared")
        return operators.compare("equal", *pair).code

    def _chosen_last(self, values: Sequence[Value]) -> Value:
        """The first that is false, else the last."""
        found = values[-1]
        for value in values[-2::-1]:
            found = self._select(operators.truth(value), found, value)
        return found

    def _select(self, test: Expression, one: Value, other: Value) -> Value:
        """One of two numbers."""
        joined = kinds.join(one.type, other.type)
        dtype = joined.dtype
        args = (test, operators.exactly(one, dtype), operators.exactly(other, dtype))
        numpy = one.numpy
        if one.numpy != other.numpy:
            numpy = Operation("select", "bool", (test, one.numpy, other.numpy))
        return Value(Operation("select", dtype, args), joined, numpy)

    def test(self, node: ast.expr) -> Expression:
        """Whether an expression is true."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return operators.negated(self.test(node.operand))
        if not isinstance(node, ast.BoolOp):
            value = self.expression(node)
            if isinstance(value, BoundList):
                value = self.read(f"{value.name} count")
            return complex_numbers.truth(self.scalar(value))
        stops = isinstance(node.op, ast.Or)
        found = self.test(node.values[0])
        for place, each in enumerate(node.values[1:], 1):
            if found in (TRUE, FALSE):
                if (found == TRUE) == stops:
                    return found
                found = self.test(each)
                continue
            found = self._further(found, each, stops, node.values[:place])
        return found

    def _further(
        self, found: Expression, node: ast.expr, stops: bool, before: Sequence[ast.expr]
    ) -> Expression:
        """One more condition of several, asked for where those before do not settle it."""
        slot = self._slot()
        self.out.append(Set(slot, found))

        def ask() -> None:
            for each in before:
                self._assume(each, not stops)
            self.out.append(Set(slot, self.test(node)))

        ways = (lambda: None, ask) if stops else (ask, lambda: None)
        self._branch(found, *ways)
        return Get(slot, "bool")

    def _of_BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: N802
        """`and`, `or`: the operand that settles it."""
        stops = isinstance(node.op, ast.Or)
        name = f"{self.prefix}chosen {self._slot()}"
        self.set(name, self.expression(node.values[0]))

        def next_one(place: int) -> None:
            if place == len(node.values):
                return
            settled = operators.truth(self.read(name))

            def further() -> None:
                self.set(name, self.expression(node.values[place]))
                next_one(place + 1)

            ways = (lambda: None, further) if stops else (further, lambda: None)
            self._branch(settled, *ways)

        next_one(1)
        return self._taken(name)

    def _of_IfExp(self, node: ast.IfExp) -> Value:  # noqa: N802
        """`a if c else b`."""
        test = self.test(node.test)
        if test in (TRUE, FALSE):
            return self.number(self.expression(node.body if test == TRUE else node.orelse))
        name = f"{self.prefix}chosen {self._slot()}"

        def way(holds: bool, part: ast.expr) -> None:
            self._assume(node.test, holds)
            self.set(name, self.number(self.expression(part)))

        self._branch(test, lambda: way(True, node.body), lambda: way(False, node.orelse))
        return self._taken(name)

    def _taken(self, name: str) -> Value:
        """What a variable of the translator's own holds, which is needed no more."""
        value = self.temporary(self.number(self.read(name)))
        assert self.env is not None
        del self.env[name]
        return value

    # -- elements -------------------------------------------------------------------------------

    def _of_Subscript(self, node: ast.Subscript) -> Any:  # noqa: N802
        """An element of an array, or of a tuple."""
        if self._is_turned(node):
            return self._element(self._place(node))
        value = self.expression(node.value)
        if isinstance(value, BoundList):
            return self._item(value, self.number(self.expression(node.slice)))
        if isinstance(value, Parts):
            index = self.number(self.expression(node.slice)).code
            if isinstance(index, Constant) and -len(value.items) <= index.value < len(value.items):
                return value.items[int(index.value)]
            raise NotTypedError(f"line {node.lineno}: an index of a tuple")
        return self._element(self._place(node, value))

    def _element(self, place: Any) -> Any:
        """A number where a part of an array is one."""
        return self.scalar(place) if isinstance(place, Slice) and not place.spans else place

    @staticmethod
    def _is_turned(node: ast.Subscript) -> bool:
        """Whether it is a part of a transposed array."""
        return isinstance(node.value, ast.Attribute) and node.value.attr == "T"

    def _place(self, node: ast.Subscript, base: Any = None) -> Any:
        """An element of an array, a part of it, or elements at places that are computed."""
        turned = self._is_turned(node)
        if turned:
            assert isinstance(node.value, ast.Attribute)
            base = self.expression(node.value.value)
        base = self.expression(node.value) if base is None else base
        if not isinstance(base, Slice):
            raise NotTypedError(f"line {node.lineno}: an index of what is no array")
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        spans = base.spans
        if len(items) > len(spans):
            raise NotTypedError(f"line {node.lineno}: too many indices")
        if turned:
            left = len(spans) - sum(not isinstance(item, ast.Slice) for item in items)
            if left > 1:  # whose axes would change places
                raise NotTypedError(f"line {node.lineno}: a part of a transposed array")
            items = [*items, *[ast.Slice() for _ in spans[len(items) :]]][::-1]
        axes = list(base.axes)
        for (axis, span), item in zip(spans, items, strict=False):
            if isinstance(item, ast.Slice):
                axes[axis] = self._cut(span, item)
                continue
            index = self._arrays(self.expression(item))
            if isinstance(index, Complex):
                raise NotTypedError(f"line {node.lineno}: a complex number as index")
            if isinstance(index, Lanes):
                if len(items) > 1:
                    raise NotTypedError(f"line {node.lineno}: an array among indices")
                self.of_index = True
                return slices.gathered(self, base, index)
            self._note_index(index)
            axes[axis] = slices.place_in(self, span, self._whole(index))
        return Slice(base.array, tuple(axes))

    def _cut(self, span: Span, item: ast.Slice) -> Span:
        """A slice of an axis."""
        step = 1
        if item.step is not None:
            code = self.number(self.expression(item.step)).code
            if not isinstance(code, Constant) or code.value == 0:
                raise NotTypedError(f"line {item.lineno}: the step of a slice is no constant")
            step = int(code.value)
        bounds = [
            None if each is None else self._whole(self.number(self.expression(each)))
            for each in (item.lower, item.upper)
        ]
        for bound in bounds:
            if bound is not None:
                self._note_index(bound)
        if bounds == [None, None] and step == 1:
            return span
        return slices.span_of(self, span, bounds[0], bounds[1], step)

    def _note_index(self, index: Value) -> None:
        """Note whether an index differs from one iteration to the next."""

        def varies(code: Expression) -> bool:
            if isinstance(code, Operation):
                return any(map(varies, code.args))
            return isinstance(code, Load) or (
                isinstance(code, Get) and code.slot not in self._given
            )

        self.of_index = self.of_index or varies(index.code)

    # -- calls ----------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call) -> Any:  # noqa: N802
        """A call of a function of the source, of Python's, of `math` or of NumPy's."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in self.functions:
            return self._call(node, function.id)
        if isinstance(function, ast.Name) and function.id == "len" and len(node.args) == 1:
            value = self.expression(node.args[0])
            if isinstance(value, BoundList):
                return self.read(f"{value.name} count")
            if isinstance(value, Slice) and value.spans:
                lengths = self._arrays(value, False).lengths
                return operators.python(lengths[0], 0, GIVEN)
            raise NotTypedError(f"line {node.lineno}: len of what is no array")
        if isinstance(function, ast.Attribute) and self._is_method(function):
            named = self._list_named(function.value)
            if named is not None:
                return self._method_of_list(named, node)
            if node.keywords or node.args:
                raise NotTypedError(f"line {node.lineno}: a method with arguments")
            if function.attr in ("conjugate", "conj"):
                return self._applied(
                    lambda value: complex_numbers.unary("conjugate", value),
                    [self.expression(function.value)],
                )
            return self._reduced(function.attr, self._arrays(self.expression(function.value)))
        name = ast.unparse(function).removeprefix("numpy.")
        if name in MADE:
            return self._made(node, name)
        if name == "uint64" and len(node.args) == 1:
            known = _written(node.args[0])
            if known is not None and 0 <= known < 2**64:  # beyond Python's integers here
                return operators.scalar(Constant("uint64", known))
        if node.keywords:
            raise NotTypedError(f"line {node.lineno}: a call with keywords")
        if ast.unparse(function) == "numpy.flip" and len(node.args) == 1:
            value = self.expression(node.args[0])
            if not isinstance(value, Slice):
                raise NotTypedError(f"line {node.lineno}: np.flip of what is computed")
            return slices.flipped(value)
        args = self._operands(*node.args)
        if isinstance(function, ast.Name):
            return self._builtin(function.id, args, node.lineno)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            name = function.attr
            if function.value.id == "math":
                return operators.math_function(name, [self.number(arg) for arg in args])
            if name in ("dot", "inner", "vdot") and len(args) == 2:
                return self._product(node, *args)
            if len(args) == 1 and name in _REDUCED:
                return self._reduced(name, args[0])
            if name == "exp" and isinstance(args[0], Complex):
                args = [self._moderate(args[0])]
            return self._applied(
                lambda *values: complex_numbers.numpy_function(name, values), args
            )
        raise NotTypedError(f"line {node.lineno}: a call of another function")

    def _is_method(self, node: ast.Attribute) -> bool:
        """Whether a function is a method of an array."""
        return not (isinstance(node.value, ast.Name) and node.value.id in MODULES)

    def _reduced(self, name: str, value: Any) -> Any:
        """A method of an array, or the function of that name."""
        if not isinstance(value, Lanes):
            raise NotTypedError(f"{name} of a number")
        if name in ("sum",):
            return slices.summed(self, value)
        if name in ("max", "amax"):
            return slices.extreme(self, "maximum", value)
        if name in ("min", "amin"):
            return slices.extreme(self, "minimum", value)
        if name in ("argmax", "argmin"):
            wanted = "maximum" if name == "argmax" else "minimum"
            return slices.place_of_extreme(self, wanted, value)
        if name in ("any", "all"):
            return slices.tested(self, value, name == "all")
        if name == "mean":
            return slices.mean(self, value)
        if name == "copy":
            return slices.each(self, lambda one: one, [value])
        raise NotTypedError(f"the method {name}")

    def _builtin(self, name: str, args: Sequence[Any], line: int) -> Any:
        """A call of one of Python's functions."""
        if name == "abs" and len(args) == 1:
            found = self._applied(lambda value: complex_numbers.unary("absolute", value), args)
            return self._not_infinite(found) if isinstance(args[0], Complex) else found
        if name == "complex" and len(args) == 1 and isinstance(args[0], Complex):
            return complex_numbers.of_parts(args[0].real, args[0].imag)
        args = [self.number(arg) for arg in args]
        if name in ("min", "max") and len(args) > 1:
            found = self.temporary(args[0])
            for other in map(self.temporary, args[1:]):
                test = operators.compare("less" if name == "min" else "greater", other, found)
                found = self.temporary(self._select(test.code, other, found))
            return found
        if name == "complex" and 1 <= len(args) <= 2:
            return complex_numbers.of_parts(args[0], (*args, operators.constant(0.0))[1])
        if name in ("int", "float", "bool", "round") and len(args) == 1:
            return operators.number(name, args[0])
        raise NotTypedError(f"line {line}: a call of {name}")


def _dtype_of_items(found: frozenset[str]) -> str:
    """The dtype of the array that NumPy makes of a list of such numbers."""
    if found <= PYTHON.keys():
        return representation(found)
    dtypes = {PYTHON.get(kind, kind) for kind in found}
    if len(found) > 1 and not dtypes <= {"bool", "int64", "float64"}:
        raise NotTypedError(f"a list of {' and '.join(sorted(found))}")
    return str(np.result_type(*sorted(dtypes)))


def _transposed(
    body: tuple[Statement, ...], plain: tuple[Statement, ...], arrays: tuple[Array, ...]
) -> tuple[tuple[Statement, ...], tuple[Array, ...]]:
    """Statements that look at no index before loops with copies of what they read down columns."""
    one = body[0] if len(body) == 1 else None
    if isinstance(one, If) and one.other == plain:
        then, arrays = transposed(one.then, arrays)
        return (changed(one, then=then),), arrays
    return transposed(body, arrays)


_FOLDED = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.LShift: operator.lshift, ast.Pow: operator.pow
}  # fmt: skip


def _written(node: ast.expr) -> int | None:
    """A Python integer that is written down, or computed of such ones; None for others."""
    if isinstance(node, ast.BinOp) and type(node.op) in _FOLDED:
        left, right = _written(node.left), _written(node.right)
        large = isinstance(node.op, (ast.LShift, ast.Pow))
        if left is None or right is None or (large and not (0 <= right <= 64 and 0 < left <= 16)):
            return None
        return int(_FOLDED[type(node.op)](left, right))
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _counters(loop: ast.For | ast.While) -> list[str]:
    """Names that a loop changes by small constants alone."""
    steps: dict[str, bool] = {}
    parts = tree_nodes(loop)
    stepped = {id(part.target) for part in parts if isinstance(part, ast.AugAssign)}
    for part in parts:
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            step = part.value.value if isinstance(part.value, ast.Constant) else None
            small = type(step) is int and abs(step) <= kinds.PACE
            small = small and isinstance(part.op, (ast.Add, ast.Sub))
            steps[part.target.id] = steps.get(part.target.id, True) and small
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            if id(part) not in stepped:
                steps[part.id] = False
    return [name for name, small in steps.items() if small]


def _frozen(statements: Statements) -> tuple[Statement, ...]:
    """Statements as records."""
    found: list[Statement] = []
    for each in statements:
        if isinstance(each, list):
            found += _frozen(each)
        elif not isinstance(each, tuple):
            found.append(each)
        elif each[0] == "if":
            found.append(If(each[1], _frozen(each[2]), _frozen(each[3])))
        elif each[0] == "block":
            found.append(Block(each[1], _frozen(each[2])))
        elif each[0] == "repeat":
            found.append(Repeat(_frozen(each[1])))
        else:
            _, slot, start, stop, step, body = each
            found.append(For(slot, start, stop, step, _frozen(body)))
    return tuple(found)
