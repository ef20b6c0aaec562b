"""Elements written at places that arrays say: values, layouts, kernels, errors, what is left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.ir.ops import TABLE
from tests.fuser.comparing import assert_same

rng = np.random.default_rng(11)

#: Ufuncs whose `at` is fused.
UFUNCS = (np.add, np.subtract, np.multiply, np.maximum, np.minimum)
#: Dtypes of each row: NumPy's truth values are neither added nor multiplied here.
CASES = [(row.combine, dtype) for row in TABLE.values() if row.scatters for dtype in row.dtypes()]


def elements(dtype: str, length: int) -> Any:
    """Numbers of a dtype; of floats also NaN, infinities, -0.0 and a subnormal one."""
    values = rng.integers(-100, 100, length).astype(dtype)
    if values.dtype.kind == "f" and length > 40:
        values[:5] = np.nan, np.inf, -np.inf, -0.0, np.nextafter(values.dtype.type(0), 1)
    return values


def same(function: Callable[..., Any], *values: Any, fallback: str = "error") -> Any:
    """Twice as NumPy has it, bit for bit, and so are the arguments afterwards."""
    fused = fuser.fuse(function, fallback=fallback)  # type: ignore[arg-type]
    assert_same(fused, *values)
    return fused


@pytest.mark.parametrize(("combine", "dtype"), CASES)
def test_elements_are_numpys(combine: str, dtype: str) -> None:
    """Of every dtype, with many written twice, for every length, strided and backwards."""

    def function(i: Any, v: Any) -> Any:
        x = np.zeros(37, v.dtype) + v[:1]
        if combine:
            getattr(np, combine).at(x, i, v)
        else:
            x[i] = v
        return x

    fused = fuser.fuse(function, fallback="error")
    for length in (1, 7, 64, 1001):
        i, v = rng.integers(-37, 37, length), elements(dtype, length)
        for index, value in ((i, v), (i[::-2].astype(np.int32), v[::-2]), (i * 1, v[:1])):
            assert_same(fused, index, value)


def _add(x: Any, i: Any, v: Any) -> Any:
    x = x * 1
    np.add.at(x, i, v)
    return x * 2


def _rows(x: Any, i: Any, v: Any) -> Any:
    x = x * 1
    x[i] = v
    x[i[:2]] += 1
    return x


def _columns(x: Any, i: Any, v: Any) -> Any:
    x = x + 0
    np.add.at(x, (slice(None), i % 6), 1.5)
    x[:, i % 6] = 2 * x[:, i % 6]
    return x.sum(axis=1)


def _both(x: Any, i: Any, v: Any) -> Any:
    x = x + 0
    y = x.astype(np.int32)
    np.add.at(y, (i, i % 6), i.astype(np.int32))
    np.maximum.at(y, (i[:, None], i % 6), i.astype(np.int32))
    np.subtract.at(x, (i, 1), v[:, 1])
    x[2, i % 6] += 0.5
    return x + y


FORMS = {"add": _add, "rows": _rows, "columns": _columns, "both": _both}
TABLES = {
    "C": lambda m: m,
    "Fortran": np.asfortranarray,
    "strided": lambda m: np.repeat(np.repeat(m, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda m: m[::-1, ::-1],
}


@pytest.mark.parametrize("layout", TABLES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fused(form: str, layout: str) -> None:
    """Rows, columns, indices of two axes and numbers beside indices, of any memory."""
    for rows in (5, 8):
        m = TABLES[layout](rng.integers(-9, 9, (rows, 6)).astype(float))
        i, v = rng.integers(-5, 5, 9), TABLES[layout](rng.random((9, 6)))
        same(FORMS[form], m, i, v)


def test_an_argument_is_written() -> None:
    """Also a part of one, and one that is read while it is written."""

    def function(x: Any, i: Any, v: Any) -> Any:
        x[1:][i] = v
        x[i] += x[i[::-1]]
        np.add.at(x, i, x[i])
        return x.sum()

    x, i = rng.integers(-9, 9, 40).astype(float), rng.integers(0, 39, 100)
    same(function, x, i, rng.integers(-9, 9, 100).astype(float), fallback="allow")


def test_what_is_around_is_one_kernel() -> None:
    """Index, weights, and what becomes of the sums."""

    def function(x: Any, w: Any) -> Any:
        place = np.minimum((x * 10).astype(np.int64), 9)
        total = np.bincount(place, weights=w * 2, minlength=10)
        return total / 3

    fused = same(function, rng.random(1000), rng.random(1000))
    explanation = fused.explain(rng.random(1000), rng.random(1000))
    assert len(explanation.groups) == 1
    assert not explanation.graph_breaks
    assert "scatter_add" in str(explanation)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float32"])
def test_bincount(dtype: str) -> None:
    """Counts and sums, empty or not, with weights of every kind; the length is an argument."""

    def function(i: Any, w: Any, count: int) -> Any:
        return np.bincount(i, minlength=count) + np.bincount(i, weights=w, minlength=count)

    fused = fuser.fuse(function, fallback="error")
    for length in (0, 1, 8, 1000):
        for count in (12, 20):
            i, w = rng.integers(0, 12, length).astype(np.int16), elements(dtype, length)
            np.testing.assert_array_equal(function(i, w, count), fused(i, w, count))


@pytest.mark.parametrize("bad", [-1, 12, 40, 2**62, -(2**63)])
def test_bincount_beyond_its_length_is_numpys(bad: int) -> None:
    """A negative index raises, a larger one makes the result longer."""

    def function(i: Any, w: Any) -> Any:
        return np.bincount(i, w, minlength=12) * 2

    fused = fuser.fuse(function, fallback="allow")
    i = rng.integers(0, 12, 100)
    for _ in range(3):
        np.testing.assert_array_equal(fused(i, i * 0.5), function(i, i * 0.5))
        beyond = i.copy()
        beyond[50] = bad
        try:
            wanted = function(beyond, i * 0.5)
        except (ValueError, MemoryError) as error:
            with pytest.raises(type(error)):
                fused(beyond, i * 0.5)
        else:
            np.testing.assert_array_equal(fused(beyond, i * 0.5), wanted)


@pytest.mark.parametrize("bad", [40, -41, 10**12, -(2**63)])
@pytest.mark.parametrize("at", [False, True])
def test_bad_indices_are_numpys_to_refuse(bad: int, at: bool) -> None:
    """With NumPy's words; what it leaves behind is left; then it works again."""

    def function(x: Any, i: Any, v: Any) -> Any:
        x *= 2
        if at:
            np.add.at(x, i, v)
        else:
            x[i] = v
        x += 1

    fused = fuser.fuse(function, fallback="allow")
    i, v = rng.integers(-40, 40, 100), rng.random(100)
    for _ in range(2):
        x, y = np.ones(40), np.ones(40)
        fused(x, i, v), function(y, i, v)
        np.testing.assert_array_equal(x, y)
        wrong = i.copy()
        wrong[77] = bad
        x, y = np.ones(40), np.ones(40)
        with pytest.raises(IndexError) as wanted:
            function(y, wrong, v)
        with pytest.raises(IndexError) as found:
            fused(x, wrong, v)
        assert str(found.value) == str(wanted.value)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 100])
