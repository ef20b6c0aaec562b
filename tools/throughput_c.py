"""Ceilings in C: the memory's speed, and a workload's formula as a loop that gcc vectorises.

The formula is spelled from the traced graph and compiled with `-O3 -march=native
-ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp`; mathematical functions are those of
glibc's vector library, whose errors are at most 4 ulp, where ours are at most 2 or 3: the looser
bound is the cheaper one, so a share of this ceiling is rather too low than too high. Formulas whose
operands are transposed or have a stride are put together in `throughput_c_views`; those that reduce
rows are written by hand in `throughput_c_rows`.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from throughput_c_rows import WRITTEN, row_lengths, row_shapes, row_text
from throughput_c_views import WAYS, Operand, element_step, forms_of, matrix_text, vector_text

import fuser
from fuser.ir.graph import Graph, Node, constant_value
from fuser.suites.runners import NotExpressibleError
from fuser.suites.sampling import now_s

FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC",
    # gcc would join a sine and a cosine into one scalar call, which it cannot vectorise.
    *(f"-fno-builtin-{name}" for name in ("sin", "cos", "sinf", "cosf")),
)  # fmt: skip
TYPES = {
    "bool": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "float32": "float", "float64": "double",
}  # fmt: skip
INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "greater": ">", "less": "<",
    "greater_equal": ">=", "less_equal": "<=", "equal": "==", "not_equal": "!=",
    "bitwise_and": "&", "bitwise_or": "|",
}  # fmt: skip
VECTOR_MATH = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "sinh": "sinh", "power": "pow", "arctan2": "atan2", "arcsin": "asin",
}  # fmt: skip
INCLUDED = ("stdint", "string", "math", "immintrin")
HEAD = "".join(f"#include <{name}.h>\n" for name in INCLUDED) + "".join(
    f'__attribute__((simd("notinbranch"))) {kind} {name}{suffix}({kind}'
    f"{', ' + kind if name in ('pow', 'atan2') else ''});\n"
    for name in VECTOR_MATH.values()
    for kind, suffix in (("float", "f"), ("double", ""))
)

MEMORY = """
#define LOOP(body) _Pragma("omp parallel for schedule(static)") \\
  for (int64_t i = 0; i < n; i += 64) { body }
#ifdef __AVX512F__
#define LOAD(p) _mm512_load_si512((const void *)(p))
#define PUT(p, v) (past ? _mm512_stream_si512((void *)(p), v) : _mm512_store_si512((void *)(p), v))
#define SUM(a, b) _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)))
void copy(char *t, char *a, char *b, int64_t n, int past) { LOOP(PUT(t + i, LOAD(a + i));) }
void triad(char *t, char *a, char *b, int64_t n, int past)
{ LOOP(PUT(t + i, SUM(LOAD(a + i), LOAD(b + i)));) }
#else
typedef float v16 __attribute__((vector_size(64)));
void copy(char *t, char *a, char *b, int64_t n, int past)
{ LOOP(*(v16 *)(t + i) = *(v16 *)(a + i);) }
void triad(char *t, char *a, char *b, int64_t n, int past)
{ LOOP(*(v16 *)(t + i) = *(v16 *)(a + i) + *(v16 *)(b + i);) }
#endif
int64_t read_(char *t, char *a, char *b, int64_t n, int past) {
  int64_t s = 0; int64_t *x = (int64_t *)a;
  _Pragma("omp parallel for simd schedule(static) reduction(^ : s)")
  for (int64_t i = 0; i < n / 8; i++) s ^= x[i];
  return s;
}
"""
PARALLEL_BYTES = 1 << 19
PROCESSORS = len(os.sched_getaffinity(0))
"""Before the first parallel loop binds this thread to one."""
PASSES = {"copy": 2, "triad": 3, "read_": 1}


def compiled(text: str) -> ctypes.CDLL:
    """Compile C text and load it.

    Raises:
        NotExpressibleError: gcc refuses it.
    """
    folder = Path(tempfile.mkdtemp(prefix="throughput-"))
    source, library = folder / "code.c", folder / "code.so"
    source.write_text(text, encoding="utf-8")
    command = ["gcc", *FLAGS, str(source), "-o", str(library), "-lmvec", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotExpressibleError(f"gcc: {done.stderr.strip().splitlines()[0][:160]}")
    return ctypes.CDLL(str(library))


def spelled(node: Node, names: dict[int, str]) -> str:
    """One operation as a C expression.

    Raises:
        NotExpressibleError: it has no C form here.
    """
    op, given = node.op.name, [names[id(each)] for each in node.args]
    suffix = "f" if node.dtype.name == "float32" else ""
    kind = TYPES[node.dtype.name]
    if op in INFIX:
        return f"({kind})({given[0]} {INFIX[op]} {given[1]})"
    if op in VECTOR_MATH:
        return f"{VECTOR_MATH[op]}{suffix}({', '.join(given)})"
    forms: dict[str, Callable[[], str]] = {
        "negative": lambda: f"-{given[0]}",
        "square": lambda: f"{given[0]} * {given[0]}",
        "sqrt": lambda: f"sqrt{suffix}({given[0]})",
        "absolute": lambda: f"fabs{suffix}({given[0]})",
        "where": lambda: f"{given[0]} ? {given[1]} : {given[2]}",
        "maximum": lambda: f"{given[0]} > {given[1]} ? {given[0]} : {given[1]}",
        "minimum": lambda: f"{given[0]} < {given[1]} ? {given[0]} : {given[1]}",
        "cast": lambda: f"({kind}){given[0]}",
        "remainder": lambda: f"{given[0]} - {given[1]} * floor{suffix}({given[0]} / {given[1]})",
        "invert": lambda: f"!{given[0]}" if node.dtype.name == "bool" else f"~{given[0]}",
    }
    if op == "remainder" and not _is_power_of_two(node.args[1]):
        raise NotExpressibleError("no C form of remainder by this")
    if op not in forms or node.dtype.name not in TYPES:
        raise NotExpressibleError(f"no C form of {op}")
    return forms[op]()


def constant_text(node: Node) -> str:
    """A constant's exact value in C."""
    value = constant_value(node)
    text = float(value).hex() if node.dtype.kind == "f" else str(int(value))
    return f"({TYPES[node.dtype.name]}){text}"


