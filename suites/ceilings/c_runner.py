"""The runner of loops in C: what a machine's memory and arithmetic allow, not a fuser."""

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from shutil import which
from typing import Any, ClassVar

import numpy as np

import fuser
from fuser.ir.graph import Graph
from fuser.suites.ceilings.c_text import TYPES, compiled, expression, function_text, written
from fuser.suites.ceilings.c_views import (
    Operand,
    element_step,
    forms_of,
    matrix_text,
    vector_text,
)
from fuser.suites.runners import NotExpressibleError, Runner, RunnerKind
from fuser.suites.sampling import timed_calls
from fuser.suites.workload import Arguments

PARALLEL_BYTES = 1 << 19
"""Waking other threads costs more than the work on less."""
PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
"""Before the first parallel loop binds this thread to one."""
WRITTEN: Mapping[str, str] = {
    **dict.fromkeys(("row_range", "value_range", "row_argmax", "pairwise_distance"), "vectors.h"),
    **dict.fromkeys(
        ("softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm", "row_logsumexp",
         "cross_entropy", "row_mean", "row_variance", "row_correlation", "column_mean",
         "column_variance"), "rows.h",
    ),
}  # fmt: skip
"""Workloads whose loops are written by hand, with their files."""


class Loop:
    """A compiled loop: `bind` gives what C is called with, in each way that may be fastest."""

    run: Any

    def bind(self, arguments: Arguments, buffers: Arguments) -> Sequence[tuple[Any, ...]]:
        """Return the arguments of C in each way; the same ways for arrays of the same kind."""
        raise NotImplementedError


class Formula(Loop):
    """The formula of a graph, element by element."""

    def __init__(self, graph: Graph) -> None:
        self.scalars = [
            None if each.dtype is not None
            else next(n.dtype.name for n in graph.nodes if n.text == each.name)
            for each in graph.parameters
        ]  # fmt: skip
        self.run = compiled(function_text(graph)).run

    def bind(self, arguments: Arguments, buffers: Arguments) -> Sequence[tuple[Any, ...]]:
        """Lengths, then addresses and numbers."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        if not all(each.flags.c_contiguous for each in arrays):
            raise NotExpressibleError("strided arguments")
        largest = max(arrays, key=lambda each: each.size)
        rows, columns = (1, largest.size) if largest.ndim == 1 else largest.shape
        given = [
            _address(each) if isinstance(each, np.ndarray)
            else (ctypes.c_float if kind == "float32" else ctypes.c_double)(each)
            for each, kind in zip(arguments, self.scalars, strict=True)
        ]  # fmt: skip
        results = map(_address, buffers)
        return [(ctypes.c_int64(rows), ctypes.c_int64(columns), *given, *results)]


class Views(Loop):
    """A formula of one result whose operands are transposed or have a stride."""

    def __init__(self, graph: Graph, arguments: Arguments) -> None:
        self.steps = [element_step(each) for each in arguments]
        if 0 in self.steps or len(graph.outputs) != 1:
            raise NotExpressibleError("no C form of these views")
        (self.output,) = graph.outputs
        places = {each.name: place for place, each in enumerate(graph.parameters)}
        names = {id(node): f"v{number}" for number, node in enumerate(graph.nodes)}
        read = [arg for node in graph.nodes if not node.op.permutes for arg in node.args]
        lines: list[str] = []
        self.operands: list[Operand] = []
        for node in graph.nodes:
            kind, name = TYPES[node.dtype.name], names[id(node)]
            source = node.args[0] if node.op.permutes else node
            if not source.op.is_input:
                lines.append(f"const {kind} {name} = {expression(node, names)};")
            elif any(node is each for each in read):
                place = places[source.text]
                step = 1 if len(node.shape) == 2 else self.steps[place]
                self.operands.append(Operand(f"p{name}", kind, place, step, source is not node))
                lines.append(f"const {kind} {name} = p{name}[j * {step}];")
        lines.append(f"t[j] = {names[id(self.output)]};")
        text = matrix_text if len(self.output.shape) == 2 else vector_text
        result = TYPES[self.output.dtype.name]
        self.run = compiled(written("views.h") + text(" ".join(lines), self.operands, result)).run

    def bind(self, arguments: Arguments, buffers: Arguments) -> Sequence[tuple[Any, ...]]:
        """Lengths, each size of tiles, addresses."""
        flat = [each for each in arguments if each.ndim == 1 or each.flags.c_contiguous]
        if len(flat) < len(arguments) or [element_step(each) for each in arguments] != self.steps:
            raise NotExpressibleError("strides of another kind")
        (result,) = buffers
        lengths = result.shape if result.ndim == 2 else (1, *result.shape)
        addresses = [_address(arguments[each.place]) for each in self.operands]
        return [
            (*map(ctypes.c_int64, (*lengths, *form)), *addresses, _address(result))
            for form in forms_of(result.ndim)
        ]


class Rows(Loop):
    """A loop over rows that is written by hand."""

    def __init__(self, name: str, dtype: "np.dtype[Any]") -> None:
        self.run = getattr(_hand_written(WRITTEN[name], dtype == np.float64), name)

    def bind(self, arguments: Arguments, buffers: Arguments) -> Sequence[tuple[Any, ...]]:
        """Rows, their length, those of a second matrix, whether stores pass the caches; addresses.

        Nobody sends so little past the caches that one thread does it.
        """
        first, *more = arguments
        rows, length = first.shape if first.ndim == 2 else (1, first.size)
        others = more[0].shape[0] if more and more[0].ndim else 0
        nothing = ctypes.c_void_p()
        given = [*map(_address, arguments), *[nothing] * (3 - len(arguments))]
        given += [*map(_address, buffers), *[nothing] * (2 - len(buffers))]
        ways = (0, 1) if buffers[0].nbytes >= PARALLEL_BYTES else (0,)
        return [(*map(ctypes.c_int64, (rows, length, others, past)), *given) for past in ways]


@cache
def _hand_written(name: str, wide: bool) -> ctypes.CDLL:
    """Compile a file of loops for float32 or float64."""
    functions = {"EXP": "exp", "LOG": "log", "ROOT": "sqrt"}
    lines = [f"#define {key} {each}{'' if wide else 'f'}\n" for key, each in functions.items()]
    lines.append("#define DOUBLE\n#define T double\n" if wide else "#define T float\n")
    return compiled("".join(lines) + written(name))


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Bound:
    """A loop with its results' memory; bound again when its arguments lie elsewhere."""

    def __init__(self, loop: Loop, buffers: Arguments) -> None:
        self.loop, self.buffers = loop, buffers
        self.arguments: Arguments = ()
        self.places: tuple[int, ...] = ()
        self.given: tuple[Any, ...] = ()
        self.way: int | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run; the results are in the buffers."""
        if tuple(map(id, arguments)) != self.places:
            self._bind(arguments)
        self.loop.run(*self.given)
        return self.buffers

    def _bind(self, arguments: Arguments) -> None:
        """Take addresses; the first time find the way that is fastest on these arrays."""
        ways = self.loop.bind(arguments, self.buffers)
        arrays = [each for each in (*arguments, *self.buffers) if isinstance(each, np.ndarray)]
        use_threads(max(each.nbytes for each in arrays))
        if self.way is None:
            self.way = min(range(len(ways)), key=lambda way: _least_s(self.loop.run, ways[way]))
        self.given = ways[self.way]
        self.arguments, self.places = arguments, tuple(map(id, arguments))


def _least_s(run: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """The least of some calls' seconds."""
    once_s, _ = timed_calls(run, given, 1)
    count = max(1, int(0.001 / max(min(once_s, timed_calls(run, given, 1)[0]), 1e-9)))
    return min(timed_calls(run, given, count)[0] / count for _ in range(5))


