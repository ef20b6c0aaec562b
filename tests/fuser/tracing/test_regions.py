"""Writes into parts of arrays: NumPy's results, one kernel for a stencil with its borders."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import assert_same, compare

RNG = np.random.default_rng(11)
V = RNG.normal(size=20)
A = RNG.normal(size=(9, 11))


def difference(x: Any) -> Any:
    """A derivative with fixed ends."""
    out = np.zeros_like(x)
    out[1:-1] = x[2:] - x[:-2]
    out[0] = 0
    out[-1] = x[-1]
    return out


def with_column(x: Any) -> Any:
    """Rows, then a column across all of them."""
    out = np.empty_like(x)
    out[1:-1] = x[2:] - x[:-2]
    out[0] = 0
    out[-1] = 1
    out[:, -1] += 1
    return out


def reflected(u: Any) -> Any:
    """A five-point stencil with borders copied from inside."""
    out = u.copy()
    out[1:-1, 1:-1] = (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )
    out[0, :] = out[1, :]
    out[-1, :] = out[-2, :]
    out[:, 0] = out[:, 1]
    out[:, -1] = out[:, -2]
    return out


def shifted(x: Any) -> Any:
    """Overlapping source and target, then work on the whole."""
    out = x.copy()
    out[1:] = out[:-1]
    out[0] = 7
    return out * 2


def through_views(x: Any) -> Any:
    """Views of a local array see each other's writes."""
    u = x.copy()
    v = u[1:-1]
    v += 1
    v[0] = 5
    return u, v, u.sum()


def backwards(x: Any) -> Any:
    """A write through a view that runs from the end."""
    u = x.copy()
    u[1:-1][::-1][1:3] *= 2
    return u


def corners(x: Any) -> Any:
    """Transposes, flips, new axes, single elements."""
    out = np.zeros_like(x)
    out.T[1:3, ::-1] = x.T[2:4]
    out[..., 0] = np.arange(float(x.shape[0]))
    out[2, 3] = 9
    out[None, :, 1:2][0] = 5
    out[-1, -1] -= 3
    return out


def into_argument(x: Any) -> Any:
    """A part of an argument."""
    x[1:-1] = x[2:] + x[:-2]
    x[0] = 3
    return x * 2


def interleaved(x: Any) -> Any:
    """Two halves in turn."""
    out = np.empty(x.shape[0] * 2)
    out[::2] = x
    out[1::2] = -x
    return out


def enlarged(x: Any) -> Any:
    """Twice as many places along both axes."""
    out = np.zeros((x.shape[0] * 2, x.shape[1] * 2))
    out[::2, ::2] = x
    out[1::2, ::2] = x * 2
    out[::2, 1::2] = x + 1
    out[1::2, 1::2] = -x
    return out


def channels(x: Any) -> Any:
    """Three values a pixel, in another order."""
    out = np.empty_like(x)
    out[..., ::3] = x[..., 2::3]
    out[..., 1::3] = x[..., 1::3]
    out[..., 2::3] = x[..., ::3]
    return out


def over_a_column(x: Any) -> Any:
    """Every second row over a column."""
    out = np.zeros_like(x)
    out[:, 0] = 3
    out[::2] = x[::2]
    return out


def red_and_black(u: Any) -> Any:
    """A sweep over the odd places, then one over the even ones between."""
    u = u.copy()
    u[1:-1:2] = 0.5 * (u[:-2:2] + u[2::2])
    u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2])
    return u


ONE_KERNEL: dict[str, tuple[Any, Any]] = {
    "difference": (difference, V),
    "column": (with_column, A),
    "reflected": (reflected, A),
    "shifted": (shifted, V),
    "shifted rows": (shifted, A),
    "views": (lambda x: through_views(x)[:2], V),
    "backwards": (backwards, V),
    "corners": (corners, A),
    "corners, columns in memory": (corners, np.asfortranarray(A)),
    "reversed source": (reflected, A[::-1, ::2]),
    "interleaved": (interleaved, V),
    "enlarged": (enlarged, A),
    "over a column": (over_a_column, A),
    "channels": (channels, np.hstack([A, A, A])),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str) -> None:
    """The same bits and memory order, with nothing stored in between."""
    function, x = ONE_KERNEL[name]
    assert_same(function, x)
    assert len(fuser.fuse(function).explain(x).groups) == 1
    assert not fuser.fuse(function).explain(x).realised


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_arguments_are_written_back(mode: str) -> None:
    """Where it was written, and nowhere else."""
    for x in (V.copy(), V.copy()[::-1], np.repeat(V, 2)[::2]):
        assert_same(into_argument, x, mode=mode)
    read_only = V.copy()
    read_only.flags.writeable = False
    assert compare(into_argument, read_only, mode=mode) == ""


@pytest.mark.parametrize(
    "function", [difference, shifted, through_views, into_argument, red_and_black]
)
def test_short_arrays(function: Any) -> None:
    """Slices that are empty, ends that meet, IndexErrors."""
    for length in range(6):
        assert compare(function, RNG.normal(size=length), ulp=2, fallback="allow") == ""
        rows = RNG.normal(size=(length, 3))
        assert compare(function, rows, ulp=4, fallback="allow") == ""