def _is_power_of_two(node: Node) -> bool:
    """Whether it is a constant by which the short form of a float's remainder is right."""
    known = node.op.name == "constant" and node.dtype.kind == "f"
    return known and np.frexp(float(constant_value(node)))[0] == 0.5


def function_text(graph: Graph) -> str:
    """The whole formula: rows of `m` elements, `n` of them."""
    names: dict[int, str] = {}
    lines: list[str] = []
    arguments: list[str] = []
    places = {each.name: place for place, each in enumerate(graph.parameters)}
    widest = max(len(each.shape) for each in graph.parameters)
    for number, node in enumerate(graph.nodes):
        kind = TYPES.get(node.dtype.name)
        if kind is None:
            raise NotExpressibleError(f"no C type for {node.dtype}")
        name = names[id(node)] = f"v{number}"
        if node.op.name in ("input", "scalar"):
            parameter = graph.parameters[places[node.text]]
            if parameter.dtype is None:
                arguments.append(f"{kind} {name}")
                continue
            arguments.append(f"const {kind} *p{number}")
            index = "j" if len(parameter.shape) < widest else "i * m + j"
            lines.append(f"const {kind} {name} = p{number}[{index}];")
        elif node.op.name == "constant":
            lines.append(f"const {kind} {name} = {constant_text(node)};")
        else:
            lines.append(f"const {kind} {name} = {spelled(node, names)};")
    for number, node in enumerate(graph.outputs):
        if len(node.shape) != widest:
            raise NotExpressibleError("a result of another shape")
        arguments.append(f"{TYPES[node.dtype.name]} *restrict t{number}")
        lines.append(f"t{number}[i * m + j] = {names[id(node)]};")
    if widest == 1:  # a vector is as many rows of 4,096 as it has, and what is left
        loop = (
            "#pragma omp parallel for simd schedule(static)\nfor (int64_t j = 0; j < m; j++)"
        )
        head = "const int64_t i = 0; (void)n;\n"
    else:
        loop = (
            "#pragma omp parallel for schedule(static)\nfor (int64_t i = 0; i < n; i++)\n"
            "#pragma omp simd\nfor (int64_t j = 0; j < m; j++)"
        )
        head = ""
    body = "\n".join(lines)
    listed = ", ".join(arguments)
    return f"{HEAD}void run(int64_t n, int64_t m, {listed}) {{\n{head}{loop} {{\n{body}\n}}\n}}\n"