def test_what_is_costly_is_computed_in_vectors(length: int) -> None:
    """Then written lane by lane: from the start and the end, and nothing where one is beyond."""

    def function(x: Any, i: Any, v: Any) -> Any:
        np.add.at(x, i, np.exp(v))

    fused = fuser.fuse(function, fallback="allow")
    for low in (0, -40, -60):
        i, v = rng.integers(low, 40, length), rng.random(length)
        i[-1] = max(low, -41)
        x, y = np.ones(40), np.ones(40)
        if i.min() < -40:
            with pytest.raises(IndexError):
                function(y, i, v)
            with pytest.raises(IndexError):
                fused(x, i, v)
        else:
            function(y, i, v), fused(x, i, v)
        np.testing.assert_allclose(x, y, rtol=1e-14)


def test_read_only_arrays_are_refused_as_numpy_does() -> None:
    """Nothing is written into them."""

    def function(x: Any, i: Any) -> None:
        x[i] = 1.0

    x = np.zeros(5)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fuser.fuse(function, fallback="allow")(x, np.arange(3))
    assert not x.any()


def test_what_is_written_may_be_what_is_read() -> None:
    """Index and values that share memory with the array: as NumPy has it."""

    def function(x: Any, i: Any) -> None:
        x[i] = x[::-1] + 1
        x[i % 9] = i

    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        one, other = np.arange(9), np.arange(9)
        fused(one, one[::-1]), function(other, other[::-1])
        np.testing.assert_array_equal(one, other)


