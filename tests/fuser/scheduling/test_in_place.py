"""Writes into arguments: what kernels write at once, what is stored aside, bytes and values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import get_backend
from fuser.backends.cpu.machine import workers
from fuser.compiler import compile_upfront
from fuser.runtime.aliasing import direct_targets
from tests.fuser import comparing

N = 1000


def electric(e: Any, h: Any) -> None:
    """Reads the very elements that it writes."""
    e[1:] += 0.5 * (h[1:] - h[:-1])


def even(x: Any, y: Any) -> None:
    """Every second element."""
    x[::2] *= y[::2]


def heat(u: Any) -> None:
    """Reads neighbours of what it writes."""
    u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])


def turned(x: Any) -> None:
    """Every element is read after another one has been written."""
    x[:] = x[::-1]


def advected(u: Any) -> None:
    """An end that follows from nothing, beside what is read shifted."""
    u[:-1] = u[1:]
    u[-1] = 0


def swapped(x: Any) -> None:
    """Parts that lie in turn."""
    kept = x[::2].copy()
    x[::2] = x[1::2]
    x[1::2] = kept


def wave(u: Any, v: Any) -> None:
    """One of two is read at other places."""
    v[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    u[1:-1] += 0.1 * v[1:-1]


def relaxed(u: Any) -> None:
    """Jacobi's step on the inner points, and its size."""
    new = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    change = np.abs(new - u[1:-1, 1:-1]).max()
    u[1:-1, 1:-1] = new
    return change


def yee(e: Any, h: Any) -> None:
    """One field after the other: the second step reads what the first one has written."""
    e[1:] += 0.5 * (h[1:] - h[:-1])
    h[:-1] += 0.5 * (e[1:] - e[:-1])


def yee_on_a_plate(ez: Any, hx: Any, hy: Any) -> None:
    """Three fields."""
    hx[:, :-1] -= 0.5 * (ez[:, 1:] - ez[:, :-1])
    hy[:-1] += 0.5 * (ez[1:] - ez[:-1])
    ez[1:-1, 1:-1] += hy[1:-1, 1:-1] - hy[:-2, 1:-1] - (hx[1:-1, 1:-1] - hx[1:-1, :-2])


def driven(e: Any, h: Any) -> None:
    """A source lies in what has been written: the part is written once, with it."""
    e[1:] += 0.5 * (h[1:] - h[:-1])
    e[2] += 0.25


def summed(x: Any, y: Any) -> Any:
    """A result is read by a later kernel, where it has been written."""
    x *= 2
    y -= x.sum()
    return y.max()


def walls(u: Any, v: Any) -> None:
    """Both ends of rows are what lies beside them after a step: the step is read where it is."""
    u[1:-1, 1:-1] += 0.25 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:])
    u[:, 0] = u[:, 1]
    u[:, -1] = u[:, -2]


def overlapping(x: Any) -> None:
    """What is written last is not known to be apart from the rest: NumPy copies, in order."""
    x[1:] = x[:-1]
    x[2] = 7


