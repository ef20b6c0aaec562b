"""erfc as device functions: CUDA's own is within 4 ulp in float and 5 in double, too much here.

The method and the coefficients are the CPU backend's (`backends/cpu/elementary/special.py`):
e^(-x^2) R(x) / (1 + 2x) with R in (x - K) / (x + K), all in double for both precisions.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu.elementary.special import COMPLEMENTS


def _horner(variable: str, coefficients: Sequence[float]) -> str:
    """A polynomial, lowest coefficient first, with one rounding a step."""
    text = coefficients[-1].hex()
    for coefficient in reversed(coefficients[:-1]):
        text = f"fma({text}, {variable}, {coefficient.hex()})"
    return text


def complement(name: str, precision: str) -> str:
    """The definition of erfc in double, exact enough for a precision of the result."""
    table = COMPLEMENTS[precision]
    center = float(table.center).hex()
    near = far = ""
    if table.near:
        # What `part` is off 1 / (1 + 2a), as a factor, goes where the square's error goes.
        far = """
    error += fma(size + size - (grown - 1), part, fma(part, grown, -1.0));"""
        near = f"""
    if (size < 0.75) return 1 - fma({_horner("squared", table.near)}, x, x);"""
    return f"""
INLINE double {name}(double x) {{
    if (x != x) return x;
    const double size = fabs(x) < {table.bound.hex()} ? fabs(x) : {table.bound.hex()};
    const double squared = size * size;
    double error = fma(size, size, -squared);{near}
    const double grown = fma(size, 2.0, 1.0), above = size + {center};
    const double inverse = 1 / (above * grown);
    const double place = (size - {center}) * grown * inverse, part = above * inverse;
    const double tail = {_horner("place", table.ratio[1:])};
    const double sum = fma(tail, place, {table.ratio_low.hex()}) + {table.ratio[0].hex()};
    const double ratio = sum * part;{far}
    double value = exp(-squared) * ratio;
    value = fma(-error, value, value);
    return x < 0 ? 2 - value : value;
}}
"""
