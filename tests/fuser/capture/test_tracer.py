"""What a trace captures: outputs, aliases, writes into arguments, scalars and 0-d arrays."""

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

V = np.arange(7, dtype=np.float32)
X = np.arange(20, dtype=np.float32).reshape(4, 5) - 7
Y = X[::-1] * 2 + 1
MODES = ("fused", "unfused", "fallback")
Pair = namedtuple("Pair", "left right")


def add_in_place(x: Any, y: Any) -> Any:
    """Write into x, and return it."""
    x += y
    return x


def test_returned_arguments_are_the_same_objects() -> None:
    """An argument that is returned is itself, and a view of it is a real view."""
    fused = fuser.fuse(lambda x, y: (x, x.T, x[1:], y, x + 1), fallback="error")
    same, transposed, part, other, new = fused(X, Y)
    assert same is X
    assert other is Y
    assert np.shares_memory(transposed, X)
    assert np.shares_memory(part, X)
    assert not np.shares_memory(new, X)


def test_returned_views_of_one_result_share_it() -> None:
    """A result, its transpose and its parts are one memory, as in NumPy."""

    def views(x: Any) -> Any:
        """Several looks at one result."""
        y = x + 1
        return y, y.T, y[1:, ::-1], y.reshape(-1), y

    first, *others = fuser.fuse(views, fallback="error")(X)
    assert all(np.shares_memory(first, other) for other in others)
    assert others[-1] is first
    assert_same(views, X)
    assert_same(lambda x: ((x + 1).T, (x + 1)[1:]), np.asfortranarray(X))


@pytest.mark.parametrize("mode", MODES)
def test_copies_are_copies(mode: str) -> None:
    """`copy`, `astype`, `flatten` and `+x` never give the argument's own memory."""

    def copies(x: Any) -> Any:
        """Every way to copy."""
        return x.copy(), x[1:].copy(), x.astype(x.dtype), x.flatten(), +x, np.copy(x.T), x.T.copy()

    assert_same(copies, X, mode=mode)
    found = fuser.fuse(copies, mode=mode, fallback="error")(X)
    assert not any(np.shares_memory(array, X) for array in found)


def set_all(x: Any) -> Any:
    """Assign a new value to everything."""
    x[...] = x * 2
    x[:] = x + 1
    return x


def set_masked(x: Any) -> Any:
    """Assign where a condition holds."""
    x[x < 0] = 0
    x += 1
    return x.T, x


def swap(x: Any, y: Any) -> None:
    """Exchange two arguments' values."""
    keep = x.copy()
    x[:] = y
    y[:] = keep


def both(x: Any, y: Any) -> Any:
    """Write into both arguments, one after the other."""
    x += y
    y -= x
    return x - y


def through_out(x: Any, y: Any) -> Any:
    """Write through out= and where=."""
    np.add(x, 1, out=x)
    np.multiply(x, y, out=y, where=x > 0)
    room = np.empty_like(x)
    np.subtract(x, y, out=room)
    np.copyto(y, 3, where=room > 0)
    return room


def fill(x: Any) -> None:
    """Fill."""
    x.fill(2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "function", [set_all, set_masked, swap, both, through_out, fill, add_in_place]
)
def test_writes_into_arguments_are_written_back(function: Any, mode: str) -> None:
    """In-place operations change the arguments as NumPy changes them."""
    args = (X, Y)[: function.__code__.co_argcount]
    assert_same(function, *args, mode=mode)
    assert_same(function, *(np.asfortranarray(a)[:, ::2] for a in args), mode=mode)


@pytest.mark.parametrize("function", [swap, both, add_in_place])
def test_arguments_that_share_memory(function: Any) -> None:
    """The same array twice, shifted and reversed overlaps: as NumPy, fused or not."""
    assert_same(function, X, X, fallback="allow")
    for one, other in ((V[1:], V[:-1]), (V[:-1], V[1:]), (V, V[::-1]), (V[::-1], V)):
        assert_same(function, one, other, fallback="allow")


def write_part(x: Any) -> Any:
    """Write into a slice."""
    x[1:] += 1
    return x


