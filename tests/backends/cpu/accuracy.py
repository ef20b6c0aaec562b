"""How far the elementary functions are from the true value, measured: kernels, references, samples.

`tools/accuracy_table.py` tries every float32 input of every unary function with them.

The reference for float32 is NumPy's double function; for float64 it is its 80-bit long double
function, which is the C library's. The error is counted in units in the last place of the true
value; below the least normal number the unit is that of the subnormals.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import binding as llvm

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

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
BINARY = frozenset({"power", "arctan2", "hypot"})


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


def reference(name: str, *inputs: Array) -> Array:
    """The true values: in double of float32, in long double of float64."""
    wider = np.float64 if inputs[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        wide: list[Array] = [x.astype(wider) for x in inputs]
        if name == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-wide[0])))
        if name in ("erf", "erfc"):  # which NumPy has not
            return _by_the_c_library(f"{name}l", wide[0].astype(np.longdouble)).astype(wider)
        return np.asarray(getattr(np, name)(*wide))


_LOOP = """\
declare x86_fp80 @{symbol}(x86_fp80)
define void @f(ptr %x, ptr %y, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = mul i64 %i, 16
  %p = getelementptr i8, ptr %x, i64 %at
  %a = load x86_fp80, ptr %p, align 16
  %r = call x86_fp80 @{symbol}(x86_fp80 %a)
  %q = getelementptr i8, ptr %y, i64 %at
  store x86_fp80 %r, ptr %q, align 16
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _by_the_c_library(symbol: str, x: Array) -> Array:
    """A function of long doubles, for each element: ctypes would round its results to double."""
    result = np.empty_like(x)
    machine = cross_machine(host_target())
    _jit, library = load(machine, _LOOP.format(symbol=symbol), [symbol])
    kinds = [ctypes.c_void_p] * 2 + [ctypes.c_int64]
    if x.size:
        ctypes.CFUNCTYPE(None, *kinds)(library["f"])(x.ctypes.data, result.ctypes.data, x.size)
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


def worst(errors: Array, *inputs: Array) -> tuple[float, tuple[float, ...]]:
    """The greatest error and the inputs that it belongs to."""
    index = int(np.argmax(errors))
    return float(errors[index]), tuple(float(array[index]) for array in inputs)


# -- samples ---------------------------------------------------------------------------------------


def sample_bits(scalar: str, count: int) -> Array:
    """Evenly spread bit patterns, every exponent's ends, and special values.

    Args:
        scalar: "float" or "double".
        count: how many evenly spread patterns.
    """
    integer = np.uint32 if scalar == "float" else np.uint64
    width, digits = (32, 23) if scalar == "float" else (64, 52)
    step = (1 << width) // count
    even = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(step // 3)
    starts = np.arange(1 << (width - digits), dtype=np.uint64) << np.uint64(digits)
    ends = np.concatenate([starts, starts + np.uint64(1), starts - np.uint64(1)])
    return np.concatenate([even, ends]).astype(integer).view(DTYPES[scalar])


RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "arccos": ((-1, 1), (-0.6, 0.6), (0.99, 1)),
    "arccosh": ((1, 10), (1, 1.1), (1, 2), (1, 1e6)),
    "arcsin": ((-1, 1), (-0.6, 0.6), (0.99, 1)),
    "arcsinh": ((-10, 10), (-1, 1), (-100, 100), (-0.1, 0.1)),
    "arctan": ((-10, 10), (-3, 3), (-1, 1), (-0.5, 0.5)),
    "arctanh": ((-1, 1), (-0.5, 0.5), (-0.1, 0.1), (0.9, 1)),
    "cbrt": ((-10, 10), (1, 8), (-1e9, 1e9)),
    "cos": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "cosh": ((-711, 711), (-5, 5), (-1, 1), (-90, 90)),
    "erf": ((-6, 6), (-1.1, 1.1), (-3, 3)),
    "erfc": ((-6, 28), (-1.1, 1.1), (0, 5), (0, 10)),
    "exp": ((-746, 710), (-1, 1), (-745, -700), (-104, 89)),
    "exp2": ((-1080, 1030), (-2, 2), (-1075, -1020), (-150, 130)),
    "expm1": ((-40, 710), (-1, 1), (-2, 3), (-0.1, 0.1)),
    "log": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "log10": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "log1p": ((-1, 10), (-0.5, 0.6), (-0.1, 0.1), (0, 1e9)),
    "log2": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "sigmoid": ((-746, 40), (-5, 5), (-40, 40), (-1, 1)),
    "sin": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "sinh": ((-711, 711), (-5, 5), (-1, 1), (-90, 90)),
    "tan": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "tanh": ((-20, 20), (-1, 1), (-0.4, 0.4), (-3, 3)),
}
"""Where each unary function is neither constant nor out of range."""


def sample_ranges(name: str, scalar: str, count: int, seed: int) -> list[Array]:
    """Uniform random values of a function's ranges, `count` of each."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(*ends, count).astype(DTYPES[scalar]) for ends in RANGES[name]]


def sample_pairs(name: str, scalar: str, count: int, seed: int) -> list[tuple[Array, Array]]:
    """Random operands of a binary function: `count` of each kind, and all pairs of specials."""
    generator = np.random.default_rng(seed)
    dtype = DTYPES[scalar]
    integer = np.uint32 if scalar == "float" else np.uint64
    top = np.iinfo(integer).max
    bits = generator.integers(0, top, count, dtype=integer, endpoint=True).view(dtype)
    others = generator.integers(0, top, count, dtype=integer, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        special = SPECIALS.astype(dtype)
        pairs = [
            (np.repeat(special, special.size), np.tile(special, special.size)),
            (bits, others),
            (bits, (bits * generator.uniform(0.1, 10, count)).astype(dtype)),
            (bits, generator.uniform(-3, 3, count).astype(dtype)),
        ]
        powers = generator.uniform(-160, 140, count) * (1.0 if scalar == "float" else 7.3)
        pairs.append(
            (np.abs(bits), (powers / np.log2(np.abs(bits, dtype=np.float64))).astype(dtype))
        )
    for low, high, low_y, high_y in (
        (0, 10, -20, 20),
        (0.5, 2, -1000, 1000),
        (0.99, 1.01, -70000, 70000),
        (-1, 1, -1, 1),
    ):
        x = generator.uniform(low, high, count).astype(dtype)
        pairs.append((x, generator.uniform(low_y, high_y, count).astype(dtype)))
    whole = generator.integers(-50, 50, count).astype(dtype)
    pairs.append((whole, generator.integers(-10, 20, count).astype(dtype)))
    return pairs


SPECIALS = np.array(
    [
        *(0.0, 1.0, 2.0, 0.5, 3.0, 2.5, 0.3, 7.0, np.inf, 1e-45, 1e-310, 5e-324, 1e-38, 1e30),
        *(1e308, 1.7976931348623157e308, 3.4028234663852886e38, 2.2250738585072014e-308),
        *(2.0**-126, 8388609.0, 16777217.0, 2.0**52 + 1, 2.0**53, 1 + 2.0**-23, 1 + 2.0**-52),
        *(1 - 2.0**-24, 1 - 2.0**-53, 88.72284, 709.782712893384, 710.4758600739439),
    ]
)
SPECIALS = np.concatenate([SPECIALS, -SPECIALS, [np.nan]])
"""Values at which some function changes its kind, in every format."""


def hard_cases(scalar: str) -> Array:
    """Specials, and numbers that are closest to multiples of pi/2.

    The best rational approximations of pi/2 give the worst cases of argument reduction (Muller,
    Elementary Functions, 3rd edition, 2016, section 11.3.2). The worst double of all is left out,
    because the 80-bit references are wrong there; the tests have it.
    """
    multiples = np.arange(1, 20_001, dtype=np.longdouble) * (
        np.longdouble(2) * np.arctan(np.longdouble(1))
    )
    numerators = [3, 22, 333, 355, 103993, 104348, 208341, 312689, 833719, 1146408, 4272943]
    numerators += [5419351, 80143857, 165707065, 245850922, 411557987, 1068966896, 2549491779]
    with np.errstate(over="ignore", under="ignore"):
        exact = np.array([*numerators, *(n / 2 for n in numerators)])
        return np.concatenate([SPECIALS, exact, -exact, multiples]).astype(DTYPES[scalar])
