"""Writes through reshapes and diagonals: seen wherever NumPy shows them, in every memory layout."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.tracer import Tracer
from fuser.tracing import reshapes
from fuser.tracing.trace_result import Replay
from tests.fuser.comparing import assert_same

X = np.arange(24.0).reshape(4, 6) - 7
C = np.arange(27.0).reshape(3, 3, 3)
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "steps": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda x: x[::-1, ::-1],
    "float32": lambda x: x.astype(np.float32),
    "integers": lambda x: x.astype(np.int16),
    "empty": lambda x: x[:, :0],
    "one row": lambda x: x[:1],
    "one column": lambda x: x[:, 1:2],
    "nothing but NaN": lambda x: x * np.nan,
    "negative zeros": lambda x: x * -0.0,
}


def flat_of_new(x: Any) -> Any:
    """Every other element of an array of its own."""
    y = np.zeros(x.shape, x.dtype)
    y.reshape(-1)[::2] = 3
    return y, y.sum()


def flat_of_copy(x: Any) -> Any:
    """A copy is in C order, whatever the argument's order is."""
    y = x.copy()
    y.ravel()[1:] += 2
    return y


def flat_of_row(x: Any) -> Any:
    """A part that runs on in memory."""
    y = x.copy()
    y[1:].reshape(-1)[:2] = 9
    y[0].reshape(2, -1)[1] -= 1
    return y


def seen_from_both(x: Any) -> Any:
    """A write into the array is seen by the reshape, and one into the reshape by the array."""
    y = x.copy()
    seen = y.reshape(-1)
    y[:1] = 5
    seen[-1:] = 6
    return seen * 2, y + 1


def seen_as_view(x: Any) -> Any:
    """The reshape is returned, too."""
    y = x.copy()
    seen = y.reshape(-1)
    seen[:3] = 5
    return y, seen, y.T


def split_in_place(x: Any) -> Any:
    """To split an axis needs no memory order."""
    halves = x.reshape(x.shape[0], -1, 1)
    halves[:, ::2] *= 2
    return halves.shape


def twice(x: Any) -> Any:
    """A reshape of a reshape."""
    y = x.copy().reshape(-1)
    z = y.reshape(x.shape)
    z[:, :2] = 1
    y[2:] = y[:-2] * 2
    return z - 1


def by_places(x: Any) -> Any:
    """NumPy writes at places that only the call tells."""
    y = x.copy()
    y.reshape(-1)[np.argsort(y.ravel())[:2]] = 8
    return y * 2


def turned(x: Any) -> Any:
    """A copy sees no later write, nor does what is seen through it; nobody sees one into it."""
    y = x.copy()
    flat, part = y.T.reshape(-1), y.T.reshape(-1)[1:]
    y *= 2
    part[:1] = 4
    y[:1] += 1
    return y, flat + 1, part * 3


def turned_ones(x: Any) -> Any:
    """Axes of one element may change places: a view, that sees what is written."""
    y = x.copy()[None]
    flat = y.transpose(1, 0, 2).reshape(-1)
    y += 1
    flat[:2] = 3
    return y * 2, flat + 1


def turned_and_split(x: Any) -> Any:
    """What is seen through a copy: a reshape of a reshape is a view of that."""
    y = x.copy()
    flat = y.T.reshape(-1)
    again = flat.reshape(1, -1)
    y += 5
    again[0, :1] = 6
    return y, flat, again * 2


def turned_before_a_loop(x: Any) -> Any:
    """Iterations write what a copy was made of, in either branch, and into the copy."""
    y = x.copy()
    flat, other = y.T.reshape(-1), y.T.reshape(-1)
    for t in range(x.shape[0] + 9):
        if t % 2:
            y += 1
        else:
            y[:1] *= 0.5 if y.dtype.kind == "f" else 2
        other[1:] += t
    return y, flat * 2, other