def test_sizes_compile_nothing() -> None:
    """One specialisation for all arrays that are long enough."""
    fused = fuser.fuse(reflected, fallback="error")
    fused(A)
    before = fuser.n_compiled_kernels()
    for shape in ((4, 5), (4, 30), (50, 7), (64, 64)):
        x = RNG.normal(size=shape)
        np.testing.assert_array_equal(fused(x), reflected(x))
    assert fuser.n_compiled_kernels() == before


def test_steps_that_alternate_move_the_least_bytes() -> None:
    """What is written over is neither computed nor copied."""

    def function(x: Any, y: Any) -> Any:
        out = np.empty(x.shape[0] * 2)
        out[::2] = x
        out[1::2] = y
        return out

    book = fuser.fuse(function).explain(V, V * 2).ledger
    assert book.planned_bytes == book.least_bytes == V.nbytes * 4


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_steps_into_arguments(mode: str) -> None:
    """Every second and every fourth place of an argument, and none beside them."""

    def function(x: Any, v: Any) -> None:
        x[::2] = v
        x[3::4] += 1
        x[-1] = 2

    for x in (V.copy(), np.asfortranarray(V[::-1])):
        assert_same(function, x, V[:10], mode=mode)


def test_other_steps_run_in_numpy() -> None:
    """Backwards or far apart: a graph break, and the right answer."""

    def function(x: Any) -> Any:
        out = np.zeros_like(x)
        out[::5] = x[::5] * 2
        out[::-2] -= 1
        out[::-1] = out * 3
        return out

    fused = fuser.fuse(function, fallback="allow")
    assert compare(fused, V, fallback="allow") == ""
    assert [reason.operation for reason in fused.fallbacks] == ["assignment"] * 2


def test_errors_are_numpys() -> None:
    """Bounds and shapes."""
    for function in (
        lambda x: _set(x.copy(), 30, 1),
        lambda x: _set(x.copy(), slice(1, 4), x[:2]),
        lambda x: _set(np.broadcast_to(x, (3, 20)), 0, 1),
        lambda x: _set(x.copy(), (0, 0), 1),
    ):
        assert compare(function, V, fallback="allow") == ""
        with pytest.raises((IndexError, ValueError)):
            fuser.fuse(function, fallback="allow")(V)


def _set(target: Any, index: Any, value: Any) -> Any:
    """An assignment as an expression."""
    target[index] = value
    return target * 1


def test_graphs_with_updates_read_back() -> None:
    """Text and interpretation."""
    graph = fuser.trace(reflected, A)
    assert "update{1:n0 - 1; 1:n1 - 1}" in str(graph)
    assert fuser.parse(str(graph)) == graph
    (found,) = fuser.run_fusion(fuser.register_fusion(graph), [A], mode="fallback")
    np.testing.assert_array_equal(found, reflected(A))
    whole = fuser.trace(into_argument, V)
    assert [node.shape for node in whole.outputs][-1] == whole.parameters[0].shape


PLACES: tuple[Any, ...] = (
    0, -1, slice(1, None), slice(None, -1), slice(1, -1), slice(2, 4), (slice(None), 0),
    (slice(1, -1), slice(1, -1)), (slice(None), -1), (1, slice(2, None)), ..., (2, 1),
    (slice(None, None, -1), slice(1, 3)), slice(None, None, 2), slice(1, None, 2),
    (slice(1, -1, 2), slice(None, None, 3)), (..., slice(1, None, 3)),
)  # fmt: skip


#: Each cuts what those before it have joined: their parts would be 24 loop nests.
CUTTING: Any = [(0, 0, 0), ((0, slice(1, None)), 0, 0), ((slice(1, None, 2), 0), 0, 0),
                ((..., slice(1, None, 3)), 0, 0), ((1, slice(2, None)), -1, 1)]  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES), st.integers(0, 3)),
                min_size=1, max_size=5))  # fmt: skip
@example(CUTTING)
def test_random_writes(writes: list[tuple[Any, Any, int]]) -> None:
    """Boxes over boxes, read back between writes, for two sizes."""
    def function(x: Any) -> Any:
        out = np.zeros_like(x)
        for target, source, kind in writes:
            if kind == 0:
                out[target] = 3
            elif kind == 1:
                out[target] += x[target]
            elif kind == 2:
                out[target] = out[source].sum()
            else:
                out[target] = out[target] * 0.5 + x[target]
        return out

    fused = fuser.fuse(function, fallback="error")
    for shape in ((5, 6), (4, 4)):
        x = RNG.integers(-8, 8, shape) * 0.5
        assert compare(fused, x, ulp=4) == ""


def test_a_place_in_an_axis_that_is_found_to_have_one_element() -> None:
    """Its length is spelled in another way than 1: such parts are not written side by side."""

    def program(x: Any, y: Any) -> Any:
        seen = np.any(x, axis=1, keepdims=True)
        z = x * seen
        z[::2] = z[..., :]
        turned = np.swapaxes(y | seen, 0, -1)
        turned[0, -1] *= 1
        flat = z.ravel() * turned
        less = turned - np.sum(turned, axis=0, keepdims=True, initial=2)
        return np.array(less), flat * np.sum(flat, axis=0, keepdims=True)

    x = np.arange(3, dtype=np.uint8)[None] + 1
    assert_same(program, x, x + 4)