R = 32
PLATE = R * R
INNER = (R - 2) * (R - 2)
Program = tuple[Callable[..., Any], list[tuple[int, ...]], int, int]
#: function, shapes, kernels, doubles moved: what is stored aside is written twice and read again
PROGRAMS: list[Program] = [
    (electric, [(N,), (N,)], 1, 2 * (N - 1) + N),
    (even, [(N,), (N,)], 1, 3 * N // 2),
    (heat, [(N,)], 2, N + 3 * (N - 2)),
    (turned, [(N,)], 2, 4 * N),
    (advected, [(N,)], 2, 4 * (N - 1) + 3),
    (swapped, [(N,)], 2, 4 * N),
    (wave, [(N,), (N,)], 2, N + (N - 2) + 2 * (N - 2) + 2 * (N - 2)),
    # the second field is written in two parts: both read an element of the first at their seam
    (yee, [(N,), (N,)], 2, 2 * (N - 1) + N + 2 * (N - 1) + (N - 1) + 2),
    # what is seen of a field in two places counts once, as much as there is of it
    # after the step two in each row are read again, and written beside
    (walls, [(R, R)] * 2, 2, 2 * INNER + PLATE + 4 * R),
    (yee_on_a_plate, [(R, R)] * 3, 2, 2 * PLATE + 4 * R * (R - 1) + 2 * INNER + 2 * R * (R - 1)),
]


def arguments(shapes: list[tuple[int, ...]], dtype: str = "float64", seed: int = 0) -> list[Any]:
    """Random numbers."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("program", PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_planned_bytes_are_the_hand_count(program: Program) -> None:
    """Exactly, in as many kernels; and the reason of what is stored aside."""
    function, shapes, kernels, moved = program
    found = fuser.fuse(function).explain(*arguments(shapes))
    book = found.ledger
    assert (book.kernels_fused, book.planned_bytes) == (kernels, 8 * moved)
    late = [why for why in found.realised.values() if "stored aside" in why]
    assert bool(late) == (function in (heat, turned, advected, swapped, wave))


CASES: list[tuple[Callable[..., Any], int, int]] = [
    (electric, 2, 1), (even, 2, 1), (heat, 1, 1), (turned, 1, 1), (advected, 1, 1),
    (swapped, 1, 1), (wave, 2, 1), (relaxed, 1, 2), (summed, 2, 1), (overlapping, 1, 1),
    (yee, 2, 1), (yee_on_a_plate, 3, 2), (driven, 2, 1), (walls, 2, 2),
]  # fmt: skip


@pytest.mark.parametrize("layout", ["c", "reversed", "strided", "transposed", "misaligned"])
@pytest.mark.parametrize("case", CASES, ids=[case[0].__name__ for case in CASES])
def test_values_are_numpys(case: tuple[Callable[..., Any], int, int], layout: str) -> None:
    """First and later, small and large, in memory of any kind."""
    function, count, rank = case
    fused = fuser.fuse(function, fallback="error")
    for length in (4, 5, 63, 64, 200_003 if rank == 1 else 517):
        length += length % 2 if function is swapped else 0
        for seed in range(3):
            given = arguments([(length,) * rank] * count, "float32" if seed == 1 else "float64")
            arrays = [laid_out(array, layout) for array in given]
            copies = [laid_out(array, layout) for array in given]
            wanted, found = function(*arrays), fused(*copies)
            for one, other in zip([wanted, *arrays], [found, *copies], strict=True):
                if one is not None:
                    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def laid_out(array: Any, layout: str) -> Any:
    """The same values in other memory."""
    if layout == "reversed":
        return array[::-1].copy()[::-1]
    if layout == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if layout == "transposed":
        return np.asfortranarray(array.copy())
    if layout == "misaligned":
        raw = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        raw[...] = array
        return raw
    return array.copy()


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("function", [electric, even, heat, turned, advected, swapped, yee, driven])
def test_short_arrays(function: Callable[..., Any], length: int) -> None:
    """After longer ones: what lies in common differs, errors are NumPy's."""
    fused = fuser.fuse(function, fallback="allow")
    count = 2 if function in (electric, even, yee, driven) else 1
    fused(*arguments([(40,)] * count))
    arrays = arguments([(length,)] * count)
    copies = comparing.independent(arrays)
    try:
        function(*arrays)
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)):
            fused(*copies)
    else:
        fused(*copies)
    for one, other in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("shift", [-1, 0, 1, 2])
