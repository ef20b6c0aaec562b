"""NumPy functions that are not ufuncs: fused, and equal to NumPy in every respect."""

import copy
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(1)
X = CHANCE.integers(-5, 6, (6, 4)).astype(np.float32)
Y = CHANCE.integers(-5, 6, (6, 4)).astype(np.float64)
V = CHANCE.integers(-5, 6, 12).astype(np.float32)
HALF = np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 1.25, np.inf, np.nan, 1e9], np.float32)
NUMBERS = np.arange(-3, 9, dtype=np.int16)

FUSED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "where": (lambda x, y: np.where(x > y, x, y), (X, Y)),
    "where scalars": (lambda x: np.where(x > 0, 1, 2.5), (X,)),
    "where 0-d": (lambda x: np.where(x > 0, x, -x), (np.array(-2.0),)),
    "clip": (lambda x: (np.clip(x, -1, 1), x.clip(0), x.clip(max=2), np.clip(x, None, 1)), (X,)),
    "clip arrays": (lambda x, y: np.clip(x, y, y + 1), (X, Y)),
    "clip keywords": (lambda x: np.clip(x, min=0, max=np.float64(2)), (X,)),
    "clip zeros": (
        lambda x: (np.clip(x, 0, 1), np.clip(x, -0.0, 0.5)),
        (np.array([0.0, -0.0, 1.0], np.float32),),
    ),
    "clip NaN": (lambda x: (np.clip(x, np.nan, 1), np.clip(x, 0, np.nan)), (V,)),
    "clip half": (lambda x: np.clip(x, 0, 1), ((V * 0).astype(np.float16) * -1,)),
    "clip crossed": (lambda x: np.clip(x, 2, 1), (V,)),
    "round": (lambda x: (np.round(x), np.round(x, 1), np.around(x, -1), x.round(2)), (HALF,)),
    "round integers": (lambda x: (np.round(x), np.round(x, 2)), (NUMBERS,)),
    "fix": (lambda x: np.fix(x), (HALF,)),
    "nan_to_num": (
        lambda x: (np.nan_to_num(x), np.nan_to_num(x, nan=1, posinf=2, neginf=3)),
        (HALF,),
    ),
    "nan_to_num integers": (lambda x: np.nan_to_num(x), (NUMBERS,)),
    "select": (lambda x: np.select([x < -2, x < 2], [x, x * 2], 7), (V,)),
    "isposinf": (lambda x: (np.isposinf(x), np.isneginf(-x)), (HALF,)),
    "real": (lambda x: (np.real(x) + 1, np.imag(x), x.real * 2, x.imag, np.conj(x)), (X,)),
    "like": (lambda x: (np.zeros_like(x), np.ones_like(x, dtype="i2"), np.full_like(x, 3)), (X.T,)),
    "like a broadcast": (lambda x: np.zeros_like(np.broadcast_to(x, (2, 6, 4))) + 1, (X,)),
    "copyto": (lambda x, y: (np.copyto(y, x), np.copyto(y, 1, where=x > 0), y)[2], (X, Y)),
    "transposes": (lambda x: (np.transpose(x) + 1, np.swapaxes(x, 0, 1) * 2, x.T.T - 1), (X,)),
    "moveaxis": (lambda x: np.moveaxis(x[None], 0, -1) * 2, (X,)),
    "expand_dims": (lambda x: (np.expand_dims(x, 0) + 1, np.expand_dims(x, (0, -1)) * 2), (X,)),
    "squeeze": (
        lambda x: (np.squeeze(x[:1]) + 1, x[:, :1].squeeze(1) * 2, x[None].squeeze(0)),
        (X,),
    ),
    "reshape": (lambda x: (x.reshape(4, 6) + 1, np.reshape(x, (-1, 3)) * 2, x.ravel() - 1), (X,)),
    "reshape method": (lambda x: (x.reshape((2, -1)) + 1, (x.T * 2).reshape(-1)), (X,)),
    "flips": (lambda x: (np.flip(x) + 1, np.flipud(x), np.fliplr(x) * 2, np.flip(x, (0, 1))), (X,)),
    "broadcast_to": (lambda x: np.broadcast_to(x[0], x.shape) + x, (X,)),
    "broadcast numbers": (lambda x, s: np.broadcast_arrays(s, 1.0, s), (X, np.float64(2))),
    "copies": (lambda x, v: (copy.copy(x.T), copy.deepcopy(x.T)), (X, V)),
    "broadcast_arrays": (lambda x, v: [a + 1 for a in np.broadcast_arrays(x, v[:4])], (X, V)),
    "atleast": (
        lambda x, v: (np.atleast_2d(v) + 1, np.atleast_1d(v[0]) * 2, np.atleast_2d(x)),
        (X, V),
    ),
    "split": (lambda x: [a * 2 for a in np.split(x, 3)], (X,)),
    "split places": (lambda x: [a * 2 for a in np.split(x, [1, 4])], (X,)),
    "split axis": (lambda x: np.multiply(*np.split(x, 2, axis=1)), (X,)),
    "split after work": (lambda v: np.subtract(*np.split(np.sqrt(np.abs(v)) * 2, 2)), (V,)),
    "split family": (
        lambda x: (np.hsplit(x, 2)[1] + 1, np.vsplit(x, 2)[0] + 1, np.array_split(x, 2)[1]),
        (X,),
    ),
    "concatenate": (
        lambda x, y: (np.concatenate([x, y * 2]), np.concatenate((y, x), axis=1)),
        (X, Y),
    ),
    "concatenate flat": (lambda x, v: np.concatenate([x, v], axis=None), (X, V)),
    "concatenate then use": (lambda x, y: np.concatenate([x, y])[::2] * 3, (X, Y)),
    "concatenate dtype": (
        lambda x, y: np.concatenate([x, y], dtype=np.float32, casting="unsafe"),
        (X, Y),
    ),
    "concatenate nested": (lambda x, y: np.concatenate([np.concatenate([x, y]), x + 1]), (X, Y)),
    "concatenate mixed": (lambda x, n: np.concatenate([x, n, n > 0]), (V, NUMBERS)),
    "stack": (
        lambda x, y: (np.stack([x, y]), np.stack([x, y], axis=-1), np.stack([x, x], 1)),
        (X, Y),
    ),
    "stacks": (lambda x, v: (np.hstack([x, x]), np.vstack([v, v]), np.hstack([v, v])), (X, V)),
    "column_stack": (lambda x, v: np.column_stack([x, v[:6], x]), (X, V)),
    "roll": (
        lambda v: (np.roll(v, 3), np.roll(v, -2), np.roll(v, 0), np.roll(v, 12), np.roll(v, 29)),
        (V,),
    ),
    "roll axes": (lambda x: (np.roll(x, 1, 0), np.roll(x, (1, 2), (0, 1)), np.roll(x, 2)), (X,)),
    "roll and use": (lambda x: np.roll(x, 1, 1) - 2 * x + np.roll(x, -1, 1), (X,)),
    "roll nothing": (lambda x: np.roll(x[:0], 1), (V,)),
    "diff": (lambda x: (np.diff(x), np.diff(x, axis=0), np.diff(x, 2), np.diff(x > 0)), (X,)),
    "questions": (
        lambda x: (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1), np.iscomplexobj(x)),
        (X,),
    ),
    "result_type": (lambda x, y: x.astype(np.result_type(x, y)) + y, (X, Y)),
    "astype": (
        lambda x: (
            x.astype("i4"),
            x.astype(bool),
            x.astype(np.float16),
            x.astype("f4", copy=False),
        ),
        (X,),
    ),
    "power shortcuts": (lambda x: (x**2, x**0.5, x**-1, x**1, x**2.0), (np.abs(X) + 1,)),
    "power of bool": (lambda x: (x > 0) ** 2, (X,)),
    "sequences": (lambda x: np.add(x, [1, 2, 3, 4]), (X,)),
    "clip beyond a dtype": (
        lambda n: (np.clip(n, -(2**70), 3), np.clip(n.astype("u1"), 0, -0.0), np.clip(n, 2, 2**70)),
        (NUMBERS,),
    ),
    "operators": (
        lambda x: (abs(x), -x, +x, x // 2, x % 2, divmod(x, 2), 2 - x, 2 / (x + 7)),
        (X,),
    ),
    "bits": (lambda n: (n & 3, n | 8, n ^ 5, ~n, n << 2, n >> 1, 1 << (n & 7)), (NUMBERS,)),
    "modf": (lambda x: (np.modf(x), np.frexp(x), np.divmod(x, 2)), (V,)),
}


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
@pytest.mark.parametrize("name", FUSED)
def test_functions_are_fused_and_right(name: str, mode: str) -> None:
    """No fallback, in any mode."""
    function, args = FUSED[name]
    assert_same(function, *args, mode=mode)


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "sort": (lambda x: np.sort(x) * 2, (X,), "unsupported-function"),
    "matmul": (lambda x: x @ x.T, (X,), "unsupported-function"),
    "median": (lambda x: x - np.median(x), (X,), "unsupported-function"),
    "accumulate": (lambda x: np.logaddexp.accumulate(x), (X,), "unsupported-function"),
    "search": (lambda x: np.where(x > 0), (X,), "unsupported-function"),
    "mask index": (lambda x: x[x > 0], (X,), "unsupported-argument"),
    "F order": (lambda x: x.reshape(-1, order="A"), (X,), "unsupported-argument"),
    "where=": (lambda x: (np.add(x, 1, where=x > 0) > 0) & False, (X,), "where-without-out"),
    "dtype of an item": (lambda x: x * hash(x[0, 0].item()), (X,), "array-conversion"),
    "iteration": (lambda x: [row * 2 for row in x], (np.ones((7, 2)),), "control-flow"),
    "any": (lambda x: x if 100 in x else -x, (X,), "control-flow"),
    "asarray": (lambda x: np.asarray(x, order="F") * 2, (X,), "array-conversion"),
    "array of arrays": (lambda x: np.add([x, x], 1), (X,), "array-conversion"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_fused_form_runs_with_its_reason(name: str) -> None:
    """The right answer, and the reason's code."""
    function, args, code = REFUSED[name]
    fused = fuser.fuse(function, fallback="allow")
    with np.errstate(all="ignore"):
        assert compare(fused, *args, fallback="allow") == ""
    assert [reason.code for reason in fused.fallbacks] == [code]
    assert "test_array_functions.py" in fused.fallbacks[0].where


WRONG: dict[str, Any] = {
    "reshape": lambda x: x.reshape(5, 5),
    "reshape twice open": lambda x: x.reshape(-1, -1),
    "split": lambda x: np.split(x, 5),
    "concatenate": lambda x: np.concatenate([x, x[:, :2]]),
    "concatenate ranks": lambda x: np.concatenate([x, x[0]]),
    "concatenate nothing": lambda x: np.concatenate([]),
    "stack": lambda x: np.stack([x, x[:2]]),
    "axis": lambda x: np.flip(x, 7),
    "transpose": lambda x: x.transpose(0, 0),
    "squeeze": lambda x: x.squeeze(0),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3)),
    "astype": lambda x: x.astype(np.int8, casting="safe"),
    "casting": lambda x: np.add(x, x, dtype=np.int8, casting="safe"),
    "operands": lambda x: np.bitwise_and(x, 1),
    "arguments": lambda x: np.clip(),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], X, fallback="allow")
    with pytest.raises(Exception):  # noqa: B017 - the line above compares the kinds
        fuser.fuse(WRONG[name], fallback="allow")(X)


