"""Calls so small that the work is nothing: what is timed is the call itself."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normal,
    normals,
    side,
    square,
)

FAMILY = "call overhead"
CALL, INTO = "f(a, b, c)", "f(a, b, c, out=o)"
LINE, LINE_INTO = "a * b + c", "np.multiply(a, b, out=o); np.add(o, c, out=o)"


def _lines(
    line: str = LINE, call: str = CALL, line_into: str = "", call_into: str = ""
) -> dict[str, str]:
    """Return the statements that are timed: NumPy's, and the call of the fused function."""
    found = {"eager": line, "fused": call, "eager_into": line_into, "fused_into": call_into}
    return {name: text for name, text in found.items() if text}


SIZES = {"S": 1, "M": 16, "L": 256}


def multiply_add(a: Array, b: Array, c: Array) -> Any:
    """a b + c: two operations, three arrays."""
    return a * b + c


def multiply_add_scalars(a: Array, b: float, c: float) -> Any:
    """a b + c, where b and c are Python numbers."""
    return a * b + c


def multiply_add_plane(a: Array, b: Array, c: Array) -> Any:
    """a b + c on two axes."""
    return a * b + c


def multiply_add_strided(a: Array, b: Array, c: Array) -> Any:
    """a b + c on every other element of longer arrays."""
    return a * b + c


def sum_and_difference(a: Array, b: Array) -> Any:
    """a + b and a - b: two results."""
    return a + b, a - b


def multiply_add_own_out(a: Array, b: Array, c: Array, out: Array) -> Any:
    """a b + c, written into an array that the function takes for it, and returned."""
    out[...] = a * b + c
    return out


def product_and_transpose(a: Array, b: Array) -> Any:
    """a b, and the same memory seen as its transpose."""
    product = a * b
    return product, product.T


def row_bias(x: Array, b: Array) -> Any:
    """max(2 x + b, 0), where b is added to each of sixteen rows."""
    return np.maximum(x * 2 + b, 0)


def add_product_to(a: Array, b: Array, c: Array) -> Any:
    """a += b c: in place. b holds zeros, so that every call finds what the first one found."""
    a += b * c
    return a


def softmax_rows(a: Array) -> Any:
    """softmax of short rows."""
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def nine_operations(a: Array, b: Array) -> Any:
    """A gelu with bias: nine operations' worth of calls."""
    u = a + b
    return 0.5 * u * (1 + np.tanh(0.79788456 * u * (1 + 0.044715 * u * u)))


def small_softmax(x: Array) -> Any:
    """softmax of one short row: five operations, two of them reductions."""
    weights = np.exp(x - np.max(x))
    return weights / np.sum(weights)


def sixteen_arguments(
    a: Array, b: Array, c: Array, d: Array, e: Array, f: Array, g: Array, h: Array,
    i: Array, j: Array, k: Array, m: Array, n: Array, o: Array, p: Array, q: Array,
) -> Any:
    """The sum of sixteen arrays: every argument is checked."""
    return a + b + c + d + e + f + g + h + i + j + k + m + n + o + p + q


def _number(elements: int, dtype: Any, generator: np.random.Generator) -> float:
    return float(generator.normal())


def _row(elements: int) -> tuple[int, int]:
    return 1, elements


def _twice(elements: int) -> int:
    return 2 * elements


_square = drawn(normal, shape=square)
_row_and_column = given(
    _square, drawn(normal, shape=side), drawn(normal, shape=lambda elements: (side(elements), 1)),
)  # fmt: skip
_with_bias = given(drawn(normal, shape=lambda elements: (16, elements)), drawn(normal))


def _mixed(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    kinds = (dtype, np.dtype(np.float64), dtype)
    return tuple(normal(generator, elements, kind) for kind in kinds)


def _numpy_scalars(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    return tuple(normal(generator, 1, dtype)[0] for _ in range(3))


def _zeros(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Array:
    return np.zeros(elements, dtype)


WORKLOADS = (
    Workload(
        "multiply_add", FAMILY, "a b + c on tiny arrays", multiply_add, normals(3), sizes=SIZES,
        quick=True, small_into=True, statements=_lines(line_into=LINE_INTO, call_into=INTO),
    ),
    Workload(
        "multiply_add_scalars", FAMILY, "a b + c with two Python numbers", multiply_add_scalars,
        given(drawn(normal), _number, _number), sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "multiply_add_square", FAMILY, "a b + c on square matrices", multiply_add,
        given(*[_square] * 3), sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "multiply_add_columns", FAMILY, "a b + c on every other column of matrices", multiply_add,
        given(*[drawn(normal, shape=square, step=2)] * 3), sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "multiply_add_broadcast", FAMILY, "a matrix times a row plus a column", multiply_add,
        _row_and_column, sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "multiply_add_keywords", FAMILY, "a b + c, called with keywords", multiply_add,
        normals(3), sizes=SIZES, statements=_lines(call="f(a=a, b=b, c=c)"),
    ),
    Workload(
        "multiply_add_numpy_scalars", FAMILY, "a b + c of NumPy's scalars", multiply_add,
        _numpy_scalars, sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "multiply_add_mixed", FAMILY, "a b + c where b is float64", multiply_add, _mixed,
        sizes=SIZES, dtypes=("float32",), statements=_lines(),
    ),
    Workload(
        "add_product_to", FAMILY, "a += b c, in place", add_product_to,
        given(drawn(normal), _zeros, drawn(normal)), sizes=SIZES, statements=_lines("a += b * c"),
    ),
    Workload(
        "softmax_rows", FAMILY, "softmax of the short rows of a square", softmax_rows,
        given(_square), sizes=SIZES, tolerance_eps=64, statements=_lines(
            "e = np.exp(a - a.max(-1, keepdims=True)); e / e.sum(-1, keepdims=True)", "f(a)"
        ),
    ),
    Workload(
        "multiply_add_plane", FAMILY, "a b + c on two axes", multiply_add_plane,
        given(*[drawn(normal, shape=_row)] * 3), sizes=SIZES,
    ),
    Workload(
        "multiply_add_strided", FAMILY, "a b + c on every other element", multiply_add_strided,
        given(*[drawn(normal, shape=_twice, step=2)] * 3), sizes=SIZES, statements=_lines(),
    ),
    Workload(
        "sum_and_difference", FAMILY, "two results of tiny arrays", sum_and_difference, normals(2),
        sizes=SIZES, small_into=True, statements=_lines("(a + b, a - b)", "f(a, b)"),
    ),
    Workload(
        "multiply_add_own_out", FAMILY, "a b + c into an array of the function's own parameters",
        multiply_add_own_out, normals(4), sizes=SIZES,
    ),
    Workload(
        "product_and_transpose", FAMILY, "a product and a view of it", product_and_transpose,
        given(*[drawn(normal, shape=_row)] * 2), sizes=SIZES,
    ),
    Workload(
        "row_bias", FAMILY, "a bias added to sixteen short rows", row_bias, _with_bias, sizes=SIZES,
    ),
    Workload(
        "nine_operations", FAMILY, "bias and gelu on tiny arrays", nine_operations, normals(2),
        sizes=SIZES, tolerance_eps=32,
    ),
    Workload(
        "small_softmax", FAMILY, "softmax of one short row", small_softmax, normals(1),
        sizes=SIZES, tolerance_eps=64,
    ),
    Workload(
        "sixteen_arguments", FAMILY, "the sum of sixteen tiny arrays", sixteen_arguments,
        normals(16), sizes=SIZES, tolerance_eps=64,
    ),
)
