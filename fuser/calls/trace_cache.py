"""What a fused function knows of each kind of call, and how it learns more: by a trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fuser import executor
from fuser.base import budget, forks, notices, trees
from fuser.base.error_states import held_back, noted
from fuser.base.errors import Reason, Unsupported
from fuser.base.protocols import is_a
from fuser.base.records import changed, field, record
from fuser.base.timeline import phase
from fuser.base.trees import stands_for_others
from fuser.base.unexpected import internal_errors
from fuser.calls.specialisation import IN_VAIN_NS, Call, Specialisation, is_brief, specialise
from fuser.capture import captures
from fuser.capture.effects import Surroundings, alone
from fuser.capture.purity import trace_purely
from fuser.capture.read_names import by_class
from fuser.executor import CannotRun
from fuser.kernel_spec import KernelSpec, Options
from fuser.program_spec import Program
from fuser.tracing.trace_result import OutStatic, Trace

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

#: Kernels may move a quarter more than NumPy's operations, which they make up for with vectors and
#: threads, and some bytes beyond: those of a fraction of one NumPy call.
SLACK, SLACK_BYTES = 1.25, 4096
#: A launch takes less than half of a NumPy call, and a few are no loss.
FEW_KERNELS = 4
#: Value guards and decisions may make this many specialisations of one signature, no more; after as
#: many refusals what names stand for decides nothing any more.
VALUE_LIMIT = 8


@record(frozen=False, slots=False, eq=False)
class Signature:
    """What is known for one combination of dtypes, ranks and static values."""

    found: list[Specialisation] = field(default_factory=list)
    refused: Reason | None = None
    refused_names: list[captures.NameGuard] = field(default_factory=list)
    refusals: int = 0
    refused_orders: set[tuple[bool, ...]] | None = None
    """Which arrays are in C order in the calls that are refused; None if that says nothing."""
    suspected: tuple[Reason, list[captures.NameGuard]] | None = None
    late: set[Any] = field(default_factory=set)
    in_vain_ns: float = 0.0
    """Where NumPy's operations take less, it runs all such calls, as it runs some in the end."""
    lock: threading.RLock = field(default_factory=forks.lock)

    def refuse(
        self, reason: Reason, names: list[captures.NameGuard], order: tuple[bool, ...] | None = None
    ) -> None:
        """Trace no more such calls; `order`: of those alone with arrays in C order like these."""
        if not budget.is_final(self.late):
            return
        known = set() if self.refused is None else self.refused_orders
        self.refusals += 1
        self.refused, self.refused_names = reason, names if self.refusals <= VALUE_LIMIT else []
        self.refused_orders = None if order is None or known is None else {*known, order}

    def part(self, reason: Reason, times: int) -> None:
        """Look at no more such calls where so many in a row went a way that no known path goes.

        Each runs the paths up to where they part, before NumPy runs it.
        """
        if times >= VALUE_LIMIT and self.found:
            self.refuse(reason, self.found[0].names)
            self.found = []

    def stop(self, leaves: Sequence[Any], often: bool) -> bool:
        """Note that NumPy runs some calls in the end, and others in little more time than a look.

        Args:
            leaves: the arguments of one that it has run.
            often: it runs as many as short ways serve, each of which was tried before.

        Returns:
            Whether that is new.
        """
        going_on = [known for known in self.found if known.trace.stopped is None]
        if not self.found or not (often or len(going_on) < len(self.found)):
            return False
        calls = [call for known in going_on if (call := known.match(leaves)) is not None]
        looks_ns = [2 * call.specialisation.looking_ns for call in calls]
        most_ns = max([*looks_ns, IN_VAIN_NS if often else 0.0])
        each_ns = [most_ns] * len(calls) if often else looks_ns
        if most_ns <= self.in_vain_ns or not all(map(is_brief, calls, each_ns)):
            return False
        self.in_vain_ns = most_ns
        return True

    def check(self, leaves: Sequence[Any]) -> None:
        """Look whether such calls are refused.

        Raises:
            CannotRun: they are.
        """
        if self.refused is not None and all(guard.holds() for guard in self.refused_names):
            if self.refused_orders is None or _orders(leaves) in self.refused_orders:
                raise CannotRun(self.refused)

    def match(self, leaves: Sequence[Any], missed: Sequence[Specialisation]) -> Call | None:
        """The call by the first specialisation that holds, but those that are known not to."""
        if self.found and self.found[0].trace.stopped is not None:
            self._give_up()
        calls = (known.match(leaves) for known in self.found if known not in missed)
        return next((call for call in calls if call is not None), None)

    def _give_up(self) -> None:
        """Trace no more such calls where, each time, NumPy has run them after some decisions."""
        reason = self.found[0].trace.stopped
        stopped = [known.stops for known in self.found if known.trace.stopped is not None]
        if reason is not None and len(stopped) == len(self.found) and sum(stopped) >= VALUE_LIMIT:
            self.refuse(reason, self.found[0].names)
            self.found = []


