"""An iteration is divided where an array is read at other places than it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.records import changed
from fuser.ir import loops, opaque_calls
from fuser.programs import partition
from fuser.programs.phases import phases_of


def stencils(a: Any, b: Any, n: int) -> None:
    """The second statement reads what the first one wrote, beside it."""
    for _ in range(n):
        b[1:-1] = 0.25 * (a[2:] + a[:-2]) + b[1:-1]
        a[1:-1] = 0.25 * (b[2:] + b[:-2])


def fields(a: Any, b: Any, n: int) -> None:
    """Two fields in turn, each read where it is written, too."""
    for _ in range(n):
        a[1:] = a[1:] - 0.5 * (b[1:] - b[:-1])
        b[:-1] = b[:-1] - 0.5 * (a[1:] - a[:-1])


def needs_what_was(a: Any, b: Any, n: int) -> None:
    """What was there before the first write is needed together with what it left."""
    for _ in range(n):
        old = a[2:] * 0.5
        a[1:-1] = b[2:] + 1.0
        b[1:-1] = (a[2:] - a[:-2]) * 0.25 + old


def read_where_written(a: Any, b: Any, n: int) -> None:
    """One kernel does both statements."""
    for _ in range(n):
        a[1:-1] = a[1:-1] * 0.5 + 1.0
        b[1:-1] = b[1:-1] - a[1:-1]


def three(a: Any, b: Any, n: int) -> None:
    """Three statements, each of which reads what the one before wrote, and two writes into one."""
    for _ in range(n):
        a[3:-1] = b[4:] - b[:-4]
        b[1:-1] = a[2:] * 0.5 - a[:-2]
        a[:3] = b[1:4] * 0.25 + b[:3] + a[:3]


CASES = [(stencils, 2), (fields, 2), (needs_what_was, 2), (read_where_written, 1), (three, 3)]


@pytest.mark.parametrize(("function", "count"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_phases(function: Callable[..., Any], count: int) -> None:
    """As many as writes are read beside where they wrote; each value is NumPy's, to the bit."""
    a, b = np.random.default_rng(1).standard_normal((2, 40))
    graph = fuser.trace(function, a, b, 20)
    (call, *_) = [node for node in graph.nodes if node.payload.text.count(opaque_calls.LOOP)]
    assert len(phases_of(loops.region_of(call.payload.args))) == count
    fused = fuser.fuse(function, fallback="error")
    for trips in (1, 2, 9):
        plain, own = np.stack([a, b]), np.stack([a, b])
        function(*plain, trips)
        fused(*own, trips)
        np.testing.assert_array_equal(own, plain)


def test_one_value_that_several_names_have() -> None:
    """It is stored once; the loop has its short way, with NumPy's calls in it, too."""

    def found(a: Any, b: Any, n: int) -> Any:
        old = new = a.sum()
        for _ in range(n):
            new = np.abs(a).max() + old * 0.5
            a = a * 0.5 + b
            old = new
        return a, old, new

    def sorted_each_time(a: Any, b: Any, n: int) -> Any:
        old = new = a.sum()
        for _ in range(n):
            new = np.sort(a)[-1] + old * 0.5
            a = a * 0.5 + b
            old = new
        return a, old, new

    for function in (found, sorted_each_time):
        fused = fuser.fuse(function, fallback="allow")
        for trips in (3, 4, 9):
            a, b = np.random.default_rng(trips).standard_normal((2, 40))
            for one, two in zip(fused(a, b, trips), function(a, b, trips), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-12)
                assert type(one) is type(two)


def in_place(a: Any, b: Any, n: int) -> None:
    """A step of diffusion in its own array, which is read beside what is written."""
    for _ in range(n):
        a[1:-1] += 0.25 * (a[2:] - 2.0 * a[1:-1] + a[:-2]) + b[1:-1]


def with_an_end(a: Any, b: Any, n: int) -> None:
    """A ring: its one end is written after all else, from what was at the other one."""
    for _ in range(n):
        last = a[-1]
        a[1:] = a[1:] - 0.5 * (a[1:] - a[:-1])
        a[0] = a[0] - 0.5 * (a[0] - last) + b[0]


def with_both_ends(a: Any, b: Any, n: int) -> None:
    """Ends that are written before and after what lies between."""
    for _ in range(n):
        a[0] = b[3]
        a[1:-1] = a[2:] - 0.5 * a[:-2]
        b[1:-1] = b[:-2] - a[2:]
        a[-1] = b[4] + a[-1]


