"""Stride arithmetic is NumPy's, and fused functions read and return every layout as NumPy does."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir import attribute_text, dims, layouts, views
from fuser.ir.views import FULL
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
    layout = layouts.Layout(0, array.shape, array.strides, array.shape, (False,) * array.ndim)
    seen = array
    for _ in range(chance.randint(1, 4)):
        view = random_view(chance, seen)
        try:
            layout = view.layout(layout, {})
        except layouts.NeedsCopy:
            assert isinstance(view, views.Reshape)
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


def random_view(chance: random.Random, array: Any) -> views.View:
    """One view of an array."""
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
        return views.Index(tuple(parts))
    if kind == "transpose":
        return views.Transpose(tuple(chance.sample(range(array.ndim), array.ndim)))
    if kind == "broadcast_to":
        return views.Broadcast((2, *array.shape))
    factors = [p for n in array.shape for p in ((2, 2) if n == 4 else (n,))]
    chance.shuffle(factors)
    if len(factors) > 1 and chance.random() < 0.5:
        factors[:2] = [factors[0] * factors[1]]
    return views.Reshape(tuple(factors or [array.size]))


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_memory_order_is_that_of_numpy(chance: random.Random) -> None:
    """Of ufuncs, copies and joins."""
    shape = tuple(chance.choice((1, 2, 3)) for _ in range(chance.randint(1, 4)))
    arrays = [laid_out(chance, np.zeros(shape)) for _ in range(chance.randint(1, 3))]
    for order, wanted in (
        (layouts.axis_order(len(shape), arrays), np.nditer([*arrays, None], flags=["external_loop"],
         op_flags=[["readonly"]] * len(arrays) + [["writeonly", "allocate"]]).operands[-1]),
        (layouts.axis_order(len(shape), arrays[:1], copied=True), arrays[0].astype(np.float32)),
        (layouts.axis_order(len(shape), arrays, copied=True), np.concatenate(arrays, axis=0)),
    ):  # fmt: skip
        strides = layouts.ordered_strides(wanted.shape, order, wanted.itemsize)
        found = [s for n, s in zip(wanted.shape, strides, strict=True) if n > 1]
        assert tuple(found) == visible_strides(wanted)


def test_lengths_in_views_are_symbols() -> None:
    """A part of a buffer, as joins write it."""
    layout = layouts.Layout(0, (9,), (4,), (dims.symbol("n0"),), (False,))
    part = attribute_text.read("part", "0; n0 - 6; n0 - 2").layout(layout, {"n0": 9})
    assert (part.offset, part.shape) == (12, (4,))


# -- algebra --------------------------------------------------------------------------------

SIZES = {"n0": 3, "n1": 2, "n2": 0, "n3": 1}
RANDOMS = st.randoms(use_true_random=False)


def symbolic_array(chance: random.Random) -> tuple[Any, tuple[Any, ...]]:
    """An array of numbers that differ, and its shape: symbols, ones and numbers."""
    shape = tuple(
        dims.parse(chance.choice(("n0", "n1", "n0 + 2", "n3", "1", "4", "n2")))
        for _ in range(chance.randint(0, 3))
    )
    lengths = [dims.evaluate(dim, SIZES) for dim in shape]
    return np.arange(np.prod(lengths, dtype=int)).reshape(lengths), shape


def any_view(chance: random.Random, array: Any, shape: tuple[Any, ...]) -> views.View:
    """One view of an array of a symbolic shape."""
    rank = len(shape)
    kind = chance.randrange(7)
    if kind == 0:
        return views.Transpose(tuple(chance.sample(range(rank), rank)))
    if kind == 1:
        wide = [dim if dim != 1 else chance.choice((1, dims.symbol("n0"))) for dim in shape]
        return views.Broadcast((*[dims.symbol("n1")] * chance.randint(0, 1), *wide))
    if kind == 2:
        return views.Reshape((dims.product(shape), *[1] * chance.randint(0, 1)))
    if kind == 3 and rank:
        axis = chance.randrange(rank)
        length = dims.evaluate(shape[axis], SIZES)
        start = chance.randint(0, length)
        stop = shape[axis] if chance.random() < 0.5 else chance.randint(start, length)
        return views.Part(axis, start, stop, chance.choice((1, 1, 2)))
    if kind == 4 and rank > 1 and shape[0] == shape[1]:
        return views.Diagonal()
    parts: list[Any] = []
    for length in array.shape[: chance.randint(0, rank)]:
        if chance.random() < 0.3:
            parts.append(None)
        if length and chance.random() < 0.2:
            parts.append(chance.randrange(-length, length))
        else:
            bounds = (None, None, 0, 1, 2, -1, -2)
            step = chance.choice((None, None, 1, 2, -1, -2))
            parts.append(slice(chance.choice(bounds), chance.choice(bounds), step))
    return views.Index(tuple(parts))


def see(array: Any, chain: Any) -> Any:
    """An array through views."""
    return views.apply_views(array, chain, SIZES, np)


@given(chance=RANDOMS)
@settings(max_examples=300, deadline=None)
def test_two_views_are_what_they_are_composed_to(chance: random.Random) -> None:
    """Whatever is merged, the same elements are seen, in an array of the same shape."""
    array, shape = symbolic_array(chance)
    chain: tuple[views.View, ...] = ()
    seen = array
    for _ in range(chance.randint(1, 4)):
        view = any_view(chance, seen, shape)
        chain = views.compose(chain, (view,))
        seen, shape = see(seen, [view]), view.shape(shape)
    np.testing.assert_array_equal(see(array, chain), seen)
    assert see(array, chain).shape == seen.shape


@given(chance=RANDOMS)
@settings(max_examples=300, deadline=None)
def test_an_inverse_shows_the_array_again(chance: random.Random) -> None:
    """Transposes, reshapes, new axes and reversed ones have an inverse; what drops has none."""
    array, shape = symbolic_array(chance)
    view = any_view(chance, array, shape)
    seen, back = see(array, [view]), view.inverse(shape)
    if back is None:
        assert not isinstance(view, (views.Transpose, views.Reshape))
        return
    again = see(seen, [back])
    np.testing.assert_array_equal(again, array)
    assert again.shape == array.shape


@given(chance=RANDOMS)
@settings(max_examples=300, deadline=None)
def test_shape_text_and_bounds(chance: random.Random) -> None:
    """The symbolic shape is the real one; the text is read back; what NumPy takes fits."""
    array, shape = symbolic_array(chance)
    view = any_view(chance, array, shape)
    seen = see(array, [view])
    lengths = tuple(dims.evaluate(dim, SIZES) for dim in view.shape(shape))
    assert lengths == seen.shape
    assert view.fits(array.shape, lengths, SIZES)
    again = attribute_text.read(view.op, view.text)
    assert again == view
    assert hash(again) == hash(view)
    assert view.renamed({}) == view
    spelled = view.python("array", repr, str)
    if not isinstance(view, views.Broadcast):
        np.testing.assert_array_equal(eval(spelled, {"array": array, **SIZES}), seen)


@pytest.mark.parametrize(
    ("view", "lengths", "shape"),
    [
        (views.Index((3,)), (3,), ()),
        (views.Index((None, slice(None), -3)), (4, 2), (1, 4)),
        (views.Part(0, 1, 5), (4,), (4,)),
        (views.Part(0, -1, 2), (4,), (3,)),
        (views.Part(1, 0, 4, 2), (4, 4), (4, 3)),
        (views.Broadcast((2, 3)), (2,), (2, 3)),
        (views.Broadcast((3,)), (1, 3), (3,)),
        (views.Reshape((7,)), (2, 3), (7,)),
        (views.Diagonal(), (2, 3), (2,)),
    ],
)
def test_what_lies_outside_does_not_fit(
    view: views.View, lengths: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Places beyond an axis, other numbers of elements, axes that are not repeated."""
    assert not view.fits(lengths, shape, {})