def write_view(x: Any) -> Any:
    """Write through a view."""
    y = x.T
    y += 1
    return x


def write_reshaped(x: Any) -> Any:
    """A reshape may or may not be a view of what is written."""
    y = x[:, ::2].reshape(-1)
    x += 1
    return y * 2


@pytest.mark.parametrize("function", [write_part, write_view])
def test_writes_into_parts_of_arguments(function: Any) -> None:
    """Written back into the argument, and only there."""
    assert_same(function, X, fallback="error")


def test_a_write_that_a_reshape_may_see_falls_back() -> None:
    """Never dropped: the call runs unfused with the reason."""
    assert_same(write_reshaped, X, fallback="allow")
    with pytest.raises(fuser.FusionError, match="write-into-view"):
        fuser.fuse(write_reshaped, fallback="error")(X.copy())


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [
        (V[:5].copy(), X, ValueError),
        (X[:1].copy(), X, ValueError),
        (np.broadcast_to(V[:5], (4, 5)), X, ValueError),
        (np.arange(5), V[:5], TypeError),
    ],
    ids=["rank", "row", "read-only", "casting"],
)
def test_writes_that_numpy_refuses(x: Any, y: Any, error: type[Exception]) -> None:
    """The same exception, and untouched arguments."""
    before = x.copy()
    with pytest.raises(error):
        fuser.fuse(add_in_place, fallback="allow")(x, y)
    np.testing.assert_array_equal(x, before)
    assert_same(add_in_place, x, y, fallback="allow")


def test_assignment_broadcasts_as_numpy_does() -> None:
    """`x[...] = y` takes smaller shapes and extra axes of length 1, `+=` does not."""

    def assign(x: Any, y: Any) -> None:
        """Assign."""
        x[...] = y

    for shape in ((4, 5), (5,), (4, 1), (), (1, 4, 5), (1, 1, 1, 5)):
        assert_same(assign, X, np.ones(shape, np.float32))
    assert_same(assign, X, np.ones((2, 4, 5)), fallback="allow")


SCALARS = [
    np.float32(3),
    np.array(3, np.float32),
    3.0,
    3,
    True,
    np.int8(3),
    np.bool_(True),
    np.array(2),
]
ZERO_D: dict[str, Any] = {
    "add": lambda x: x + 1,
    "sqrt": lambda x: np.sqrt(x),
    "where": lambda x: np.where(x > 0, x, 2),
    "same": lambda x: x,
    "two": lambda x: (x * 2, x > 1),
    "clip": lambda x: np.clip(x, 0, 1),
    "power": lambda x: x**2,
    "divmod": lambda x: np.divmod(x, 2),
    "round": lambda x: np.round(x),
    "strong": lambda x: (np.float64(2) * x, np.float32(2) + x),
    "with array": lambda x: np.multiply(x, np.array([1, 2, 3])),
    "stack": lambda x: np.stack([np.abs(x), np.abs(x)]),
    "equal": lambda x: x == 3,
    "zeros": lambda x: np.zeros_like(x),
    "nan_to_num": lambda x: np.nan_to_num(x),
    "copy": lambda x: np.copy(x),
    "transpose": lambda x: np.transpose(np.abs(x)),
}


@pytest.mark.parametrize("name", ZERO_D)
@pytest.mark.parametrize("value", SCALARS, ids=lambda v: f"{type(v).__name__}")
def test_scalars_and_zero_dimensional_arrays(name: str, value: Any) -> None:
    """Python and NumPy scalars and 0-d arrays in; a scalar or a 0-d array out, as NumPy gives."""
    assert_same(ZERO_D[name], value, ulp=1, fallback="allow")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1, 2],
        lambda x: x[1, 2] * 2 + x[0, 0],
        lambda x: x[1, ..., 2],
        lambda x: x[..., 0][..., 1],
        lambda x: x[1, 2, None],
        lambda x: x[-1, -1][()],
        lambda x: (x[0], x[:, -1], x[None, ..., None]),
    ],
)
def test_indexing_gives_scalars_or_views(function: Any) -> None:
    """Integers everywhere give a scalar, with an ellipsis a 0-d array."""
    assert_same(function, X)