def use_threads(array_bytes: int) -> None:
    """Use all threads, or one for few bytes."""
    library = ctypes.CDLL("libgomp.so.1")
    library.omp_set_num_threads(PROCESSORS if array_bytes >= PARALLEL_BYTES else 1)


class CRunner(Runner):
    """A formula as gcc vectorises it, or as somebody wrote it: the ceiling of a cell."""

    name = "c"
    kind: ClassVar[RunnerKind] = "ceiling"
    description = "a loop in C, by gcc -O3 -march=native -fopenmp: what the machine allows"
    writes_into = True
    typical_first_call_s = 1.0

    def unavailable(self) -> str | None:
        """Return what to install, or None."""
        return None if which("gcc") else "gcc is not installed"

    def start(self) -> None:
        """Give each thread a processor of its own, whatever the kernel does on waking."""
        os.environ.setdefault("OMP_PROC_BIND", "true")  # read when the library is loaded
        use_threads(0)

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return the loop, compiled once for arguments of one kind where that is asked for."""
        kinds = tuple(
            (each.dtype, each.ndim, element_step(each)) if isinstance(each, np.ndarray)
            else type(each) for each in arguments
        )  # fmt: skip
        loop = self.once((function, kinds), lambda: _loop(function, arguments))
        return Bound(loop, buffers)


def _loop(function: Callable[..., Any], arguments: Arguments) -> Loop:
    """Compile a workload's loop.

    Raises:
        NotExpressibleError: it has no C form.
    """
    if function.__name__ in WRITTEN:
        return Rows(function.__name__, arguments[0].dtype)
    try:
        graph = fuser.trace(function, *arguments)
    except fuser.FuserError as error:
        raise NotExpressibleError(str(error).splitlines()[0]) from error
    gaps = any(element_step(each) not in (0, 1) for each in arguments)
    if gaps or any(node.op.permutes for node in graph.nodes):
        return Views(graph, arguments)
    return Formula(graph)