def test_a_write_of_nothing_beside_reductions() -> None:
    """Into what has one element, whatever the arguments' lengths: no nest is launched for it."""

    def program(x: Any) -> Any:
        top = np.max(x, axis=0, initial=2)
        total = (top[:, None] - top[None, :]).sum(0).sum(axis=-1, keepdims=True)
        total[:-1] = total[0]
        return x * 3, np.minimum(total <= 1, total <= 1)

    fused = fuser.fuse(program, fallback="error")
    for rows, columns in ((7, 4), (7, 4), (8, 5), (9, 6)):
        assert_same(fused, np.ones((rows, columns)))


def test_a_write_into_nothing_of_a_new_axis() -> None:
    """It has one place, and the slice begins behind it."""

    def program(x: Any) -> Any:
        y = x * 2
        y[None, 2:][1::2, 1::2, 1:] += 1
        y[None, 2:][:, 1::2, 1:] += 1
        return y

    assert_same(program, np.ones((5, 5)))


def rotated(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary embedding of neighbouring pairs: Su and others, arXiv:2104.09864."""
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * cosine - x[:, 1::2] * sine
    out[:, 1::2] = x[:, 0::2] * sine + x[:, 1::2] * cosine
    return out


def test_what_is_interleaved_is_one_nest() -> None:
    """Where all turns have one length, however it is spelled: everything is read once."""
    fused = fuser.fuse(rotated, fallback="error")
    for rows, pairs in ((3, 1), (5, 2), (4, 7), (64, 129)):
        x = np.arange(rows * pairs * 2.0).reshape(rows, pairs * 2)
        angles = np.linspace(0, 6, rows * pairs).reshape(rows, pairs)
        args = x, np.cos(angles), np.sin(angles)
        assert_same(fused, *args)
        book = fused.explain(*args).ledger
        assert book is not None
        assert book.planned_bytes == 8 * 3 * x.size
    with pytest.raises(ValueError):
        fused(np.ones((3, 5)), np.ones((3, 3)), np.ones((3, 2)))


def test_lengths_have_one_spelling() -> None:
    """A length of which a guard says that it is at least 1 loses its `max`: one loop nest."""

    def steps(u: Any, v: Any) -> None:
        v[1:-1] += u[2:] - u[:-2]
        u[1:-1] += v[1:-1]

    fused = fuser.fuse(steps, fallback="error")
    for length in (40, 4, 3, 2, 40):
        arrays = [np.arange(2.0 * length).reshape(2, length)[k] ** 1.5 for k in (0, 1)]
        copies = [array.copy() for array in arrays]
        steps(*arrays)
        fused(*copies)
        for one, other in zip(arrays, copies, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-13)
    # u and v are read once, v is written; u is stored aside, read and written
    assert fused.explain(*copies).ledger.planned_bytes == 8 * (40 + 5 * 38)


def test_a_write_inside_of_an_earlier_one_is_part_of_it() -> None:
    """Where it surely lies there; then the argument is written once."""

    def heated(t: Any) -> None:
        t[1:-1, 1:-1] *= 0.5
        t[2:4, 3:5] = 100
        t[0] = t[1]

    fused = fuser.fuse(heated, fallback="error")
    for shape in ((9, 8), (6, 7), (5, 6), (9, 8)):
        (array, copy) = (np.arange(float(shape[0] * shape[1])).reshape(shape) for _ in range(2))
        heated(array)
        fused(copy)
        np.testing.assert_array_equal(copy, array)
    graph = fused.explain(array).graph
    assert [tuple(map(str, node.shape)) for node in graph.outputs] == [
        ("n0 - 2", "n1 - 2"), ("1", "n1")
    ]


def test_a_write_between_two_others_comes_before_the_last() -> None:
    """Which lies in the first, but not in that one."""

    def steps(x: Any) -> None:
        x[:-1] *= 3
        x[1::2] *= 0.5
        x[1:-1] += 5
        x[2:4] = x[:2]

    fused = fuser.fuse(steps, fallback="error")
    for length in (9, 40, 8):
        array, copy = np.arange(2.0, 2 + length), np.arange(2.0, 2 + length)
        for _ in range(2):
            steps(array)
            fused(copy)
            np.testing.assert_array_equal(copy, array)


def test_a_write_that_stays_comes_after_one_that_lies_in_an_earlier_one() -> None:
    """Nothing is taken for written that one of them writes later."""

    def steps(x: Any) -> None:
        x[1:] += 2
        x[-1] -= x[0]
        x[::2] *= 0.5
        x[3:5] *= 3
        x[1::2] += 2

    fused = fuser.fuse(steps, fallback="error")
    for length in (7, 9, 12):
        array, copy = np.arange(2.0, 2 + length), np.arange(2.0, 2 + length)
        steps(array)
        fused(copy)
        np.testing.assert_array_equal(copy, array)
