"""The state of one trace, with the memory that it sees, and how it makes nodes.

`Tracing` is what stand-ins and the families of NumPy functions are given. How operands become
stand-ins and how calls are traced is above them: `fuser.capture.tracer` has the class that does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fuser.base import budget
from fuser.base.error_states import ErrorState
from fuser.base.errors import Unsupported, user_line
from fuser.base.host_expressions import scalar_symbols
from fuser.base.records import field, record
from fuser.base.trees import Path
from fuser.ir import infer, opaque_calls
from fuser.ir.attributes import NOTHING, Attribute, Cast
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.graph import intern as intern_node
from fuser.ir.ops import TABLE
from fuser.ir.views import View
from fuser.tracing.admitted_dtypes import check_dtype, check_row
from fuser.tracing.traced_lengths import Lengths


class Storage:
    """Memory as the function sees it: arrays and views that share it see each other's writes."""

    __slots__ = (
        "argument", "first", "looks_at", "node", "reach", "reshapes", "shared", "through", "unset",
        "written",
    )  # fmt: skip

    def __init__(self, node: Node, argument: int | None = None) -> None:
        """Start with the value `node`; `argument`: the parameter whose memory this is.

        `looks_at`: parameters whose memory this may be a view of, by NumPy. `reshapes`: views
        up to a reshape, the shape before it, and after it; None where a copy is made if need be.
        `through`: the arrays that see this memory through those.
        `unset`: of memory whose elements have no values yet, its lengths, or what it lies like.
        """
        self.node = node
        self.first = node
        self.argument = argument
        self.looks_at: tuple[int, ...] = () if argument is None else (argument,)
        self.reshapes: list[tuple[tuple[View, ...], tuple[Dim, ...], tuple[Dim, ...] | None]] = []
        self.through: list[Any] = []
        self.shared = False
        self.unset: Any = None
        self.written = False
        self.reach = 0

    def replace(self, node: Node) -> None:
        """Give the memory another value."""
        self.node = node
        self.unset = None
        self.written = True


def _cast_to(node: Node, dtype: Any) -> np.dtype[Any]:
    """The dtype that a node is converted to.

    Raises:
        Unsupported: kernels do not know it, or NumPy warns: an imaginary part is lost.
    """
    wanted = infer.dtype_of(dtype)
    check_dtype(wanted, "cast")
    if node.dtype.kind == "c" and wanted.kind in "iuf":
        raise Unsupported("side-effect", "ComplexWarning", "an imaginary part is discarded")
    return wanted


class _Later:
    """In the place of a call's result that nothing has computed yet."""


LATER = _Later()


def _same(value: Any) -> Any:
    """The value."""
    return value


def _never(value: Any) -> bool:
    """No."""
    return False


@record(frozen=False)
class Argument:
    """A parameter while tracing."""

    storage: Storage
    array: Any
    initial: Node
    leaf: int | None


