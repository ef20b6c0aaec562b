"""C++ types and literals of NumPy's dtypes, and conversions between them.

Registers hold bool as bool, integers at their own width, float32 and float64 as such, complex
numbers as pairs of those, and float16 and bfloat16 as a float that is rounded after every operation
(as NumPy and ml_dtypes compute).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: NumPy dtype name -> C++ type in memory.
MEMORY = {
    "bool": "unsigned char",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "unsigned short",
    "float32": "float",
    "float64": "double",
    "bfloat16": "unsigned short",
    "complex64": "float2",
    "complex128": "double2",
}
#: NumPy dtype name -> C++ type in registers.
REGISTER = {**MEMORY, "bool": "bool", "float16": "float", "bfloat16": "float"}
#: Narrow floats -> the function that rounds a float to one of them.
ROUNDED = {"float16": "round_half", "bfloat16": "round_bfloat"}
#: Complex dtypes -> that of their parts.
PARTS = {"complex64": "float32", "complex128": "float64"}


def itemsize(dtype: str) -> int:
    """Bytes of one element in memory."""
    return np.dtype(dtype).itemsize


def wrapping(dtype: str) -> str:
    """The unsigned type that arithmetic on an integer dtype is done in: overflow wraps around.

    Narrow types would be promoted to int, whose overflow is undefined.
    """
    return "unsigned long long" if itemsize(dtype) == 8 else "unsigned int"


def literal(dtype: str, bits: int) -> str:
    """A constant as an expression with exactly these bits.

    Args:
        dtype: NumPy dtype name.
        bits: the element's bits as a non-negative integer.
    """
    if dtype == "bool":
        return "true" if bits else "false"
    if dtype in PARTS:
        wide = 4 * itemsize(dtype)
        parts = (bits & ((1 << wide) - 1), bits >> wide)
        return joined(dtype, *(literal(PARTS[dtype], part) for part in parts))
    if dtype == "bfloat16":
        return literal("float32", bits << 16)
    value: Any = np.array(bits, dtype=f"uint{8 * itemsize(dtype)}").view(dtype)[()]
    if "int" in dtype:
        return _integer(dtype, int(value), bits)
    if dtype == "float16":
        value = np.float32(value)
    return real(float(value), REGISTER[dtype], _own_bits(value))


def joined(dtype: str, real: str, imaginary: str) -> str:
    """A complex number of its parts."""
    return f"make_{REGISTER[dtype]}({real}, {imaginary})"


def _integer(dtype: str, value: int, bits: int) -> str:
    """A decimal literal; the least integer has none."""
    if dtype == "uint64":
        return f"{bits}ULL"
    if dtype == "int64":
        return f"(long long)0x{bits:x}ULL" if value == -(2**63) else f"{value}LL"
    if dtype == "uint32":
        return f"{bits}u"
    if dtype == "int32":
        return "(int)0x80000000u" if value == -(2**31) else str(value)
    return f"({REGISTER[dtype]}){value}"


def _own_bits(value: Any) -> int:
    """The bits of a float32 or float64."""
    return int(value.view(f"uint{8 * value.itemsize}"))


def real(value: float, register: str, bits: int | None = None) -> str:
    """A floating-point literal in hexadecimal, exact.

    Args:
        value: what it is; float32 values are given as the float64 of the same value.
        register: "float" or "double".
        bits: of a NaN, whose payload is kept.
    """
    single = register == "float"
    if math.isfinite(value):
        return value.hex() + ("f" if single else "")
    if math.isinf(value):
        bits = 0x7F800000 if single else 0x7FF0000000000000
        sign = "-" if value < 0 else ""
    else:
        quiet = 0x7FC00000 if single else 0x7FF8000000000000
        bits, sign = quiet if bits is None else bits, ""
    if single:
        return f"{sign}__uint_as_float(0x{bits:08x}u)"
    return f"{sign}__longlong_as_double(0x{bits:016x}LL)"


def convert(x: str, source: str, target: str) -> str:
    """An expression that converts as NumPy's casts do.

    Floats out of an integer's range give an unspecified value, as in C and in NumPy.
    """
    if source == target:
        return x
    if source in PARTS:
        return _from_complex(x, source, target)
    if target in PARTS:
        zero = literal(PARTS[target], 0)
        return joined(target, convert(x, source, PARTS[target]), zero)
    if target == "bool":
        return f"{x} != 0"
    if source == "bool":
        return f"({REGISTER[target]}){x}"
    if target == "float16":
        return _to_half(x, "float32" if source == "bfloat16" else source)
    if target == "bfloat16":  # ml_dtypes goes through float32
        return f"round_bfloat((float){x})"
    if "float" in source and "int" in target:
        return _truncate(x, target)
    return f"({REGISTER[target]}){x}"


def _from_complex(x: str, source: str, target: str) -> str:
    """To another precision, to the real part alone, or to whether it is not zero."""
    if target in PARTS:
        parts = (f"{x}.{part}" for part in "xy")
        return joined(target, *(convert(p, PARTS[source], PARTS[target]) for p in parts))
    if target == "bool":
        return f"{x}.x != 0 || {x}.y != 0"
    return convert(f"{x}.x", PARTS[source], target)


def _to_half(x: str, source: str) -> str:
    """Round once: NumPy goes through float32 below 32 bits, through float64 from there."""
    if source == "float32":
        return f"round_half({x})"
    if source == "float64":
        return f"half_to_float(half_from_double({x}))"
    if itemsize(source) <= 2:
        return f"round_half((float){x})"
    return f"half_to_float(half_from_double((double){x}))"


def _truncate(x: str, target: str) -> str:
    """Towards zero. Narrow integers are converted through a wider signed one, as C does."""
    if target == "uint64":
        return f"(unsigned long long){x}"
    wide = "long long" if target in ("int64", "uint32") else "int"
    return f"(long long){x}" if target == "int64" else f"({REGISTER[target]})({wide}){x}"