def _two(x: Any, i: Any, v: Any) -> None:
    m = x.reshape(5, 8)
    m[i % 5, i % 8] = v
    m[i[::-1] % 5, (i % 8)[::-1]] += v[::-1]
    np.add.at(m, (i.reshape(9, 10).T % 5, i.reshape(9, 10).T % 8), v.reshape(9, 10).T)


REFUSED: dict[str, Callable[..., Any]] = {
    "two indices": _two,
    "another dtype": lambda x, i, v: np.add.at(x, i, v.astype(np.float64)),
    "another ufunc": lambda x, i, v: np.logaddexp.at(x, i, v),
    "no length": lambda x, i, v: np.bincount(np.abs(i)),
    "a mask": lambda x, i, v: np.add.at(x, x > 0, 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_numpys(name: str) -> None:
    """What has no kernel is right all the same."""
    x, i, v = (rng.random(40).astype(np.float32), rng.integers(-40, 40, 90),
               rng.random(90).astype(np.float32))  # fmt: skip
    fused = fuser.fuse(REFUSED[name], fallback="allow")
    assert_same(fused, x, i, v)


def test_sums_that_overflow_are_told() -> None:
    """With errstate=True NumPy runs such a call, and warns."""

    def function(i: Any, v: Any) -> Any:
        x = np.zeros(4)
        np.add.at(x, i, v)
        return x

    fused = fuser.fuse(function, fallback="allow", errstate=True)
    i, v = np.zeros(3, int), np.full(3, 1e308)
    np.testing.assert_array_equal(fused(i, v / 9), function(i, v / 9))
    assert fused(i, v)[0] == np.inf


INDICES = st.lists(st.integers(-6, 5), max_size=40)


@settings(max_examples=60, deadline=None)
@given(INDICES, st.sampled_from([f.__name__ for f in UFUNCS]), st.integers(1, 3))
def test_any_indices(places: list[int], name: str, times: int) -> None:
    """Empty, with repeats, one write after another: sums in NumPy's order."""
    ufunc = getattr(np, name)

    def function(x: Any, i: Any, v: Any) -> Any:
        x = x + 0
        for _ in range(times):
            ufunc.at(x, i, v)
            x[i] = x[i] * v
        return x + 1

    same(function, rng.standard_normal(6), np.array(places, int), rng.standard_normal(len(places)))


@pytest.mark.parametrize("mode", ["unfused", "fallback"])
def test_other_modes(mode: Any) -> None:
    """One operation after another, and the interpreter."""

    def function(i: Any, v: Any) -> Any:
        return np.bincount(np.abs(i) % 9, weights=np.exp(v), minlength=9) + 1

    i, v = rng.integers(-99, 99, 500), rng.random(500)
    found = fuser.fuse(function, mode=mode)(i, v)
    np.testing.assert_allclose(found, function(i, v), rtol=1e-12)


def test_text_is_read_back() -> None:
    """A graph with a scatter has a text, and the text that graph."""
    graph = fuser.trace(lambda i, v: np.bincount(i, v, minlength=9), np.arange(9), np.ones(9))
    assert str(fuser.parse(str(graph))) == str(graph)