@record(frozen=False, slots=False, eq=False)
class Tracing(Lengths):
    """One trace in progress."""

    sizes: dict[str, int] = field(default_factory=dict)
    equal: dict[str, Dim] = field(default_factory=dict)
    guards: list[tuple[Dim, Dim]] = field(default_factory=list)
    value_guards: dict[str, Any] = field(default_factory=dict)
    reaches: dict[str, int] = field(default_factory=dict)
    """How long axes have to be for the integer indices into them, by length."""
    arguments: list[Argument] = field(default_factory=list)
    scalars: list[tuple[Any, int]] = field(default_factory=list)
    """Stand-ins for Python numbers, and which leaves they are."""
    lines: dict[int, str] = field(default_factory=dict)
    captured: dict[int, Any] = field(default_factory=dict)
    """Stand-ins for arrays that the function reached, by identity of the array."""
    seen: set[int] = field(default_factory=set)
    """Those that were found by names, by identity."""
    spare: set[int] = field(default_factory=set)
    """Those of them that the function may not use, by identity."""
    values: list[tuple[Any, bytes]] = field(default_factory=list)
    """Captured arrays, and what they held then."""
    written: dict[int, None] = field(default_factory=dict)
    hazards: dict[tuple[int, int], None] = field(default_factory=dict)
    replay: Any = None
    externs: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    extern_count: int = 0
    draws: int = 0
    """How many of these calls draw random numbers."""
    repeatable: dict[tuple[Any, ...], tuple[Any, list[Node]]] = field(default_factory=dict)
    """Calls between kernels, by text and operands: what they gave, once."""
    picked: dict[int, tuple[Node, Node, Node]] = field(default_factory=dict)
    """What was read at one place of each row: the rows, and the places; by `id` of the result."""
    raising: dict[int, Node] = field(default_factory=dict)
    """Operations that raise for some values: they run also where nothing uses what they give."""
    repeated: list[Any] = field(default_factory=list)
    """Arrays of `np.broadcast_arrays`, of which NumPy warns when they are written into."""
    optional: dict[int, Node] = field(default_factory=dict)
    """Selections that cannot raise: they need not run where nothing reads them."""
    reads: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    """Values that were asked for, and the stand-ins for these numbers, by `id` of the node."""
    decisions: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """What was decided by such numbers: host expressions, their values, and the lines."""
    guards_before: int = 0
    """How many guards there were before the first decision."""
    computed: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    """What was computed for such numbers, by `id` of the node."""
    computed_bytes: int = 0
    told_late: dict[str, Dim] = field(default_factory=dict)
    """Integers that were read, as expressions over lengths, by name."""
    placeholders: dict[str, Node] = field(default_factory=dict)
    """What stands for arrays in any iteration of a loop: by name, what the first one finds."""
    symbols: int = 0
    """How many numbers loops have had that each iteration has another one of."""
    looking: int = 0
    """Loops whose bodies run on what any iteration finds, one within another."""
    failed: Unsupported | None = None
    kept: list[Node] = field(default_factory=list)
    """Nodes of which `lines` tells: what is thrown away must not lend its line to another."""
    names: Sequence[str] = ()
    """What the user calls each leaf of the arguments."""
    given: list[tuple[Path | None, Any]] = field(default_factory=list)
    """Lists and dicts of the caller's, and where they are among the arguments; None: nowhere."""
    returned: list[tuple[Path, Any]] = field(default_factory=list)
    """Those among the results."""
    common: dict[Any, tuple[Dim, ...]] = field(default_factory=dict)
    """Shapes that were broadcast: what came out, by what was known of lengths."""
    late: set[str] = field(default_factory=set)
    told: dict[str, Dim] = field(default_factory=dict)
    arrays: bool = False
    """Whether arrays that the function makes are stand-ins, too."""
    named: bool = True
    """Whether arrays that the function reaches by name are stand-ins, too."""
    uncopied: list[Any] = field(default_factory=list)
    """Functions that NumPy calls as they are: they reach what the trace has copies of."""
    original: Callable[[Any], Any] = _same
    """Gives what a copy is a copy of, and anything else itself."""
    has_copy: Callable[[Any], bool] = _never
    """Whether something has one."""
    in_order: dict[int, None] = field(default_factory=dict)
    """Arguments that have to be contiguous in C order."""
    errors: ErrorState = field(default_factory=ErrorState)
    by_identity: bool = False
    """Whether the function may ask whether two arrays are one."""
    named_arguments: dict[int, Any] = field(default_factory=dict)
    """Where it may: arguments that it has reached by a name, too."""
    exact_truth: bool = False
    """Whether the function asks what is True itself: no stand-in is."""

    def end(self) -> None:
        """Let go of arrays when the trace is over: what refers to it may live a while."""
        for held in (self.arguments, self.captured, self.values, self.externs, self.computed,
                     self.repeatable, self.named_arguments):  # fmt: skip
            held.clear()
        self.replay = self.failed = None

    # -- what has to hold ----------------------------------------------------------------------

    def guard_value(self, text: str, value: Any) -> None:
        """Note that this trace holds only while a host expression has this value."""
        if self.reads and not self.read_names.isdisjoint(scalar_symbols(text)):
            self.decide(text, value)
        else:
            self.value_guards[text] = value

    @property
    def read_names(self) -> set[str]:
        """The names of the numbers that were read off values."""
        return {number.text for _, number in self.reads.values()}

    def guard_reach(self, length: Dim, reach: int) -> None:
        """Note that this trace holds only while an integer index lies within an axis.

        Kernels read there whatever the length is; and NumPy raises, also where the value is not
        used.
        """
        length = self.resolve(length)
        known = self.reaches.get(str(length), 0)
        if not isinstance(length, int) and reach > known:
            self.value_guards.pop(f"({length}) >= {known}", None)
            self.guard_value(f"({length}) >= {reach}", True)
            self.reaches[str(length)] = reach

    def note_read(self, arguments: Sequence[int]) -> None:
        """Note which arguments must not share memory: these are read after others' writes."""
        for other in self.written:
            for argument in arguments:
                if other != argument:
                    self.hazards[other, argument] = None

    def note_write(self, argument: int | None) -> None:
        """Note a write into an argument."""
        if argument is not None:
            self.note_read((argument,))
            self.written[argument] = None

    def check_captured(self) -> None:
        """Refuse captured arrays that NumPy wrote into after the graph had read them.

        Raises:
            Unsupported: a kernel would read the new values.
        """
        for array, values in self.values:
            if array.tobytes() != values:
                raise Unsupported(
                    "side-effect", "captured array", "an array is written while it is read", ""
                )

    # -- nodes ------------------------------------------------------------------------------

    def node(self, name: str, args: Sequence[Node], payload: Attribute = NOTHING) -> Node:
        """Build an elementwise or structural node, with this trace's notion of equal lengths."""
        row = TABLE[name]
        for arg in args:
            check_row(name, arg.dtype)
        dtype = infer.result_dtype(row, [arg.dtype for arg in args], payload)
        shapes = [arg.shape for arg in args]
        if row.reduction:
            shape = infer.result_shape(row, shapes, payload)
        elif row.structure:
            equal: Mapping[str, Dim] = infer.NOTHING
            if row.concatenates:
                equal = self.known_equal()
                shapes = [tuple(map(self.resolve, shape)) for shape in shapes]
            shape = infer.result_shape(row, shapes, payload, equal)
            self.hold_not_negative(shape)
        else:
            shape = self.broadcast(name, payload.shapes(shapes))
        if row.scatters:  # these are the loops
            shape = shapes[-1]
        made = intern_node(row, tuple(args), shape, dtype, payload)
        if dtype.kind in row.raises and not row.gathers:
            self.raising[id(made)] = made
        line = self.lines.get(id(made))
        if line is None:
            line = self.lines[id(made)] = user_line()
            self.kept.append(made)
        budget.spend("writes" if row.is_update else "operations", line=line)
        return made

    def cast(self, node: Node, dtype: Any) -> Node:
        """Convert a node; nothing where it has the dtype already."""
        dtype = _cast_to(node, dtype)
        return node if node.dtype == dtype else self.node("cast", [node], Cast(dtype))

    def own(self, node: Node, dtype: Any, order: str, *like: int) -> Node:
        """A converted copy of a node, in memory order "K" or "C"; see `Cast`."""
        return self.node("cast", [node], Cast(_cast_to(node, dtype), order, like))

    def called(
        self, text: str, operands: Sequence[Node], line: str,
        results: Iterable[tuple[str, tuple[Dim, ...], Any, Any]],
    ) -> list[Node]:  # fmt: skip
        """The nodes of a call between kernels, which comes after those that there are.

        Args:
            text: the call, as `opaque_calls.read` takes it, without its number.
            operands: what it is given.
            line: `file:line` of it.
            results: of each its marks ("view ", "scalar "), shape, dtype, and what it is in this
                call, or `LATER`.
        """
        number = self.extern_count
        self.extern_count += 1
        return [
            self.result_of_call(f"{number}.{place} {marks}{text}", operands, line, *result)
            for place, (marks, *result) in enumerate(results)
        ]

    def result_of_call(
        self, text: str, operands: Sequence[Node], line: str, shape: tuple[Dim, ...], dtype: Any,
        value: Any,
    ) -> Node:  # fmt: skip
        """The node of one result of a call between kernels, see `called`."""
        payload = opaque_calls.read(text)
        node = intern_node(TABLE["extern"], tuple(operands), shape, infer.dtype_of(dtype), payload)
        self.externs[id(node)] = node, value
        self.lines.setdefault(id(node), line)
        self.kept.append(node)
        return node

    # -- values of this call ----------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """Scalars and lengths of this call, by name."""
        scalars = [scalar for scalar, _ in self.scalars]
        scalars += [number for _, number in self.reads.values()]
        return {**self.sizes, **{scalar.text: scalar.hint for scalar in scalars}}

    # -- what the tracer does: `fuser.capture.tracer` has these methods, and says what they do ---

    if TYPE_CHECKING:
        operand: ClassVar[Callable[[Any, Any], Any]]
        operand_node: ClassVar[Callable[[Any, Any, np.dtype[Any]], Node]]
        mask_node: ClassVar[Callable[[Any, Any], Node]]
        capture: ClassVar[Callable[[Any, Any], Any]]
        by_name: ClassVar[Callable[[Any, Any, bool], Any]]
        wrap: ClassVar[Callable[..., Any]]
        write: ClassVar[Callable[[Any, Any, Node, Any, str, str], Any]]
        evaluate: ClassVar[Callable[[Any, Node], Any]]
        read: ClassVar[Callable[[Any, Node], Any]]
        shown: ClassVar[Callable[[Any, Any, str], Any]]
        decide: ClassVar[Callable[[Any, str, Any], None]]
        length_of_number: ClassVar[Callable[[Any, str, int], Dim]]
        apply_ufunc: ClassVar[Callable[..., Any]]
        apply_function: ClassVar[Callable[..., Any]]
        apply_kernel: ClassVar[Callable[..., Any]]
        call_named: ClassVar[Callable[..., Any]]
        update: ClassVar[Callable[[Any, Any, Any, Any], None]]
        take: ClassVar[Callable[[Any, Any, Any], Any]]
        put: ClassVar[Callable[[Any, Any, Any, Any], None]]
        put_together: ClassVar[Callable[[Any, Any, np.dtype[Any]], Any]]