@pytest.mark.parametrize("dtype", ["i4", "u1", "?", "f4"])
def test_copies_of_integers_keep_the_memory_order(dtype: str) -> None:
    """np.round and np.nan_to_num change nothing but make an array of their own."""
    function = fuser.fuse(lambda x: (np.nan_to_num(x), np.round(x), x.round(0)), fallback="allow")
    for axes in ((2, 1, 0), (1, 0, 2)):
        x = np.ones((2, 3, 4), dtype).transpose(axes)
        found, wanted = function(x), function.__wrapped__(x)
        assert [y.strides for y in found] == [y.strides for y in wanted]
        assert not any(np.shares_memory(x, y) for y in found)


def test_sinc_at_zero_in_float16() -> None:
    """The smallest numbers of float16 are larger than what others take for zero."""
    assert fuser.fuse(np.sinc)(np.zeros(3, np.float16)).tolist() == [1, 1, 1]


def _running(r: Any) -> Any:
    y, z = np.zeros_like(r), np.ones_like(r)
    y[0] = last = -r[0]
    for k in range(1, r.shape[0]):
        last = last + r[k]
        y[k] = last
    return y + np.full_like(r, 2.5) * z


def test_arrays_like_another_are_made_for_a_loop_over_elements() -> None:
    """They are one number everywhere, which costs no more than NumPy's own."""
    x = np.linspace(-1, 1, 1000)
    np.testing.assert_array_equal(fuser.fuse(_running, fallback="error")(x), _running(x))