@given(chance=RANDOMS)
@settings(max_examples=300, deadline=None)
def test_axes_that_are_followed(chance: random.Random) -> None:
    """Behind each axis that is seen lies the array's; a box holds all that is seen, and no more."""
    array, shape = symbolic_array(chance)
    chain: tuple[views.View, ...] = ()
    seen, now = array, shape
    for _ in range(chance.randint(1, 3)):
        view = any_view(chance, seen, now)
        chain, seen, now = (*chain, view), see(seen, [view]), view.shape(now)
    found = views.seen_through(shape, chain)
    if found is None or not seen.size:
        return
    assert len(found.axes) == seen.ndim
    for axis, behind in enumerate(found.axes):
        if behind is None:
            first = seen.take([0], axis=axis)
            np.testing.assert_array_equal(seen, np.broadcast_to(first, seen.shape))
        elif found.ends[axis]:
            assert seen.shape[axis] == array.shape[behind]
    if found.whole:
        assert set(seen.ravel()) == set(array.ravel())
    if found.box is not None:
        box = tuple(
            slice(dims.evaluate(start, SIZES), dims.evaluate(stop, SIZES), step)
            for start, stop, step in found.box
        )
        assert set(seen.ravel()) <= set(array[box].ravel())


def test_slices_of_slices_are_one() -> None:
    """Where both only drop elements from the ends."""
    first, then = attribute_text.read("index", "1:, :-1"), attribute_text.read("index", "2:-1")
    assert views.compose((first,), (then,)) == (attribute_text.read("index", "3:-1, :-1"),)
    there, back = views.Transpose((1, 2, 0)), views.Transpose((2, 0, 1))
    assert views.compose((there,), (back,)) == ()


@pytest.mark.parametrize(
    ("axis", "parts", "place"),
    [(0, (0,), True), (1, (FULL, 0), True), (1, (FULL, 0, FULL), True), (1, (0,), False),
     (0, (slice(1),), False), (0, (0, None), False), (0, (-1,), False), (1, (FULL, 0, 0), False)],
)  # fmt: skip
def test_a_place_and_the_index_that_drops_its_axis(
    axis: int, parts: tuple[Any, ...], place: bool
) -> None:
    """Are one index by a number, which leaves an array."""
    start = dims.symbol("n1")
    chain = (views.Part(axis, start, start + 1), views.Index(parts))
    found = list(views.in_steps(chain))
    assert [one for _, one in found] == ([True] if place else [False, False])
    if place:
        given = np.arange(24).reshape(2, 3, 4)
        view = found[0][0]
        assert isinstance(view, views.Part)
        text = view.python_of_place("given", str)
        seen = eval(text, {"given": given, "n1": 1})
        assert np.array_equal(seen, views.apply_views(given, chain, {"n1": 1}, np))
        wider = (views.Part(axis, start, start + 2), views.Index(parts))
        assert not any(one for _, one in views.in_steps(wider))