def use_threads(array_bytes: int) -> None:
    """All threads, or one where waking the others would cost more than the work."""
    library = ctypes.CDLL("libgomp.so.1")
    library.omp_set_num_threads(PROCESSORS if array_bytes >= PARALLEL_BYTES else 1)


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of zeros that begins with a cache line, as results of the fuser do."""
    size = math.prod(shape) * dtype.itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + size] = 0  # its pages are there from now on
    return room[start : start + size].view(dtype).reshape(shape)


class CFunction:
    """A compiled formula; `bind` makes what it is called with."""

    def __init__(self, graph: Graph) -> None:
        """Compile."""
        self.graph = graph
        self.run = compiled(function_text(graph)).run

    def bind(self, arguments: Any) -> tuple[Any, ...]:
        """Addresses of arguments and of results, which are allocated here."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        if not all(each.flags.c_contiguous for each in arrays):
            raise NotExpressibleError("strided arguments")
        largest = max(arrays, key=lambda each: each.size)
        rows, columns = (1, largest.size) if largest.ndim == 1 else largest.shape
        outputs = [aligned(largest.shape, node.dtype) for node in self.graph.outputs]
        use_threads(largest.nbytes)
        given: list[Any] = [ctypes.c_int64(rows), ctypes.c_int64(columns)]
        for argument, parameter in zip(arguments, self.graph.parameters, strict=True):
            if isinstance(argument, np.ndarray):
                given.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                scalar = next(n for n in self.graph.nodes if n.text == parameter.name)
                kind = ctypes.c_float if scalar.dtype.name == "float32" else ctypes.c_double
                given.append(kind(argument))
        given += [ctypes.c_void_p(each.ctypes.data) for each in outputs]
        self.keep = (arrays, outputs)
        return tuple(given)

    def __call__(self, *given: Any) -> Any:
        """Run; the results are in arrays that were there before."""
        self.run(*given)
        return tuple(self.keep[1]) if len(self.keep[1]) > 1 else self.keep[1][0]


class CViews:
    """A compiled formula of one result whose operands are transposed or have a stride."""

    def __init__(self, graph: Graph, arguments: Any) -> None:
        """Compile for the strides of these arguments.

        Raises:
            NotExpressibleError: other views than these, or Python numbers.
        """
        self.steps = [element_step(each) for each in arguments]
        if 0 in self.steps or len(graph.outputs) != 1:
            raise NotExpressibleError("no C form of these views")
        (self.output,) = graph.outputs
        places = {each.name: place for place, each in enumerate(graph.parameters)}
        names = {id(node): f"v{number}" for number, node in enumerate(graph.nodes)}
        read = [arg for node in graph.nodes if node.op.name != "transpose" for arg in node.args]
        lines: list[str] = []
        self.operands: list[Operand] = []
        for node in graph.nodes:
            kind, name = TYPES[node.dtype.name], names[id(node)]
            source = node.args[0] if node.op.name == "transpose" else node
            if source.op.name != "input":
                value = constant_text(node) if not node.args else spelled(node, names)
                lines.append(f"const {kind} {name} = {value};")
            elif any(node is each for each in read):
                place = places[source.text]
                step = 1 if len(node.shape) == 2 else self.steps[place]
                self.operands.append(Operand(f"p{name}", kind, place, step, source is not node))
                lines.append(f"const {kind} {name} = p{name}[j * {step}];")
        lines.append(f"t[j] = {names[id(self.output)]};")
        text = matrix_text if len(self.output.shape) == 2 else vector_text
        result = TYPES[self.output.dtype.name]
        self.run = compiled(HEAD + WAYS + text(" ".join(lines), self.operands, result)).run

    def bind(self, arguments: Any) -> tuple[Any, ...]:
        """Addresses, and the form that is fastest on these arrays.

        Raises:
            NotExpressibleError: strides other than those that this was compiled for.
        """
        flat = [each for each in arguments if each.ndim == 1 or each.flags.c_contiguous]
        if len(flat) < len(arguments) or [element_step(each) for each in arguments] != self.steps:
            raise NotExpressibleError("strides of another kind")
        shape = arguments[self.operands[0].place].shape
        if self.operands[0].turned:
            shape = shape[::-1]
        result = aligned(shape, self.output.dtype)
        use_threads(result.nbytes)
        lengths = shape if len(shape) == 2 else (1, *shape)
        addresses = [arguments[each.place].ctypes.data for each in self.operands]
        addresses.append(result.ctypes.data)
        self.keep = (arguments, result)
        ways = [
            (*map(ctypes.c_int64, (*lengths, *form)), *map(ctypes.c_void_p, addresses))
            for form in forms_of(len(shape))
        ]
        return min(ways, key=lambda given: _seconds(lambda: self.run(*given)))

    def __call__(self, *given: Any) -> Any:
        """Run; the result is in an array that was there before."""
        self.run(*given)
        return self.keep[1]


