"""Elements read at places that arrays say: values, layouts, kernels, errors, nothing written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.ir.ops import DTYPES
from tests.fuser.comparing import assert_alike

rng = np.random.default_rng(7)


def table(dtype: str, length: int = 40) -> Any:
    """Numbers of a dtype; of floats also NaN, infinities, -0.0 and a subnormal one."""
    values = rng.integers(-100, 100, length).astype(dtype)
    if values.dtype.kind == "f":
        values[:5] = np.nan, np.inf, -np.inf, -0.0, np.nextafter(values.dtype.type(0), 1)
    return values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", ["int8", "uint16", "int32", "uint32", "int64"])
def test_elements_are_numpys(dtype: str, index: str) -> None:
    """Of every dtype, by indices of every dtype, from both ends, for every length."""
    fused = fuser.fuse(lambda x, i: x[i], fallback="error")
    for length in (0, 1, 7, 64, 1001):
        x = table(dtype)
        least = -40 if np.dtype(index).kind == "i" else 0
        i = rng.integers(least, 40, length).astype(index)
        assert_alike(x[i], fused(x, i))
        assert_alike(x[::-2][i // 2], fused(x[::-2], i // 2))
        assert_alike(x[i[::-1]], fused(x, i[::-1]))
    assert len(fused.explain(x, i).groups) == 1


FORMS = {
    "two": lambda m, i, j: m[i, j] * 2,
    "rows": lambda m, i, j: m[i[0]] * 2,
    "columns": lambda m, i, j: m[:, j[0]] * 2,
    "rows of two axes": lambda m, i, j: m[i] * 2,
    "rows of two axes as they are": lambda m, i, j: m[i],
    "means of rows": lambda m, i, j: np.mean(m[i], axis=1),
    "dots": lambda m, i, j: m[..., j[0]],
    "one of a row": lambda m, i, j: m[1, j] + m[i, 2],
    "computed index": lambda m, i, j: m[(i * 3) % 5, abs(j) % 6],
    "computed table": lambda m, i, j: (m * m + 1)[i, j],
    "sums": lambda m, i, j: (m[i, j] * 3).max(axis=1),
    "index of a reduction": lambda m, i, j: m[np.arange(len(m)), m.argmax(axis=1)],
    "twice": lambda m, i, j: m[i, j] + m[j % 5, i],
    "chain": lambda m, i, j: np.abs(m[i % 5, m[i, j].astype(np.int64) % 6]),
    "part": lambda m, i, j: m[i, j][1:, ::2],
    "turned": lambda m, i, j: m[i, j].T + 1,
    "flat": lambda m, i, j: m[i, j].ravel() - 1,
    "take": lambda m, i, j: np.take(m, j),
    "take rows": lambda m, i, j: m.take(i, axis=0),
    "take columns": lambda m, i, j: np.take(m, j, axis=1) * 2,
    "take clip": lambda m, i, j: np.take(m, j * 100, axis=-1, mode="clip"),
    "take wrap": lambda m, i, j: np.take(m, j * 5, mode="wrap"),
    "along 1": lambda m, i, j: np.take_along_axis(m[:5], j, axis=1),
    "along 0": lambda m, i, j: np.take_along_axis(m, i[:2, :6] % 5, axis=0) + 1,
    "along both": lambda m, i, j: np.take_along_axis(m[:1], j[:, :6] % 6, axis=1),
}  # fmt: skip
TABLES = {
    "C": lambda m: m,
    "Fortran": np.asfortranarray,
    "strided": lambda m: np.repeat(np.repeat(m, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda m: m[::-1, ::-1],
    "repeated": lambda m: np.broadcast_to(m[0], m.shape),
    "unaligned": lambda m: np.frombuffer(b"\0" + m.tobytes(), np.uint8)[1:].view(m.dtype).reshape(
        m.shape
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", TABLES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fused(form: str, layout: str) -> None:
    """Indices of two axes, rows, columns, np.take and np.take_along_axis, of any memory."""
    function = FORMS[form]
    fused = fuser.fuse(function, fallback="error")
    for rows in (5, 8):
        m = TABLES[layout](rng.integers(-9, 9, (rows, 6)).astype(float))
        i, j = rng.integers(-5, 5, (5, 7)), rng.integers(-6, 6, (5, 7))
        for first, second in ((i, j), (i.copy("F"), j.copy("F"))):
            assert_alike(function(m, first, second), fused(m, first, second))


def test_what_is_around_is_one_kernel() -> None:
    """Index, gather and what is done to the elements: nothing is stored between."""
    fused = fuser.fuse(lambda t, x: t[np.clip(x * 8, 0, 255).astype(np.int64)] * x + 1)
    t, x = rng.standard_normal(256), rng.random(1000) * 30
    assert_alike(t[np.clip(x * 8, 0, 255).astype(np.int64)] * x + 1, fused(t, x))
    explanation = fused.explain(t, x)
    assert len(explanation.groups) == 1
    assert explanation.ledger.planned_bytes == explanation.ledger.least_bytes
    assert "t[…]" in str(explanation)


BAD = (40, -41, 10**12, -(2**63), 2**63 - 1)


@pytest.mark.parametrize("bad", BAD)
def test_bad_indices_are_numpys_to_refuse(bad: int) -> None:
    """Wherever they stand, with NumPy's words, before anything is written; then it works again."""

    def function(x: Any, i: Any, out: Any) -> Any:
        out[...] = 1.0
        out[...] = x[i] * 2
        return x[i].sum()

    fused = fuser.fuse(function, fallback="allow")
    x = table("float64")
    for length in (1, 9, 1000):
        i = rng.integers(-40, 40, length)
        for place in {0, length // 2, length - 1}:
            wrong = i.copy()
            wrong[place] = bad
            for target in (np.zeros(length), np.zeros(length)):
                with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0"):
                    fused(x, wrong, target)
                plain = np.zeros(length)
                with pytest.raises(IndexError):
                    function(x, wrong, plain)
                assert_alike(plain, target)
            given = np.full(length, 5.0)
            with pytest.raises(IndexError, match="out of bounds"):
                fuser.fuse(lambda x, i: x[i] + 1, fallback="allow")(x, wrong, out=given)
            assert (given == 5.0).all()
        with np.errstate(all="ignore"):
            assert fused(x, i, np.zeros(length)).dtype == np.float64


_CUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda m: m,
    "part": lambda m: m[:, 1:-1],
    "every second": lambda m: m[:, ::2],
    "backwards": lambda m: m[::-1, ::-1],
    "columns first": lambda m: np.asfortranarray(m),
}