def a_short_part(a: Any, b: Any, n: int) -> None:
    """What lies around the part is most of the array: no twin."""
    for _ in range(n):
        a[1:4] = a[:3] + b[1:4]
        a[0] = b[0] + a[5]


TWINS = [(in_place, 1), (fields, 0), (three, 0), (with_an_end, 1), (with_both_ends, 2),
         (a_short_part, 0)]  # fmt: skip


@pytest.mark.parametrize(("function", "count"), TWINS, ids=lambda v: getattr(v, "__name__", v))
def test_an_array_that_is_read_beside_what_is_written_has_a_twin(
    function: Callable[..., Any], count: int
) -> None:
    """Nothing is stored aside where one part of it is written, the same in all iterations."""
    a, b = np.random.default_rng(2).standard_normal((2, 40))
    fused = fuser.fuse(function, fallback="error")
    fused(a.copy(), b.copy(), 20)
    nodes = fuser.trace(function, a, b, 20).nodes
    node = next(n for n in nodes if n.op.is_opaque and n.payload.name == opaque_calls.LOOP)
    phases = phases_of(loops.region_of(node.payload.args))
    assert sum(len(phase.twins) for phase in phases) == count
    for trips in (0, 1, 2, 7):
        for step, axes in ((1, 1), (-1, 1), (2, 1), (1, 2)):
            start = np.stack([a, b] if axes == 1 else [np.outer(a, b), np.outer(b, b)])
            own, plain = start.copy(), start.copy()
            function(*plain[:, ::step], trips)
            fused(*own[:, ::step], trips)
            np.testing.assert_array_equal(plain, own)


def _edges_of_two(u: Any, v: Any, n: int) -> None:
    for _ in range(n):
        w = u.copy()
        u[1:-1] = w[1:-1] + 0.5 * v[1:-1]
        u[0] = u[-1] = 0
        v[0] = v[-1] = 0


def _edges_between_reads(u: Any, v: Any, n: int) -> None:
    for _ in range(n):
        u[1:-1] = (u[2:] + u[:-2]) * 0.5
        u[0] = u[-1] = v[0] = v[-1] = 1
        v[1:-1] = u[2:] - u[:-2]


def _edges_with_a_call(u: Any, v: Any, n: int) -> None:
    for _ in range(n):
        u[1:-1] = np.sort(v)[1:-1] * 0.5
        u[:1] = v[-1:] = u[-1:] = 2
        v[0] = 0


def _one_value_in_two_and_kept(u: Any, v: Any, n: int) -> Any:
    kept = u[2:4]
    for _ in range(n):
        kept = u[1:3] * 0.5 + v[1:3]
        u[0:2] = kept
        v[3:5] = u[5:7] = kept
    return kept


@pytest.mark.parametrize(
    "function",
    [_edges_of_two, _edges_between_reads, _edges_with_a_call, _one_value_in_two_and_kept],
)
def test_one_value_that_is_written_into_several_places(function: Callable[..., Any]) -> None:
    """Each place gets it, of one array or of several."""
    fused = fuser.fuse(function, fallback="allow")
    for trips in (3, 4, 9):
        plain = np.random.default_rng(trips).standard_normal((2, 12)).round(1)
        own = plain.copy()
        wanted = function(*plain, trips)
        found = fused(*own, trips)
        np.testing.assert_array_equal(own, plain)
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)


def _apart(u: Any, v: Any, apart: int, steps: int) -> tuple[Any, Any]:
    u, v = u.copy(), v.copy()
    for _ in range(steps):
        u[: len(v)] = 0.5 * u[apart : len(v) + apart] - v
        v += u[: len(v)]
    return u, v


def test_parts_and_twins_have_names_of_their_own() -> None:
    """A part that a number tells, and an array that takes another one's place, in one phase."""
    u, v = np.random.default_rng(5).normal(size=(60, 8)), np.ones((12, 8))
    fused = fuser.fuse(_apart)
    for apart in (40, 1, 12, 3, 40):
        for found, wanted in zip(fused(u, v, apart, 24), _apart(u, v, apart, 24), strict=True):
            assert found.tobytes() == wanted.tobytes()


def test_no_graph_with_two_arguments_of_one_name_is_prepared() -> None:
    """Kernels would take the lengths of one for those of the other."""
    graph = fuser.trace(lambda x, y: x[:, 0] + y, np.ones((3, 4)), np.ones(3))
    twice = changed(graph, parameters=(graph.parameters[0],) * 2)
    with pytest.raises(fuser.GraphError, match="one name"):
        partition.prepare(twice)


