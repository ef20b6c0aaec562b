"""Stride arithmetic is NumPy's, and fused functions read and return every layout as NumPy does."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir import dims, views
from fuser.ir.infer import spell_index
from tests.fuser.comparing import assert_same, visible_strides
from tests.fuser.random_programs import laid_out

CHANCE = np.random.default_rng(0)


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    """Small whole numbers, so that sums are exact."""
    return CHANCE.integers(-5, 6, shape).astype(dtype)


def misaligned(array: Any) -> Any:
    """The same values, one byte past an aligned address."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def read_only(array: Any) -> Any:
    """The same array, not writeable."""
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Any] = {
    "C": whole(4, 5),
    "F": np.asfortranarray(whole(4, 5)),
    "transposed": whole(5, 4).T,
    "rows backwards": whole(4, 5)[::-1],
    "columns backwards": whole(4, 5)[:, ::-1],
    "both backwards": whole(8, 10)[::-2, ::-2],
    "every second": whole(8, 10)[::2, ::2],
    "columns of more": whole(4, 10)[:, 1::2],
    "misaligned": misaligned(whole(4, 5)),
    "read-only": read_only(whole(4, 5)),
    "rows repeated": np.broadcast_to(whole(5), (4, 5)),
    "columns repeated": np.broadcast_to(whole(4, 1), (4, 5)),
    "one value": np.broadcast_to(whole(), (4, 5)),
    "strange": np.lib.stride_tricks.as_strided(whole(20), (4, 5), (4, 16)),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, y: (x * 2 + y) * x,
    "cast": lambda x, y: (x + y) * y.astype(np.float64),
    "transposed": lambda x, y: (x[:4, :4] + y[:4, :4].T) * y[:4, :4],
    "laplacian": lambda x, y: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - y[1:-1, 2:],
    "flipped": lambda x, y: np.flip(x) + y[::-1] - x[:, ::-1],
    "reshaped": lambda x, y: x.reshape(-1) * 2 - y.reshape(-1),
    "pushed": lambda x, y: ((x + 1).reshape(5, 4) * 2, y.reshape(2, 10) + 1),
    "outer": lambda x, y: x[:, None] + y[None],
    "copies": lambda x, y: (x.copy(), np.copy(y), x.astype(np.float32), y.T.copy() * x.T),
    "like": lambda x, y: (np.zeros_like(x) + y, np.ones_like(y), np.full_like(x, 2.5, dtype="f8")),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_every_pair_of_layouts(function: str, first: str) -> None:
    """Values, memory order and untouched arguments for fourteen layouts of either operand."""
    turn = (list(LAYOUTS).index(first) + list(FUNCTIONS).index(function)) % 3
    for second in list(LAYOUTS.values())[turn::3]:  # every pair meets in some function
        assert_same(FUNCTIONS[function], LAYOUTS[first], second)


SHAPES = [
    (4, 5),
    (5,),
    (4, 1),
    (1, 5),
    (1, 1),
    (),
    (1,),
    (3, 4, 5),
    (3, 1, 5),
    (2, 1, 4, 1),
    (0, 4, 5),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["C", "F", "both backwards"])
def test_broadcasting(layout: str, shape: tuple[int, ...]) -> None:
    """Every pattern of missing axes and axes of length 1, both ways round."""
    x, y = LAYOUTS[layout], whole(*shape)
    assert_same(lambda x, y: x * y - y, x, y)
    assert_same(lambda x, y: (y * 2 + x, y > x), x, y)


@pytest.mark.parametrize(
    "shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), (1, 7), (7, 1), (), (1, 0, 1)]
)
def test_empty_and_single(shape: tuple[int, ...]) -> None:
    """Arrays of no and of one element, in C and F order, with odd strides of single axes."""
    x = whole(*shape)
    odd = np.lib.stride_tricks.as_strided(
        x, x.shape, [s if n > 1 else 12345 for n, s in zip(x.shape, x.strides, strict=True)]
    )
    for one in (x, x.T, odd):
        assert_same(lambda x: (x + 1, -x * x, x.T - 1), one)
        assert_same(lambda x: x.reshape(-1)[::-1] + x.size, one)


def test_shapes_that_do_not_broadcast() -> None:
    """NumPy's ValueError, with both shapes named."""
    from fuser import ShapeError, fuse

    with pytest.raises(ShapeError, match=r"\(4, 5\) and \(4,\)"):
        fuse(lambda x, y: x + y)(whole(4, 5), whole(4))


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_views_are_those_of_numpy(chance: random.Random) -> None:
    """Offset, shape and strides after random views; a reshape copies exactly where NumPy's does."""
    shape = tuple(chance.choice((1, 2, 3, 4)) for _ in range(chance.randint(1, 3)))
    array = laid_out(chance, np.arange(np.prod(shape)).reshape(shape))
    layout = views.Layout(0, array.shape, array.strides, array.shape, (False,) * array.ndim)
    seen = array
    for _ in range(chance.randint(1, 4)):
        view = random_view(chance, seen)
        try:
            layout = views.apply_view(layout, view, {})
        except views.NeedsCopy:
            assert view[0] == "reshape"
            assert not np.shares_memory(views.apply_views(seen, [view], {}, np), seen)
            return
        seen = views.apply_views(seen, [view], {}, np)
        assert np.shares_memory(seen, array) or not seen.size
        assert layout.shape == seen.shape
        if not seen.size:
            return
        start = seen.__array_interface__["data"][0] - array.__array_interface__["data"][0]
        assert layout.offset == start
        strides = [s for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1]
        assert tuple(strides) == visible_strides(seen)


def random_view(chance: random.Random, array: Any) -> tuple[str, str]:
    """One view of an array, as graphs spell it."""
    kind = chance.choice(("index", "index", "transpose", "reshape", "broadcast_to"))
    if kind == "index":
        bounds = (None, 0, 1, -1, 2)
        parts: list[Any] = []
        for length in array.shape:
            if chance.random() < 0.2:
                parts.append(None)
            if chance.random() < 0.2 and length:
                parts.append(chance.randrange(-length, length))
            else:
                step = chance.choice((None, 2, -1))
                parts.append(slice(chance.choice(bounds), chance.choice(bounds), step))
        return kind, spell_index(parts)
    if kind == "transpose":
        return kind, ", ".join(map(str, chance.sample(range(array.ndim), array.ndim)))
    if kind == "broadcast_to":
        return kind, ", ".join(map(str, (2, *array.shape)))
    factors = [p for n in array.shape for p in ((2, 2) if n == 4 else (n,))]
    chance.shuffle(factors)
    if len(factors) > 1 and chance.random() < 0.5:
        factors[:2] = [factors[0] * factors[1]]
    return kind, ", ".join(map(str, factors or [array.size]))


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_memory_order_is_that_of_numpy(chance: random.Random) -> None:
    """`keep_order` for ufuncs, `sorted_order` for copies and joins."""
    shape = tuple(chance.choice((1, 2, 3)) for _ in range(chance.randint(1, 4)))
    arrays = [laid_out(chance, np.zeros(shape)) for _ in range(chance.randint(1, 3))]
    pairs = [(a.shape, a.strides) for a in arrays]
    for order, wanted in (
        (views.keep_order(len(shape), pairs), np.nditer([*arrays, None], flags=["external_loop"],
         op_flags=[["readonly"]] * len(arrays) + [["writeonly", "allocate"]]).operands[-1]),
        (views.sorted_order(pairs[:1]), arrays[0].astype(np.float32)),
        (views.sorted_order(pairs), np.concatenate(arrays, axis=0)),
    ):  # fmt: skip
        strides = views.ordered_strides(wanted.shape, order, wanted.itemsize)
        found = [s for n, s in zip(wanted.shape, strides, strict=True) if n > 1]
        assert tuple(found) == visible_strides(wanted)


def test_lengths_in_views_are_symbols() -> None:
    """A part of a buffer, as joins write it."""
    layout = views.Layout(0, (9,), (4,), (dims.symbol("n0"),), (False,))
    part = views.apply_view(layout, ("part", "0; n0 - 6; n0 - 2"), {"n0": 9})
    assert (part.offset, part.shape) == (12, (4,))