@pytest.mark.parametrize("cut", _CUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
def test_whole_rows(dtype: str, cut: str) -> None:
    """Vectors of rows at places that all lanes share: of all widths, from both ends, refused."""
    doubled = fuser.fuse(lambda m, i: m[i] + m[i], fallback="error")
    largest = fuser.fuse(lambda m, i: np.max(m[i], axis=1), fallback="error")
    mean = fuser.fuse(lambda m, i: np.mean(m[i], axis=1))
    for width in (1, 3, 8, 17, 64, 131):
        whole = rng.integers(0, 100, (30, width + 2)).astype(dtype)
        for index in ("int64", "int32"):
            i = rng.integers(-30, 30, (12, 5)).astype(index)
            m = _CUTS[cut](whole)
            assert_alike(m[i[0]] + m[i[0]], doubled(m, i[0]))
            assert_alike(m[i] + m[i], doubled(m, i))
            assert_alike(np.max(m[i], axis=1), largest(m, i))
            np.testing.assert_allclose(mean(m, i), np.mean(m[i], axis=1), 1e-6)
    bad = i.copy()
    bad[7, 3] = 30
    for fused in (doubled, largest, mean):
        with pytest.raises(IndexError, match="index 30 is out of bounds"):
            fused(m, bad)


def test_indices_of_nothing() -> None:
    """An empty table has no place at all; no index is never wrong."""
    fused = fuser.fuse(lambda x, i: x[i] + 1, fallback="allow")
    x, i = table("float64"), np.zeros(3, np.int64)
    assert_alike(x[i] + 1, fused(x, i))
    assert_alike(x[i[:0]] + 1, fused(x, i[:0]))
    assert_alike(x[:0][i[:0]] + 1, fused(x[:0], i[:0]))
    with pytest.raises(IndexError, match="index 0 is out of bounds for axis 0 with size 0"):
        fused(x[:0], i)


def test_what_a_part_of_is_used_is_checked_as_a_whole() -> None:
    """NumPy looks at every index, also of elements that are cut off afterwards."""
    fused = fuser.fuse(lambda x, i: x[i][:2] * 2, fallback="allow")
    x, i = table("float64"), np.array([1, 2, 3, 4])
    assert_alike(x[i][:2] * 2, fused(x, i))
    with pytest.raises(IndexError):
        fused(x, np.array([1, 2, 3, 40]))


def test_what_is_written_is_read_again() -> None:
    """A table that the function writes into, a result that is the table itself."""

    def function(x: Any, i: Any) -> Any:
        x[1:4] = 7.0
        y = x[i]
        x[...] = x[::-1] + y
        return x[i] - y

    fused = fuser.fuse(function, fallback="error")
    for _ in range(3):
        x, i = table("float64", 9), rng.integers(-9, 9, 9)
        mine = x.copy()
        assert_alike(function(x, i), fused(mine, i))
        assert_alike(x, mine)
    x, i = table("float64", 9), rng.integers(-9, 9, 9)
    wanted = x[i] * 2
    assert_alike(wanted, fuser.fuse(lambda x, i: x[i] * 2)(x, i, out=x))


def test_the_graphs_text_is_read_back() -> None:
    """And what it says is looked at: axes that are not there, or twice, are refused."""
    i, j = np.array([0]), np.array([1])
    graph = fuser.trace(lambda m, i, j: m[i, j] + m[i], np.ones((3, 3)), i, j)
    text = str(graph)
    assert "gather{-1, -2}" in text
    assert str(fuser.parse(text)) == text
    for wrong in ("-1", "-1, -1", "-1, -3", "-2, -1, 0", "0, 1", "-1, 5", ""):
        with pytest.raises(fuser.FuserError):
            fuser.parse(text.replace("gather{-1, -2}", "gather{" + wrong + "}"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_indices(data: st.DataObject) -> None:
    """Any places of any table, in any of its views, right or wrong."""
    length = data.draw(st.integers(0, 20))
    x = np.arange(1.0, 1.0 + length)[:: data.draw(st.sampled_from((1, 2, -1, -3)))]
    count = data.draw(st.integers(0, 30))
    beyond = data.draw(st.integers(0, 1))
    ends = st.integers(-len(x) - beyond, max(len(x) - 1 + beyond, -len(x) - beyond))
    i = np.array(data.draw(st.lists(ends, min_size=count, max_size=count)), np.int64)
    if all(-len(x) <= place < len(x) for place in i):
        assert_alike(x[i] * 2, DOUBLED(x, i))
        return
    with pytest.raises(IndexError) as wanted:
        x[i]
    with pytest.raises(IndexError) as found:
        DOUBLED(x, i)
    assert str(found.value) == str(wanted.value)


DOUBLED: Callable[..., Any] = fuser.fuse(lambda x, i: x[i] * 2, fallback="allow")


def _assigned(x: Any, i: Any) -> Any:
    y = x.copy()
    y[i] = 1
    return y


@pytest.mark.usefixtures("never_brief")
@pytest.mark.parametrize("function", [
    lambda x, i: x[i] * 2, lambda x, i: np.take(x, i, axis=0) + 1, _assigned,
])  # fmt: skip
def test_an_index_beyond_an_axis_of_an_array_without_elements(function: Any) -> None:
    """NumPy looks at it, though there is nothing to read; calls with elements stay fused."""
    fused = fuser.fuse(function, fallback="allow")
    right, wrong = np.array([0, 1]), np.array([0, 4])
    for shape in ((2, 3), (2, 0), (2, 5), (2, 0), (2, 3)):
        x = np.ones(shape)
        np.testing.assert_array_equal(fused(x, right), function(x, right))
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 2"):
            fused(x, wrong)
    assert not fused.explain(np.ones((2, 3)), right).fallbacks
