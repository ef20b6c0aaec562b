"""Memory inside traces: views, writes, and what refuses them."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import Unsupported
from fuser.capture.tracer import Tracer
from fuser.tracing.trace_result import Replay
from tests.fuser.comparing import assert_same


def array(*shape: int) -> Any:
    """A stand-in for an argument of this shape."""
    return Tracer(replay=Replay()).add_array(np.ones(shape), 0)


def test_views_share_memory() -> None:
    """A write through one is seen through the other."""
    x = array(4, 5).copy()
    view = x[1:-1]
    before = x.node
    view[0] = 3
    assert x.node is not before
    assert x.node.op.name == "update"
    assert x.storage is view.storage


def test_shared_memory_refuses_writes() -> None:
    """A function between kernels may have given a view of it."""
    x = array(4).copy()
    x.storage.shared = True
    with pytest.raises(Unsupported, match="write-into-view"):
        x[0] = 1


def test_lengths_stay_symbolic() -> None:
    """Shape, size and bytes are expressions."""
    x = array(4, 5)
    assert (x.shape[0] * 2).text == "n0 * 2"
    assert x.size.text == "n0*n1"
    assert (x.ndim, x.itemsize) == (2, 8)


def test_an_index_beyond_an_axis_raises_where_its_value_is_not_used() -> None:
    """As NumPy raises; in later calls too, and behind functions between kernels."""

    def unused(x: Any) -> Any:
        x[2]
        return x + 1

    def overwritten(x: Any) -> Any:
        y = np.sort(x)
        z = y[-3] * x
        z = z.shape[0]
        return y * 2 + z * 0

    for function in (unused, overwritten):
        fused = fuser.fuse(function, fallback="allow")
        for n in (5, 7, 3, 2, 5, 2, 1):
            x = np.arange(1.0 * n)
            if n > 2:
                assert np.array_equal(fused(x), function(x))
            else:
                with pytest.raises(IndexError):
                    fused(x)


def test_many_lengths_with_an_index_are_few_specialisations() -> None:
    """That axes are long enough decides nothing but whether NumPy raises."""
    fused = fuser.fuse(lambda x, y: x[0] + y[..., 1] * x, fallback="error")
    for shape in [(3, 3), (4, 3), (1, 3), (3, 2), (9, 2), (1, 9), (2, 7), (8, 8), (7, 3), (1, 2)]:
        for other in (shape, (1, shape[1]), shape[1:]):
            x, y = np.ones(shape), np.arange(1.0 * np.prod(other)).reshape(other)
            plain = fused.__wrapped__
            if y.ndim == 1 or shape[0] in (1, shape[1]) or other[0] == 1:
                assert np.array_equal(fused(x, y), plain(x, y))


def _seen(x: Any) -> Any:
    total = x.sum()
    seen, wide, row = total[...], total[None], total.reshape(1)
    seen[...] = -1
    wide += 5
    row[0] = 7
    return total, seen, wide, row, total.reshape(()), total.T, total[()]


def test_views_of_scalars_are_arrays_of_their_own() -> None:
    """NumPy's scalars have no memory that could be written into."""
    fused = fuser.fuse(_seen, fallback="error")
    for x in (np.arange(4.0), np.arange(3)):
        assert repr(fused(x)) == repr(_seen(x))

    wide = fuser.fuse(lambda x: np.broadcast_to(x.max(), (3, 2)), fallback="error")(np.arange(4.0))
    assert wide.strides == (0, 0)
    assert not wide.flags.writeable

    def assign(x: Any) -> None:
        x[...] = 1

    for function in (lambda x: assign(x.max()), assign):
        fused = fuser.fuse(function, fallback="allow")
        with pytest.raises(TypeError, match="does not support item assignment"):
            fused(np.float32(3))


def _assigned(x: Any) -> Any:
    one = np.zeros(1)
    one[:] = x
    return one


@pytest.mark.parametrize("function", [_assigned, lambda x: np.broadcast_to(x, (1,)) + 1])
def test_an_array_of_one_element_takes_no_longer_one(function: Any) -> None:
    """In later calls too."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2):
        assert np.array_equal(fused(np.ones(1)), function(np.ones(1)))
        with pytest.raises(ValueError, match=r"broadcast|more dimensions"):
            fused(np.ones(5))


def test_an_argument_found_to_be_one_long_takes_results_of_another() -> None:
    """What is written has the shape of where it is written."""

    def function(x: Any, y: Any, z: Any) -> Any:
        x[1:] = x
        x[:] = np.isfinite(y)
        return z.sum(keepdims=True), np.left_shift(z, y)

    fused = fuser.fuse(function, fallback="error")
    x, plain = np.full(1, 3, np.uint16), np.full(1, 3, np.uint16)
    y, z = np.ones(1, np.uint8), np.ones(1, bool)
    assert repr(fused(x, y, z)) == repr(function(plain, y, z))
    assert np.array_equal(x, plain)


def _first_row(x: Any, y: Any) -> Any:
    y[:] = x * x
    return y + 1


@pytest.mark.parametrize("function", [_first_row, lambda x, y: x.reshape(x.shape[0], -1)])
def test_shapes_that_do_not_fit_raise_in_later_calls(function: Any) -> None:
    """More than one row into a row; no rows in how many columns."""
    fused = fuser.fuse(function, fallback="allow")
    for n in (1, 2, 0, 1):
        outcomes = []
        for each in (function, fused):
            try:
                outcomes.append(repr(each(np.ones((n, 3)), np.zeros(3))))
            except ValueError:
                outcomes.append("ValueError")
        assert outcomes[0] == outcomes[1]


SCALARS = (
    np.float64("nan"), np.float16("inf"), np.float64(2.7), np.float64(1e300), np.int64(2**40),
    np.int8(3), np.uint64(5), np.bool_(True),
)  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=repr)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, bool])
def test_scalars_that_integers_cannot_take_raise(value: Any, dtype: Any) -> None:
    """NumPy converts them one by one; where it gives an array's value, nothing raises."""
    x = np.arange(4).astype(dtype)

    def one(x: Any, v: Any) -> None:
        x[0] = v

    def some(x: Any, v: Any) -> None:
        x[1:] = v * 2

    def filled(x: Any, v: Any) -> Any:
        y = x + x
        y.fill(v)
        return y

    def chosen(x: Any, v: Any) -> None:
        x[x > 1] = v

    for function in (one, some, filled, chosen):
        assert_same(function, x, value, fallback="allow")
        assert_same(lambda x, known=function: known(x, value), x, fallback="allow")


def test_decimals_are_an_integer() -> None:
    """As NumPy says."""
    with pytest.raises(TypeError):
        fuser.fuse(lambda x: np.round(x, 1.5))(np.ones(3))