@pytest.mark.parametrize(
    "function",
    [lambda x: x[9], lambda x: x[-5, 0] + 1, lambda x: x[0, 0, 0], lambda x: x[..., ...]],
)
def test_bad_indices_raise_what_numpy_raises(function: Any) -> None:
    """IndexError."""
    assert_same(function, X, fallback="allow")
    with pytest.raises(IndexError):
        fuser.fuse(function, fallback="allow")(X)


def test_scalars_are_copies_and_are_not_written_into() -> None:
    """`t = x[0]; t += 0.5` makes a new scalar, and later writes into x do not change it."""

    def snapshot(x: Any) -> Any:
        """Take an element, then change the array."""
        t = x[0]
        t += 0.5
        x += 1
        return t, x

    assert_same(snapshot, V)
    assert_same(lambda x: add_in_place(x, 1.5), np.float32(2))
    assert_same(lambda x: add_in_place(x, 1.5), np.int8(2))
    assert_same(lambda x: add_in_place(x, 1.5), 2)
    assert_same(lambda x: add_in_place(x, 1.5), np.array(2.0))


TREES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "named tuple": (lambda p: Pair(p.left + p.right, p.left), (Pair(X, Y),)),
    "dict": (lambda d: {"s": d["a"] + d["b"], "t": [d["a"], (d["b"] * 2,)]}, ({"a": X, "b": Y},)),
    "list": (lambda parts: [q * 2 for q in parts], ([X, Y, V],)),
    "nothing": (lambda x: None, (X,)),
    "empty": (lambda x: ((x + 1,), [], {}), (X,)),
    "plain values": (lambda x: (3, "a", None, np.arange(3), np.float32(1), x.dtype), (X,)),
    "lengths": (lambda x: (x.shape, x.ndim, x.size, len(x), x.nbytes), (X,)),
    "scalars": (lambda x, s: (s, s * 2, x * s, s > 1), (X, 3)),
    "no arguments": (lambda: np.arange(3) + 1, ()),
    "no array": (lambda x, part: x, (X, [])),
}


@pytest.mark.parametrize("name", TREES)
def test_nested_arguments_and_results(name: str) -> None:
    """Tuples, named tuples, lists and dicts nest, with plain values among them."""
    function, args = TREES[name]
    assert_same(function, *args)


def test_trace_gives_every_returned_array() -> None:
    """A graph by itself has all outputs: arguments, views, duplicates and numbers too."""
    function = lambda x, s: (x, x.T, (x + 1).T, x[1:], s * 2, x + s)  # noqa: E731
    graph = fuser.trace(function, X, 3)
    for mode in MODES:
        found = fuser.run_fusion(fuser.register_fusion(graph), [X, 3], mode=mode)
        for one, other in zip(function(X, 3), found, strict=True):
            np.testing.assert_array_equal(one, other)
            assert not np.shares_memory(other, X)


def test_functions_that_raise() -> None:
    """What the function raises itself comes through after the fallback."""

    def wrong(x: Any) -> Any:
        """Raise."""
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fuser.fuse(wrong, fallback="allow")(X)
    assert compare(wrong, X, fallback="allow") == ""


def test_isinstance_tells_what_numpy_would() -> None:
    """Functions that ask what they were given take the same way as without tracing."""
    import numbers

    def kinds(x: Any, s: Any) -> Any:
        """Count the answers."""
        asked = [
            isinstance(x, np.ndarray),
            isinstance(s, float),
            isinstance(s, (int, np.ndarray)),
            isinstance(s, numbers.Number),
            isinstance(x[0, 0], np.generic),
            isinstance(x[0, 0] * 2, np.floating),
            isinstance(x.shape[0], int),
            np.isscalar(s),
            np.isscalar(x),
            callable(x),
        ]
        return x * sum(2**k for k, answer in enumerate(asked) if answer)

    assert_same(kinds, X, 2.0)
    assert_same(kinds, X, 2)
    assert_same(kinds, X, True)