@pytest.mark.parametrize("function", [electric, even, wave, yee])
def test_arguments_that_share_memory(function: Callable[..., Any], shift: int) -> None:
    """As NumPy has it, also where calls with other arguments went before."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        fused(*arguments([(100,), (100,)]))
        (base,) = arguments([(104,)])
        other = base.copy()
        fused(other[2:102], other[2 + shift : 102 + shift])
        function(base[2:102], base[2 + shift : 102 + shift])
        np.testing.assert_allclose(other, base, rtol=1e-13)


@pytest.mark.parametrize("function", [electric, heat])
def test_a_read_only_argument_raises(function: Callable[..., Any]) -> None:
    """And is as it was."""
    fused = fuser.fuse(function, fallback="error")
    count = 2 if function is electric else 1
    fused(*arguments([(50,)] * count))
    given = arguments([(50,)] * count)
    given[0].flags.writeable = False
    before = given[0].copy()
    with pytest.raises(ValueError, match="read-only"):
        fused(*given)
    np.testing.assert_array_equal(given[0], before)


@pytest.mark.parametrize("function", [heat, turned, relaxed, yee_on_a_plate, yee])
def test_the_same_on_any_number_of_threads(function: Callable[..., Any]) -> None:
    """Nothing is written that another thread still reads."""
    shape = (700, 900) if function in (relaxed, yee_on_a_plate) else (600_001,)
    count = {yee: 2, yee_on_a_plate: 3}.get(function, 1)
    fused = fuser.fuse(function, fallback="error")
    before, results = workers.thread_count(), []
    try:
        for threads in (1, 2, 3, 5):
            fuser.set_num_threads(threads)
            arrays = arguments([shape] * count)
            for _ in range(4):
                fused(*arrays)
            results.append(arrays)
    finally:
        fuser.set_num_threads(before)
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(other, one)


def test_out_may_be_a_part_of_what_is_read() -> None:
    """Where it is read and written at the same elements, and where it is not."""
    fused = fuser.fuse(lambda x: x[1:] * 2 + 1)
    for start in (0, 1, 2):
        for _ in range(2):
            (x,) = arguments([(50,)])
            wanted = x[1:] * 2 + 1
            room = np.concatenate([x, np.zeros(2)])
            fused(room[:50], out=room[start : start + 49])
            np.testing.assert_array_equal(room[start : start + 49], wanted)


def test_rows_that_take_turns_are_written_aside() -> None:
    """The last turn begins early, and computes some rows again: their operands must be there."""

    def stepped(x: Any, y: Any) -> Any:
        kept = x[-1] * 0.5 + x[0]
        x[-1] = kept
        y[::2] = y[::2] - x[::2]
        x *= 1.25
        x[:, 1:] *= y[:, 1:]
        return (x * y).mean(), y[0]

    generator = np.random.default_rng(3)
    for rows in (5000, 9001):
        x, y = generator.normal(size=(2, rows, 9))
        mine, plain = (x.copy(), y.copy()), (x.copy(), y.copy())
        found, wanted = fuser.fuse(stepped, fallback="error")(*mine), stepped(*plain)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9)
        np.testing.assert_array_equal(found[1], wanted[1])
        for one, other in zip(mine, plain, strict=True):
            np.testing.assert_array_equal(one, other)


def test_arrays_without_elements() -> None:
    """Whatever their plans are compared by."""

    def inner(x: Any, y: Any) -> Any:
        x[1:-1, 1:-1] *= 1.5
        x[:, ::2] = np.abs(x[:, ::2])
        x[:, 1:] = x[:, 1:]
        y[1:-1, 1:-1] -= 1.5
        x[1:-1, 1:-1] = y[1:-1, 1:-1] + 1
        return x.sum()

    fused = fuser.fuse(inner, fallback="error")
    for rows in (33, 0, 1, 2, 3):
        (mine, y), (plain, z) = np.ones((2, rows, 9)), np.ones((2, rows, 9))
        assert fused(mine, y) == inner(plain, z)
        np.testing.assert_array_equal(mine, plain)
        np.testing.assert_array_equal(y, z)


def test_parts_of_one_array_are_written_at_once() -> None:
    """Rows between columns, whose ranges of bytes meet, by kernels; rows that lie in turn not."""

    def sides(u: Any, v: Any) -> None:
        u[1:-1, 1:-1] = v[1:-1, 1:-1] * 2
        u[:, 0] = v[:, 0]
        u[:, -1] = v[:, -1]

    u, v = arguments([(60, 50)] * 2)
    spec = compile_upfront(fuser.fuse(sides).explain(u, v).graph)
    arrays = {"x0": u, "x1": v}
    parts = {0: u[1:-1, 1:-1], 1: u[:, :1], 2: u[:, -1:]}
    sizes, backend = {"n0": 60, "n1": 50}, get_backend("cpu")
    assert list(direct_targets(spec, arrays, parts, sizes, backend)) == [0, 1, 2]
    whole = np.zeros((60, 50, 2))
    in_turn = {0: whole[1:-1, 1:-1, 0], 1: whole[:, :1, 1], 2: whole[:, -1:, 1]}
    assert 0 not in direct_targets(spec, arrays, in_turn, sizes, backend)