def _orders(leaves: Sequence[Any]) -> tuple[bool, ...]:
    """Which arrays are contiguous in C order."""
    arrays = (leaf for leaf in leaves if is_a(leaf, np.ndarray))
    return tuple(array.flags.c_contiguous for array in arrays)


def _is_too_deep(error: Unsupported) -> bool:
    """Whether a trace ended in Python's limit on nested calls, of which it takes more."""
    return isinstance(error.__cause__, RecursionError)


def _of_lengths(error: Unsupported) -> bool:
    """Whether a function raised for these lengths alone: it may be traced for others."""
    cause = error.__cause__
    told = cause.args[:1] if isinstance(cause, ValueError) else ()
    negative = any(type(text) is str and text.startswith("negative") for text in told)
    return negative or isinstance(cause, (ArithmeticError, IndexError))


def specialised(
    function: Owner, entry: Signature, structure: Any, leaves: list[Any], paused: Any = None
) -> Call:
    """Trace and prepare a new specialisation, and the call by it.

    Args:
        function: what is called.
        entry: what is known of such calls; the specialisation is added.
        structure: how the arguments nest.
        leaves: the arguments.
        paused: where a path has ended in this call, because a decision had another outcome.

    Raises:
        CannotRun, Unsupported: the function cannot be fused for such arguments.
    """
    objects = [leaf for leaf in leaves if not is_a(leaf, np.ndarray)]
    objects += trees.classes(structure)
    try:
        hidden, handed_in = function._hidden, frozenset[tuple[int, str]]()
        if hidden is not None:
            objects, handed_in = [*objects, *hidden.things], hidden.handed_in
        with internal_errors(function._name):
            names, met = captures.look_around(function.__wrapped__, objects, handed_in)
    except Unsupported as error:
        entry.refuse(error.reason, [])
        raise
    refused: Unsupported | None = None
    try:
        _check_limit(function, entry)
        guarding = internal_errors(function._name, (OverflowError,))
        noting = noted(function.errstate)
        with guarding, phase("trace", function._name), alone(), noting, held_back():
            around = Surroundings(names, met, handed_in)
            trace, constants = trace_purely(
                function.__wrapped__, structure, leaves, function._name, around,
                () if paused is None else paused.told,
            )  # fmt: skip
    except Unsupported as error:
        passing = error.reason.code in ("scalar-range", "runtime-check")  # of these values only
        doubtful = error.reason.code == "not-traceable" and not _is_too_deep(error)
        if doubtful and (not entry.found or _of_lengths(error)):
            # Unless the plain function raises, too: then nothing is known of other calls.
            entry.suspected = error.reason, names
        elif error.stopped is None and not passing:
            entry.refuse(error.reason, names, _orders(leaves) if error.of_order else None)
        if error.stopped is None or passing or error.attributes:
            raise
        refused = error
        trace, constants = changed(cast(Trace, error.stopped), stopped=error.reason), {}
    from fuser.programs import partition

    spec = None
    if function.mode != "fallback":
        if refused is None:
            _note_breaks(function, entry, trace, names)
        others = [known.spec for known in entry.found if isinstance(known.spec, Program)]
        try:
            options = Options(function.mode, function.fastmath, function.errstate)
            with internal_errors(function._name):
                spec = partition.prepare(trace.graph, options, others)
        except Unsupported as error:
            entry.refuse(error.reason, names)
            raise
    held = by_class([*names, *around.further, *around.held, *around.read])
    specialisation = specialise(trace, spec, held, constants)
    specialisation.by_contents = bool(around.held)
    specialisation.given_back = given_back(trace, leaves)
    if trace.by_identity is not None:
        specialisation.identities = specialisation.identities_in(leaves)
    call = specialisation.match(leaves)
    if call is None and refused is not None:
        raise refused
    if call is None:
        found = "a value that it reads changed while it was traced"
        reason = Reason("impure", function._name, found)
        entry.refuse(reason, names)
        raise CannotRun(reason)
    try:
        with internal_errors(function._name):
            if spec is not None:
                backend = executor.planned_for(call.arrays.values())
                specialisation.spec = partition.planned(spec, backend, trace.written)
            fused = function.mode == "fused"
            loss = _loss(spec, call, function.has_short_way) if fused else ""
    except Unsupported as error:
        entry.refuse(error.reason, names)
        raise
    if loss:
        reason = Reason("no-gain", function._name, loss)
        entry.refuse(reason, names)
        raise CannotRun(reason)
    entry.found = [*entry.found, specialisation]
    notices.note("traced %s: its graph has %d operations", function._name, len(trace.graph.nodes))
    if refused is not None:
        raise refused
    return call