class CRows:
    """A compiled formula of rows; `bind` makes what it is called with."""

    def __init__(self, name: str, arguments: Any) -> None:
        """Compile for the arguments' dtype."""
        self.name = name
        self.run = compiled(HEAD + row_text(name, arguments[0].dtype)).run

    def bind(self, arguments: Any) -> tuple[Any, ...]:
        """Addresses of arguments and of results, which are allocated here."""
        outputs = [aligned(shape, dtype) for shape, dtype in row_shapes(self.name, arguments)]
        use_threads(max(each.nbytes for each in (*arguments, *outputs)))
        given = [ctypes.c_void_p(each.ctypes.data) for each in (*arguments, *outputs)]
        given[len(arguments) : len(arguments)] = [ctypes.c_void_p()] * (3 - len(arguments))
        given += [ctypes.c_void_p()] * (5 - len(given))
        self.keep = (arguments, outputs)
        lengths = row_lengths(arguments)
        ways = [(*map(ctypes.c_int64, (*lengths, past)), *given) for past in (0, 1)]
        if outputs[0].nbytes < PARALLEL_BYTES:  # nobody sends so little past the caches
            return ways[0]
        return min(ways, key=lambda given: _seconds(lambda: self.run(*given)))

    def __call__(self, *given: Any) -> Any:
        """Run; the results are in arrays that were there before."""
        self.run(*given)
        return tuple(self.keep[1]) if len(self.keep[1]) > 1 else self.keep[1][0]


class CRunner:
    """Formulas in C."""

    def prepare(self, function: Callable[..., Any], arguments: Any) -> CFunction | CViews | CRows:
        """Trace and compile; formulas of rows are written by hand.

        Raises:
            NotExpressibleError: the formula has no C form here.
        """
        if function.__name__ in WRITTEN:
            return CRows(function.__name__, arguments)
        try:
            graph = fuser.trace(function, *arguments)
        except fuser.FuserError as error:
            raise NotExpressibleError(str(error).splitlines()[0]) from error
        gaps = any(element_step(each) not in (0, 1) for each in arguments)
        if gaps or any(node.op.name == "transpose" for node in graph.nodes):
            return CViews(graph, arguments)
        return CFunction(graph)

    def accept(self, arguments: Any) -> Any:
        """The arguments as they are: `bind` converts them."""
        return arguments


class Memory:
    """The memory's own speed: copy, triad, read; with ordinary stores or past the caches."""

    def __init__(self) -> None:
        """Compile."""
        self.library = compiled(HEAD + MEMORY)

    def passes(self, touched_bytes: int) -> dict[str, tuple[Callable[[], Any], int]]:
        """Calls that each go over about so much memory, with the bytes that each moves."""
        found = {}
        use_threads(touched_bytes // 2)
        for name, arrays in PASSES.items():
            size = max(64, touched_bytes // arrays // 64 * 64)
            room = [np.ones(size + 64, np.uint8) for _ in range(arrays)]
            places = [each.ctypes.data + -each.ctypes.data % 64 for each in room]
            given = (*map(ctypes.c_void_p, (places * 3)[:3]), ctypes.c_int64(size))
            ways = [Pass(getattr(self.library, name), (*given, past), room) for past in (0, 1)]
            found[name.strip("_")] = (min(ways, key=_seconds), arrays * size)
        return found


class Pass:
    """A call that keeps the memory that it works on."""

    def __init__(self, run: Any, given: tuple[Any, ...], room: list[Any]) -> None:
        """Hold all three."""
        self.run, self.given, self.room = run, given, room

    def __call__(self) -> None:
        """Go over the memory once."""
        self.run(*self.given)


def _seconds(call: Callable[[], Any]) -> float:
    """The least of some calls, each of a millisecond or more."""
    call()
    start_s = now_s()
    call()
    count = max(1, int(0.001 / max(now_s() - start_s, 1e-9)))
    samples = []
    for _ in range(5):
        start_s = now_s()
        for _ in range(count):
            call()
        samples.append((now_s() - start_s) / count)
    return min(samples)
