"""Graphs of one operation, the layouts in which it meets its operands, and what NumPy gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fuser.ir.graph import Graph
from fuser.ir.graph_text import parse
from fuser.ir.ops import Op, elementwise
from tests.backends.edge_cases import edge_cases
from tests.backends.references import Array, errors_in_ulp, true_values

#: Bits of float32's last place within float16's: what a float32 error costs after rounding.
_HALF_OF_SINGLE = 2.0**-13

#: (row, dtype) pairs where NumPy itself takes the zero of either operand, by its place.
_EITHER_ZERO = {(row, name) for row in ("fmax", "fmin") for name in ("float32", "float64")}
if not np.signbit(np.expm1(np.full(64, -0.0, np.float16))).all():  # NumPy 2.3.0: of arrays alone
    _EITHER_ZERO.add(("expm1", "float16"))


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the op table on operands of given dtypes."""

    op: Op
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        """`add-float32`, `ldexp-float32-int64`."""
        shown = self.dtypes[:1] if self.op.shared else self.dtypes
        return "-".join((self.op.name, *shown))

    @property
    def rows_dtype(self) -> str:
        """Name of the dtype that the row's kinds speak of."""
        return self.dtypes[0] if self.op.result == "first" else self.dtypes[-1]

    @property
    def result(self) -> str:
        """Name of the result's dtype."""
        fixed = {"same": self.dtypes[-1], "first": self.dtypes[0]}
        return fixed.get(self.op.result, self.op.result)


def operand_dtypes(op: Op) -> Iterator[tuple[str, ...]]:
    """Every combination of operand dtypes that a row admits."""
    for dtype in op.dtypes():
        if op.name == "where":
            yield ("bool", dtype, dtype)
        elif op.name == "ldexp":
            yield from ((dtype, exponent) for exponent in ("int32", "int64"))
        else:
            yield (dtype,) * op.arity


#: The whole table but for casts, which have two dtypes.
CASES = [
    Case(op, dtypes)
    for op in elementwise()
    if op.name != "cast"
    for dtypes in operand_dtypes(op)
]


def legal_operands(case: Case) -> tuple[Array, ...]:
    """Edge cases without those for which NumPy raises or leaves the value open."""
    operands = edge_cases(case.dtypes)
    whole = case.dtypes[0].lstrip("u").startswith("int")
    if case.op.name == "power" and whole:
        keep = operands[1] >= 0  # else ValueError
    elif case.op.name == "reciprocal" and whole:
        keep = operands[0] != 0  # else a conversion of infinity
    else:
        return operands
    return tuple(values[keep] for values in operands)


def reversed_and_strided(values: Array) -> Array:
    """A view of the same values in the same order, with a negative stride of two elements."""
    wide = values[:1].repeat(2 * values.size + 1)  # a method: the array stays on its device
    wide[1::2] = values[::-1]
    return wide[::-1][1::2]


