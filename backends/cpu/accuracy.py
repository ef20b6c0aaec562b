"""How far the elementary functions are from the true value, measured.

The kernels, references and samples here serve the tests and `accuracy_table`, which tries every
float32 input of every unary function and writes docs/accuracy.md.

The reference for float32 is the C library's double function; for float64 it is its 80-bit long
double function. The error is counted in units in the last place of the true value; below the
least normal number the unit is that of the subnormals.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from fuser.backends.cpu.accuracy_samples import BINARY, DTYPES, Array
from fuser.backends.cpu.body import BITS, Body, Features, Module, Value, vector_type
from fuser.backends.cpu.elementary.table import ELEMENTARY
from fuser.backends.cpu.machine.target import (
    KNOWN_TARGETS,
    NEON,
    address_of,
    cross_machine,
    host_features,
)
from fuser.backends.cpu.shared_functions import module_text

C_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "power": "pow",
}
"""Where the C library's name is not NumPy's."""


def host_target() -> str:
    """The richest of `KNOWN_TARGETS` that this machine can run."""
    features = host_features()
    if features == NEON:
        return "neon"
    if features.vector_bytes == 64:
        return "avx512"
    return "avx2" if features.fma and features.vector_bytes == 32 else "baseline"


# -- kernels ---------------------------------------------------------------------------------------


def load(
    machine: Any, text: str, imports: Sequence[str], features: Features | None = None
) -> tuple[Any, Any]:
    """Compile a module that exports `f`; return what must be kept alive, and the library.

    With features given, functions that kernels share are compiled for these, beside it.
    """
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(parsed))
    builder.export_symbol("f")
    for symbol in imports:
        shared = module_text(symbol, features) if features else None
        if shared:
            builder.add_object_img(machine.emit_object(llvm.parse_assembly(shared)))
        else:
            builder.import_symbol(symbol, address_of(symbol))
    jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
    return jit, builder.link(jit, "elementary")


def loop_module(
    build: Callable[..., Value], scalar: str, features: Features, lanes: int, arity: int
) -> Module:
    """A function `f(inputs..., output, count)` that applies `build` to whole vectors."""
    module = Module(features)
    b = Body(module)
    kind = vector_type(scalar, lanes)
    names = [f"%x{k}" for k in range(arity)]
    b.jump("loop")
    operands = []
    for name in names:
        place = b.value(f"getelementptr {scalar}, ptr {name}, i64 %i", "i64", 1)
        operands.append(b.value(f"load {kind}, ptr {place.text}, align 4", scalar, lanes))
    result = build(b, *operands)
    place = b.value(f"getelementptr {scalar}, ptr %y, i64 %i", "i64", 1)
    b.line(f"store {result.typed}, ptr {place.text}, align 4")
    b.line(f"%next = add i64 %i, {lanes}")
    b.line("%more = icmp ult i64 %next, %count")
    b.line("br i1 %more, label %loop, label %done")
    ended = b.block
    b.start("done")
    b.line("ret void")
    b.lines.insert(2, f"  %i = phi i64 [ 0, %entry ], [ %next, %{ended} ]")
    arguments = ", ".join(f"ptr {name}" for name in names)
    head = f"define void @f({arguments}, ptr %y, i64 %count) #0 {{\nentry:"
    module.functions.append("\n".join([head, *b.lines, "}"]))
    return module


class Kernel:
    """An elementary function compiled into a loop over arrays."""

    def __init__(
        self,
        name: str,
        scalar: str,
        target: str,
        lanes: int | None = None,
        build: Callable[..., Value] | None = None,
    ) -> None:
        """Compile `name` for `target`, with vectors of the target's width by default."""
        self.name, self.scalar = name, scalar
        self._features = features = KNOWN_TARGETS[target][2]
        self.lanes = lanes or features.vector_bytes * 8 // BITS[scalar]
        self.arity = 2 if name in BINARY else 1
        module = loop_module(build or ELEMENTARY[name], scalar, features, self.lanes, self.arity)
        self.text = module.text()
        self.imports = module.imports
        self._machine = cross_machine(target)
        self._entry: Any = None

    def assembly(self) -> str:
        """The machine code as text."""
        return str(self._machine.emit_assembly(llvm.parse_assembly(self.text)))

    def _load(self) -> None:
        """Compile to machine code and find its entry."""
        self._jit, self._library = load(self._machine, self.text, self.imports, self._features)
        kinds = [ctypes.c_void_p] * (self.arity + 1) + [ctypes.c_int64]
        self._entry = ctypes.CFUNCTYPE(None, *kinds)(self._library["f"])

    def __call__(self, *inputs: Array) -> Array:
        """Apply the function to arrays of one length."""
        if self._entry is None:
            self._load()
        dtype = DTYPES[self.scalar]
        count = inputs[0].size
        padded = -(-count // self.lanes) * self.lanes
        wide = [np.ascontiguousarray(array, dtype) for array in inputs]
        if padded != count:
            wide = [np.concatenate([array, np.ones(padded - count, dtype)]) for array in wide]
        result = np.empty(padded, dtype)
        if count:
            self._entry(*(array.ctypes.data for array in wide), result.ctypes.data, padded)
        return result[:count]


# -- references and errors -------------------------------------------------------------------------


def c_symbol(name: str, suffix: str) -> str:
    """The C library's function: suffix "" for double, "l" for long double."""
    return C_NAMES.get(name, name) + suffix


class Reference:
    """A C library function over arrays: double for float32, long double for float64."""

    def __init__(self, name: str, scalar: str) -> None:
        """Compile the loop that calls the C function for each element."""
        self.scalar = scalar
        self.arity = 2 if name in BINARY else 1
        wide, suffix, wide_bytes = ("double", "", 8) if scalar == "float" else ("x86_fp80", "l", 16)
        called = "exp" if name == "sigmoid" else name
        symbol = c_symbol(called, suffix)
        lines = [f"declare {wide} @{symbol}({', '.join([wide] * self.arity)})"]
        arguments = ", ".join(f"ptr %x{k}" for k in range(self.arity))
        lines += [f"define void @f({arguments}, ptr %y, i64 %count) {{", "entry:"]
        lines += [" br label %loop", "loop:", " %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
        for k in range(self.arity):
            lines += [
                f" %p{k} = getelementptr {scalar}, ptr %x{k}, i64 %i",
                f" %a{k} = load {scalar}, ptr %p{k}",
                f" %w{k} = fpext {scalar} %a{k} to {wide}",
            ]
        if name == "sigmoid":
            one = "1.0" if wide == "double" else "0xK3FFF8000000000000000"
            lines += [
                f" %m = fneg {wide} %w0",
                f" %e = call {wide} @{symbol}({wide} %m)",
                f" %d = fadd {wide} %e, {one}",
                f" %r = fdiv {wide} {one}, %d",
            ]
        else:
            listed = ", ".join(f"{wide} %w{k}" for k in range(self.arity))
            lines.append(f" %r = call {wide} @{symbol}({listed})")
        lines += [
            f" %at = mul i64 %i, {wide_bytes}",
            " %q = getelementptr i8, ptr %y, i64 %at",
            f" store {wide} %r, ptr %q, align {wide_bytes}",
            " %next = add i64 %i, 1",
            " %more = icmp ult i64 %next, %count",
            " br i1 %more, label %loop, label %done",
            "done:",
            " ret void",
            "}",
        ]
        self._machine = cross_machine(host_target())
        self._jit, self._library = load(self._machine, "\n".join(lines), [symbol])
        kinds = [ctypes.c_void_p] * (self.arity + 1) + [ctypes.c_int64]
        self._entry = ctypes.CFUNCTYPE(None, *kinds)(self._library["f"])

    def __call__(self, *inputs: Array) -> Array:
        """The true values, in double or long double."""
        wide = [np.ascontiguousarray(array, DTYPES[self.scalar]) for array in inputs]
        result = np.empty(wide[0].size, np.float64 if self.scalar == "float" else np.longdouble)
        if result.size:
            self._entry(*(array.ctypes.data for array in wide), result.ctypes.data, result.size)
        return result


def ulp_errors(got: Array, true: Array) -> Array:
    """The distance of `got` from `true`, in units in the last place of the true value.

    Infinite where one is NaN and the other is not, or where zeros or infinities differ in sign.

    Args:
        got: float32[n] or float64[n].
        true: float64[n] or longdouble[n]: the reference in the next wider format.

    Returns:
        float64[n].
    """
    kind = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = true.astype(got.dtype)
        # An overflowed result stands where the next number after the greatest would.
        beyond = true.dtype.type(2.0) ** true.dtype.type(kind.maxexp)
        _, exponent = np.frexp(true)
        exponent = np.clip(exponent - 1, kind.minexp, kind.maxexp - 1)
        unit = np.ldexp(true.dtype.type(1.0), exponent - kind.nmant)
        shown = got.astype(true.dtype)
        shown = np.where(np.isinf(shown), np.copysign(beyond, shown), shown)
        errors = (np.abs(shown - true) / unit).astype(np.float64)
        same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
        errors = np.where(same, np.where(np.isinf(got), 0.0, np.minimum(errors, 0.5)), errors)
        both_zero = (got == 0) & (rounded == 0)
        wrong_sign = both_zero & (np.signbit(got) != np.signbit(rounded))
        one_nan = np.isnan(got) != np.isnan(true)
        errors = np.where(wrong_sign | one_nan | np.isinf(true) & ~same, np.inf, errors)
        return np.where(np.isnan(got) & np.isnan(true), 0.0, errors)


def float_errors_module(features: Features) -> str:
    """A function `f(got, true, errors, count)`: `ulp_errors` for float32, at machine speed.

    Args:
        features: of the processor; the count must be a multiple of 8.
    """
    module = Module(features)
    b = Body(module)
    places = {}
    for name, scalar in (("got", "float"), ("true", "double"), ("errors", "float")):
        places[name] = f"  %p_{name} = getelementptr {scalar}, ptr %{name}, i64 %i"
    got = Value("%g", "float", 8)
    true = Value("%t", "double", 8)
    field = b.op("and", b.as_integer(true), b.iconst(true, 0x7FF << 52))
    for limit, predicate in (((1023 - 126) << 52, "icmp ult"), ((1023 + 127) << 52, "icmp ugt")):
        bound = b.iconst(true, limit)
        field = b.select(b.compare(predicate, field, bound), bound, field)
    unit = b.as_float(b.op("sub", field, b.iconst(true, 23 << 52)))
    wide = b.cast("fpext", got, "double")
    infinite = b.compare("fcmp oeq", b.intrinsic("llvm.fabs", wide), b.fconst(wide, float("inf")))
    beyond = b.intrinsic("llvm.copysign", b.fconst(wide, 2.0**128), wide)
    shown = b.select(infinite, beyond, wide)
    error = b.op("fdiv", b.intrinsic("llvm.fabs", b.op("fsub", shown, true)), unit)
    rounded = b.cast("fptrunc", true, "float")
    same = b.compare("icmp eq", b.as_integer(rounded), b.as_integer(got))
    half = b.fconst(true, 0.5)
    capped = b.select(b.compare("fcmp olt", error, half), error, half)
    error = b.select(same, b.select(infinite, b.fconst(true, 0.0), capped), error)
    zeros = b.compare("fcmp oeq", b.op("fadd", rounded, got), b.fconst(got, 0.0))
    zeros = b.op("and", zeros, b.compare("fcmp oeq", rounded, b.fconst(got, 0.0)))
    wrong_sign = b.op("and", zeros, b.compare("icmp ne", b.as_integer(rounded), b.as_integer(got)))
    got_nan, true_nan = b.compare("fcmp uno", got, got), b.compare("fcmp uno", true, true)
    bad = b.op("or", wrong_sign, b.op("xor", got_nan, true_nan))
    error = b.select(b.op("and", got_nan, true_nan), b.fconst(true, 0.0), error)
    error = b.select(bad, b.fconst(true, float("inf")), error)
    result = b.cast("fptrunc", error, "float")
    lines = [
        "define void @f(ptr %got, ptr %true, ptr %errors, i64 %count) #0 {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *places.values(),
        "  %g = load <8 x float>, ptr %p_got, align 4",
        "  %t = load <8 x double>, ptr %p_true, align 8",
        *b.lines,
        f"  store {result.typed}, ptr %p_errors, align 4",
        "  %next = add i64 %i, 8",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    module.functions.append("\n".join(lines))
    return module.text()


class FloatErrors:
    """`ulp_errors` for float32, compiled."""

    def __init__(self) -> None:
        """Compile for this machine."""
        target = host_target()
        self._machine = cross_machine(target)
        text = float_errors_module(KNOWN_TARGETS[target][2])
        self._jit, self._library = load(self._machine, text, [])
        kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
        self._entry = ctypes.CFUNCTYPE(None, *kinds)(self._library["f"])

    def __call__(self, got: Array, true: Array) -> Array:
        """The errors of float32[n] against float64[n], n a multiple of 8."""
        if got.size % 8 or got.size != true.size:
            raise ValueError(
                f"{got.size} results and {true.size} references: want equal, by eights"
            )
        errors = np.empty(got.size, np.float32)
        self._entry(got.ctypes.data, true.ctypes.data, errors.ctypes.data, got.size)
        return errors


def worst(errors: Array, *inputs: Array) -> tuple[float, tuple[float, ...]]:
    """The greatest error and the inputs that it belongs to."""
    index = int(np.argmax(errors))
    return float(errors[index]), tuple(float(array[index]) for array in inputs)


def measure(kernel: Kernel, reference: Reference, *inputs: Array) -> tuple[float, Sequence[float]]:
    """The greatest error over the inputs, and where."""
    return worst(ulp_errors(kernel(*inputs), reference(*inputs)), *inputs)