ALWAYS = [
    turned, turned_ones, turned_and_split, turned_before_a_loop,
    flat_of_new, flat_of_copy, flat_of_row, seen_from_both, seen_as_view, twice,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", [*ALWAYS, split_in_place])
def test_writes_through_reshapes_of_known_memory(function: Any, layout: str) -> None:
    """One graph, with no call of NumPy."""
    x = LAYOUTS[layout](X)
    assert_same(function, x, fallback="error" if x.size else "allow")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_writes_through_a_reshape_between_kernels(layout: str) -> None:
    """What it writes is a new value of the array behind."""
    x = LAYOUTS[layout](X)
    assert_same(by_places, x, fallback="allow")
    fused = fuser.fuse(by_places, fallback="allow")
    fused(X.copy())
    assert all(reason.code.startswith("unsupported") for reason in fused.fallbacks)


def flat_of_argument(x: Any) -> Any:
    """A view of an argument in C order, a copy of another."""
    x.reshape(-1)[::2] = 0
    return x.sum()


def flat_of_result(x: Any) -> Any:
    """In its argument's order."""
    y = x * 2
    y.reshape(-1)[1:-1] = 0
    return y


@pytest.mark.parametrize("function", [flat_of_argument, flat_of_result])
@pytest.mark.parametrize("first", ["C", "F", "steps", "backwards"])
def test_arguments_in_c_order_are_a_guard(function: Any, first: str) -> None:
    """A call with others runs in NumPy; each sees what NumPy would show, in any order of calls."""
    fused = fuser.fuse(function, fallback="allow")
    for layout in (first, "C", "F", "C", "one column", "backwards", "steps", "C", "empty"):
        assert_same(fused, LAYOUTS[layout](X))
    fused = fuser.fuse(function, fallback="error")
    assert_same(fused, X)
    assert any("contiguous in C order" in text for text in fused.explain(X).guards)
    with pytest.raises(fuser.FusionError, match="write-into-view"):
        fused(np.asfortranarray(X))


@pytest.mark.parametrize("function", [flat_of_argument, flat_of_result])
def test_a_call_in_another_order_refuses_no_call_in_c_order(function: Any) -> None:
    """Whichever comes first; each order is traced once."""
    fused = fuser.fuse(function, fallback="allow")
    for layout in ("F", "steps", "C", "F", "C"):
        before = fuser.stats().get("fallbacks", 0)
        assert_same(fused, LAYOUTS[layout](X))
        assert fuser.stats().get("fallbacks", 0) == before + 2 * (layout != "C")
    (entry,) = fused._signatures.values()
    assert entry.refused_orders == {(False,)}


def test_which_axes_have_one_element_is_a_guard() -> None:
    """A reshape of transposed memory is a copy or a view by the lengths of a call."""
    fused = fuser.fuse(turned_ones, fallback="error")
    for x in (X, X[:1], X[:, :1], X[:1, :1], X):
        assert_same(fused, x)
    fused = fuser.fuse(turned, fallback="error")
    for x in (X, X[:1], X[:, 1:2], X[1:, :2]):
        assert_same(fused, x)


def test_reading_a_reshape_is_no_guard() -> None:
    """Nothing is held that only a write would need."""
    fused = fuser.fuse(lambda x: x.reshape(-1) * 2, fallback="error")
    assert not [guard for guard in fused.explain(X).guards if "code of functions" not in guard]
    assert_same(fused, np.asfortranarray(X))


def test_a_read_only_array_raises_through_its_reshape() -> None:
    """As NumPy raises."""
    x = X.copy()
    x.flags.writeable = False
    assert_same(flat_of_argument, x, fallback="allow")
    assert_same(zero_diagonal, x, fallback="allow")


@pytest.mark.parametrize(
    ("before", "after", "splits"),
    [
        ((4, 6), (4, 2, 3), True), ((4, 6), (2, 2, 6), True), ((4, 6), (1, 4, 6, 1), True),
        ((24,), (2, 3, 4), True), ((4, 6), (24,), False), ((4, 6), (8, 3), False),
        ((1, 6), (6,), True), ((2, 3, 4), (2, 3, 2, 2), True), ((2, 3, 4), (6, 4), False),
        ((), (1,), True),
    ],
)  # fmt: skip
def test_what_only_splits(before: Any, after: Any, splits: bool) -> None:
    """By lengths alone."""
    tracing = Tracer(replay=Replay())
    assert reshapes.only_splits(tracing, before, after) is splits


# -- diagonals ------------------------------------------------------------------------------


def zero_diagonal(x: Any) -> Any:
    """Through np.einsum's view."""
    np.einsum("ii->i", x[:, : x.shape[0]])[...] = 0
    return x


def scaled_diagonal(x: Any) -> Any:
    """Of an array in its argument's order."""
    y = x[:, : x.shape[0]] * 2
    seen = np.einsum("ii->i", y)
    seen *= 3
    seen[1:] += 1
    return y, seen


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "column" not in name])
@pytest.mark.parametrize("function", [zero_diagonal, scaled_diagonal])
def test_writes_through_a_diagonal(function: Any, layout: str) -> None:
    """np.einsum gives a view that can be written into."""
    assert_same(function, LAYOUTS[layout](X), fallback="allow" if layout == "empty" else "error")


@pytest.mark.parametrize("subscripts", ["iij->ij", "iij->ji", "iji->ij", "jii->ji", "iii->i"])
def test_diagonals_of_cubes(subscripts: str) -> None:
    """Of any two axes, in any order."""

    def written(x: Any) -> Any:
        y = x * 2
        seen = np.einsum(subscripts, y)
        seen[0] = 5
        seen += 1
        return y, seen

    assert_same(written, C)
    assert_same(written, np.asfortranarray(C))


def test_a_diagonal_that_is_returned_is_memory_of_the_argument() -> None:
    """And can be written into, as NumPy's."""
    fused = fuser.fuse(lambda x: np.einsum("ii->i", x), fallback="error")
    x = X[:, :4].copy()
    for _ in range(2):
        seen = fused(x)
        seen[...] = 0
        assert not np.einsum("ii->i", x).any()
        x = X[:, :4].copy()
    x.flags.writeable = False
    assert not fused(x).flags.writeable
    assert not fuser.fuse(lambda x: np.diagonal(x), fallback="error")(X).flags.writeable