def groups_of(cases: Iterable[Case], size: int) -> dict[str, tuple[Case, ...]]:
    """Cases that can have the same operands, at most so many to a group, by the group's name."""
    alike: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        own = case.op.name in ("power", "reciprocal")  # not all operands are legal
        alike.setdefault((case.dtypes, case.op.name if own else ""), []).append(case)
    groups = [
        tuple(each[k::-(-len(each) // size)])  # neighbours of the table apart
        for each in alike.values()
        for k in range(-(-len(each) // size))
    ]
    return {f"{group[0]}..{group[-1].op.name}": group for group in groups}


def flat_graph(*cases: Case) -> Graph:
    """Operations on the same contiguous arrays."""
    dtypes = cases[0].dtypes
    names = [f"x{k}" for k in range(len(dtypes))]
    parameters = (f"{name}: {dtype}[n0]" for name, dtype in zip(names, dtypes, strict=True))
    rows = [
        f"%{place} = {case.op.name} {' '.join(names)} : {case.result}[n0]"
        for place, case in enumerate(cases)
    ]
    return _graph(parameters, rows)


def layouts_graph(*cases: Case) -> Graph:
    """Operations on flat arrays, on strided ones, and with one operand after another 0-d.

    Its parameters are all operands flat, then all strided, then all 0-d.
    """
    dtypes = cases[0].dtypes
    arity = len(dtypes)
    parameters = [
        f"x{arity * kind + k}: {dtype}[{length}]"
        for kind, length in enumerate(("n0", "n1", ""))
        for k, dtype in enumerate(dtypes)
    ]
    steps = product(cases, _chosen_parameters(arity))
    rows = [
        f"%{place} = {case.op.name} {' '.join(f'x{k}' for k in chosen)} : {case.result}[{length}]"
        for place, (case, (chosen, length)) in enumerate(steps)
    ]
    return _graph(parameters, rows)


def _graph(parameters: Iterable[str], rows: Sequence[str]) -> Graph:
    """The graph whose results are all of its rows."""
    last = ", ".join(f"%{place}" for place in range(len(rows)))
    return parse("\n".join([f"graph({', '.join(parameters)}):", *rows, f"return {last}"]))


def _chosen_parameters(arity: int) -> list[tuple[list[int], str]]:
    """For each output of `layouts_graph`, the numbers of its operands and its length."""
    flat = list(range(arity))
    outputs = [(flat, "n0"), ([arity + k for k in flat], "n1")]
    for k in flat:
        mixed = [2 * arity + j if j == k else j for j in flat]
        outputs.append((mixed, "n0" if arity > 1 else ""))
    return outputs


def layouts_operands(operands: Sequence[Array]) -> list[list[Array]]:
    """The operands of each output of `layouts_graph`, for checking."""
    arguments = layouts_arguments(operands)
    return [[arguments[k] for k in chosen] for chosen, _ in _chosen_parameters(len(operands))]


def layouts_arguments(operands: Sequence[Array]) -> list[Array]:
    """The arguments of `layouts_graph`; 0-d ones are the last ordinary values."""
    strided = [reversed_and_strided(values) for values in operands]
    return [*operands, *strided, *(values[-1:].reshape(()) for values in operands)]


def allowed_error(op: Op, dtype: np.dtype[Any]) -> float:
    """The row's bound in units of the dtype's last place.

    float16 results are rounded once from a float32 computation: half a unit, and the row's
    error in float32's much smaller units.
    """
    return 0.5 + op.ulp * _HALF_OF_SINGLE if dtype == np.float16 else op.ulp


def assert_means(case: Case, got: Any, operands: Sequence[Array], context: str = "") -> None:
    """Compare a result with what NumPy gives for the same operands.

    Dtype, shape, NaN and the signs of zeros must be equal; so must values, except where the row
    states an error: there floats must be as near to the true value.

    Raises:
        AssertionError: with the first wrong elements.
    """
    with np.errstate(all="ignore"):
        want = np.asarray(case.op.numpy(*operands))
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), context
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    wrong = got != want
    if want.dtype.kind == "f":
        nan = np.isnan(want)
        wrong = (np.isnan(got) != nan) | _too_far(case.op, got, want, operands)
        if (case.op.name, case.dtypes[-1]) not in _EITHER_ZERO:
            zeros = (got == 0) & (want == 0)
            wrong |= zeros & (np.signbit(got) != np.signbit(want))
    assert not wrong.any(), f"{case} {context}: {_first_wrong(wrong, got, want, operands)}"


def _too_far(op: Op, got: Array, want: Array, operands: Sequence[Array]) -> Array:
    """Where floats are further from the true value than the row says."""
    different: Array = (got != want) & ~np.isnan(want)
    if not op.ulp or not different.any():
        return different
    places = np.nonzero(different)
    chosen = [np.broadcast_to(values, got.shape)[places] for values in operands]
    scale = chosen if op.cancels else ()
    errors = errors_in_ulp(got[places], true_values(op, *chosen), *scale)
    far = np.zeros(got.shape, bool)
    far[places] = errors > allowed_error(op, got.dtype)
    return far


def _first_wrong(wrong: Array, got: Array, want: Array, operands: Sequence[Array]) -> str:
    """Say what a few wrong elements are."""
    places = np.argwhere(wrong)
    shown = [
        f"({', '.join(repr(np.broadcast_to(v, got.shape)[tuple(at)]) for v in operands)})"
        f" gave {got[tuple(at)]!r}, not {want[tuple(at)]!r}"
        for at in places[:4]
    ]
    return f"{len(places)} of {got.size} elements differ: {'; '.join(shown)}"
