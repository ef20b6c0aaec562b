"""The op table covers NumPy's elementwise ufuncs, with NumPy's dtypes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fuser
from fuser.base.errors import FusionError, GraphError
from fuser.ir.ops import DTYPES, TABLE, UFUNC_PAIRS, UFUNC_ROWS, elementwise, op

#: Every ufunc in NumPy's namespace, by its own name.
UFUNCS = {value.__name__: value for value in vars(np).values() if isinstance(value, np.ufunc)}

#: Ufuncs with no row, on purpose: dates, products of matrices.
REFUSED = {
    "isnat": (np.ones(3, "datetime64[s]"),),
    "matmul": (np.ones((3, 3)), np.ones((3, 3))),
    "matvec": (np.ones((3, 3)), np.ones(3)),
    "vecdot": (np.ones(3, bool), np.ones(3, bool)),
    "vecmat": (np.ones(3), np.ones((3, 3))),
}
TRACED = [ufunc for name, ufunc in UFUNCS.items() if name not in REFUSED]


def test_every_ufunc_has_a_row_or_is_refused_on_purpose() -> None:
    """`float_power` is `power` in float64; nothing else is missing."""
    assert UFUNC_ROWS.keys() | UFUNC_PAIRS.keys() | {"float_power"} | REFUSED.keys() >= set(UFUNCS)
    named = [*UFUNC_ROWS.values(), *(row for pair in UFUNC_PAIRS.values() for row in pair)]
    assert set(named) <= TABLE.keys()


@pytest.mark.parametrize("name", [name for name in REFUSED if name in UFUNCS])
def test_refusals_name_the_function(name: str) -> None:
    """The reason says what was found and what to do; NumPy's result comes all the same."""
    ufunc, operands = UFUNCS[name], REFUSED[name]
    with pytest.raises(FusionError) as caught:
        fuser.fuse(lambda *args: ufunc(*args), fallback="error")(*operands)
    if name != "isnat":  # there the dtype is refused first
        assert f"np.{name}" in str(caught.value)
    got = fuser.fuse(lambda *args: ufunc(*args), fallback="allow")(*operands)
    np.testing.assert_array_equal(got, ufunc(*operands), strict=True)


def operand_lists(ufunc: np.ufunc) -> Iterator[tuple[str, ...]]:
    """Operand dtypes: each alone, or each beside itself and a few others."""
    for dtype in DTYPES:
        if ufunc.nin == 1:
            yield (dtype,)
            continue
        for other in dict.fromkeys((dtype, "bool", "int8", "uint64", "float32")):
            yield (dtype, other)
            yield (other, dtype)


def outcome(ufunc: np.ufunc, dtypes: tuple[str, ...], *, traced: bool) -> object:
    """Dtypes of the results, or the exception's class."""
    operands = [np.ones(3, dtype) for dtype in dtypes]
    try:
        if traced:
            return tuple(node.dtype for node in fuser.trace(ufunc, *operands).outputs)
        results = ufunc(*operands)
    except TypeError as error:
        return type(error)
    return tuple(r.dtype for r in (results if isinstance(results, tuple) else (results,)))


@pytest.mark.parametrize("ufunc", TRACED, ids=lambda ufunc: ufunc.__name__)
def test_results_have_the_dtypes_that_numpy_gives(ufunc: np.ufunc) -> None:
    """NEP 50 for every ufunc and mixture of dtypes; a TypeError where NumPy has no loop."""
    wrong = [
        (dtypes, got, want)
        for dtypes in dict.fromkeys(operand_lists(ufunc))
        if (got := outcome(ufunc, dtypes, traced=True))
        != (want := outcome(ufunc, dtypes, traced=False))
    ]
    assert not wrong


def test_rows_state_what_they_are() -> None:
    """Every row has dtypes, a meaning and a bound; errors are of floating rows alone."""
    for row in elementwise():
        assert row.dtypes(), row
        assert callable(row.numpy), row
        assert row.ulp <= 8, row
        assert "f" in row.kinds or not row.ulp, row


def test_unknown_rows_are_errors() -> None:
    """The message names what was looked up."""
    with pytest.raises(GraphError, match="softmax"):
        op("softmax")


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater"])
def test_signed_against_unsigned_is_exact(name: str) -> None:
    """int64 beside uint64: compared as numbers, not as float64."""
    signed = np.array([-1, 0, 1, 2**63 - 1, -(2**63)], np.int64)[:, None]
    unsigned = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    compare = fuser.fuse(UFUNCS[name], fallback="error")
    for operands in ((signed, unsigned), (unsigned, signed)):
        np.testing.assert_array_equal(compare(*operands), UFUNCS[name](*operands), strict=True)