def _check_limit(function: Owner, entry: Signature) -> None:
    """Refuse one more specialisation where there are too many.

    Raises:
        Unsupported: there are.
    """
    guarded = [known.trace for known in entry.found if known.by_value]
    if len(guarded) < VALUE_LIMIT:
        return
    asked = [line for trace in guarded for _, _, line in trace.decisions]
    if not asked:
        raise Unsupported("value-guards", function._name, f"{len(guarded)} values so far", "")
    found = f"{len(guarded)} ways so far, the first decision at {asked[0]}"
    raise Unsupported("many-paths", function._name, found, asked[-1])


def _loss(
    prepared: KernelSpec | Program | None, call: Call, short_way: Callable[[Call, Program], bool]
) -> str:
    """What the planned kernels do more of than NumPy's operations, for this call; "" for nothing.

    Parts of arrays that are joined may be computed, or copied, once for each write into an array;
    without joins a plan reads and writes no more than the operations do. A loop over elements is
    such an operation of each array that it writes, though Python takes far longer. Complex values
    count as such, though a backend may compute with their parts. What a function between kernels
    changes is copied as a whole, however little of it that function writes.
    """
    from fuser.programs import partition

    planned = unfused = kernels = operations = 0
    spec = call.specialisation.spec
    if spec is None or prepared is None:
        return ""
    sizes = {**call.specialisation.trace.hints, **call.sizes}
    copied = _copied_bytes(prepared, sizes)
    for whole, one in zip(partition.specs_of(prepared), partition.specs_of(spec), strict=True):
        one = whole if one.in_parts else one
        if copied <= SLACK_BYTES and not any(node.op.joins for node in one.plan.graph.nodes):
            continue
        from fuser.traffic.ledger import moved  # most first calls need none

        found = moved(one, sizes)
        planned, kernels = planned + found[0], kernels + found[1]
        unfused, operations = unfused + found[2], operations + found[3]
    unfused += _looped_bytes(prepared, sizes)
    if planned > SLACK * unfused + SLACK_BYTES:
        return f"kernels would move {planned:,} bytes, NumPy's operations {unfused:,}"
    if kernels > 2 * operations + FEW_KERNELS:
        return f"it would take {kernels:,} kernels for {operations:,} operations"
    if isinstance(spec, Program) and spec.element_loops and spec.asked:
        if not short_way(call, spec):  # a look takes as long as hundreds of iterations
            return "each call would be looked at anew for numbers that a loop over elements leaves"
    if copied > SLACK_BYTES and planned + copied > 2 * unfused:
        return f"{copied:,} bytes would be copied around what NumPy writes, {unfused:,} computed"
    return ""


def _looped_bytes(prepared: KernelSpec | Program, sizes: Mapping[str, int]) -> int:
    """Bytes for loops over elements: at least those of one operation for each array they write."""
    if not isinstance(prepared, Program):
        return 0
    from fuser.traffic.moved_bytes import elements_of

    written = [node for step in prepared.element_loops for node in step.nodes if node.shape]
    return sum(3 * elements_of(node, sizes) * node.dtype.itemsize for node in written)


def _copied_bytes(prepared: KernelSpec | Program, sizes: Mapping[str, int]) -> int:
    """Bytes that are read and written to copy arrays which functions between kernels change."""
    if not isinstance(prepared, Program):
        return 0
    from fuser.traffic.moved_bytes import elements_of

    changed = [node for step in prepared.graph_breaks for node in step.nodes
               if node.payload.changes]  # fmt: skip
    return sum(2 * elements_of(node, sizes) * node.dtype.itemsize for node in changed)


def given_back(trace: Trace, leaves: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """Arguments that are results, of those objects that stand for all that hold the same.

    Args:
        trace: of a call.
        leaves: its arguments.
    """
    results = {id(leaf.value) for leaf in trace.leaves if is_a(leaf, OutStatic)}
    return tuple(
        (place, leaf) for place, leaf in enumerate(leaves)
        if id(leaf) in results and stands_for_others(leaf)
    )  # fmt: skip


def _note_breaks(
    function: Owner, entry: Signature, trace: Trace, names: list[captures.NameGuard]
) -> None:
    """Say which functions run in NumPy between kernels.

    Raises:
        CannotRun: the policy is "error", or there is nothing that kernels would do.
    """
    from fuser.programs import partition

    whole = partition.nothing_fuses(trace.graph)
    for reason in partition.break_reasons(trace.graph):
        if function.fallback == "error" or whole is not None:
            entry.refuse(reason, names)
            raise CannotRun(reason)
        function.note_reason(reason)
        notices.say(reason, function.fallback, function._name)