def _row_and_column(c: Any, x: Any, n: int) -> None:
    for k in range(n):
        c[k:, k] = c[k, k:] = np.cumsum(x[k, k:]) * 2 - x[k, k]


def _sorted_row_and_column(c: Any, x: Any, n: int) -> None:
    for k in range(n):
        c[k:, k] = c[k, k:] = np.sort(x[k, k:])


def _its_own_row(c: Any, x: Any, n: int) -> None:
    for k in range(n):
        c[k:, k] = c[k, k:]
        c[k, k:] = np.flip(c[k, k:]) + x[k, k]


@pytest.mark.parametrize(
    ("function", "stored"),
    [(_row_and_column, 1), (_sorted_row_and_column, 1), (_its_own_row, None)],
)
def test_a_value_is_stored_once_for_places_with_other_axes(
    function: Callable[..., Any], stored: int | None
) -> None:
    """One that goes to a row and to a column; what looks at the array itself is copied before."""
    x = np.random.default_rng(2).standard_normal((9, 9))
    if stored is not None:
        graph = fuser.trace(function, x.copy(), x, 9)
        calls = [node.payload for node in graph.nodes if node.op.is_opaque]
        args = next(call.args for call in calls if call.name == opaque_calls.LOOP)
        (phase,) = phases_of(loops.region_of(args))
        assert len(set(phase.stored)) == stored
    fused = fuser.fuse(function)
    for trips in (9, 1, 9, 9):
        plain, own = x.copy(), x.copy()
        function(plain, x, trips)
        fused(own, x, trips)
        np.testing.assert_array_equal(own, plain)


def accumulates(a: Any, b: Any, n: int) -> Any:
    """A NumPy function stands between kernels, and whole arrays are written."""
    total = np.zeros(a.shape)
    for _ in range(n):
        total += np.sort(a, axis=0) * b
        a[:] = total * 0.5
    return total


def another_name(a: Any, b: Any, n: int) -> Any:
    """A second name stands for what is written, from the first iteration on."""
    c = b
    for _ in range(n):
        a += np.sort(c, axis=0) * 0.5
        c = a
    return c


def seen_through_a_reshape(a: Any, b: Any, n: int) -> Any:
    """What a function gives may look at what is written."""
    for _ in range(n):
        flat = np.ravel(a)
        a += np.sort(b, axis=0)
        b[:] = b * 0.5 + flat.reshape(a.shape)
    return a


REPLACING = [(accumulates, 2), (another_name, 0), (seen_through_a_reshape, 0)]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("function", "count"), REPLACING, ids=lambda v: getattr(v, "__name__", v)
)
def test_whole_arrays_are_replaced(function: Callable[..., Any], count: int, order: Any) -> None:
    """New arrays take the places of old ones, where nothing else looks at these."""
    a, b = np.random.default_rng(1).standard_normal((2, 9, 7))
    a, b = np.array(a, order=order), np.array(b, order=order)
    fused = fuser.fuse(function, fallback="allow")
    if count:
        graph = fuser.trace(function, a, b, 20)
        (call, *_) = [n for n in graph.nodes if n.payload.text.count(opaque_calls.LOOP)]
        (phase,) = phases_of(loops.region_of(call.payload.args))
        assert [box for _, _, box, _ in phase.moved] == [None] * count
    for trips in (0, 1, 2, 9):
        plain, own = (a.copy("K"), b.copy("K")), (a.copy("K"), b.copy("K"))
        wanted, found = function(*plain, trips), fused(*own, trips)
        for one, other in zip((wanted, *plain), (found, *own), strict=True):
            np.testing.assert_array_equal(other, one)
            assert other.strides == one.strides


def test_a_number_that_is_the_length_of_an_array_in_the_loop() -> None:
    """Iterations ask that array, and not the number."""

    def summed(a: Any, m: int, n: int) -> Any:
        total = np.zeros(m)
        for _ in range(n):
            total += np.sort(a) * 0.5
        return total

    a = np.random.default_rng(1).standard_normal(12)
    graph = fuser.trace(summed, a, 12, 20)
    (call, *_) = [n for n in graph.nodes if n.payload.text.count(opaque_calls.LOOP)]
    assert not loops.region_of(call.payload.args).graph.scalar_lengths
    fused = fuser.fuse(summed, fallback="error")
    for trips in (0, 3, 9):
        np.testing.assert_array_equal(fused(a, 12, trips), summed(a, 12, trips))
    with pytest.raises(ValueError, match="broadcast"):
        fuser.fuse(summed)(a, 11, 3)
