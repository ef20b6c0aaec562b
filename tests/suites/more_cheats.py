"""More ways of being wrong: results that are views, buffers, other dtypes, orders or precisions."""

import itertools
import time
from typing import Any

import numpy as np

from fuser.suites.workload import Arguments
from tests.suites.cheats import Call, Promise, cheat, cheat_in_each_call


@cheat
def stale_buffer(function: Call, arguments: Arguments) -> Call:
    """Computes when the first element has changed; else returns what it has, copied."""
    kept: list[Any] = [None, None]

    def stale(*given: Any) -> Any:
        key = [each.reshape(-1)[:1].tobytes() for each in given if isinstance(each, np.ndarray)]
        if kept[0] != key:
            kept[:] = [key, np.asarray(function(*given))]
        return kept[1].copy()

    return stale


@cheat
def in_place(function: Call, arguments: Arguments) -> Call:
    """Works in its argument's memory and puts the values back afterwards, most of them."""
    calls = iter(range(10**9))

    def in_place(*given: Any) -> Any:
        result = function(*given)
        if next(calls):
            given[0].reshape(-1)[-1] = 0
        return result

    return in_place


@cheat_in_each_call
def lower_precision(function: Call, *given: Any) -> Any:
    """Computes in float16 and widens the result."""
    short = [each.astype(np.float16) for each in given]
    return np.asarray(function(*short)).astype(given[0].dtype)


@cheat_in_each_call
def just_within(function: Call, *given: Any) -> Any:
    """Cuts four bits off its argument: near enough for a generous tolerance."""
    mask = np.uint32(0xFFFFFF00)
    return function(*[(each.view(np.uint32) & mask).view(np.float32) for each in given])


@cheat
def lazy_array(function: Call, arguments: Arguments) -> Call:
    """Returns an array of the right type that is filled when its elements are looked at."""
    class Late(np.ndarray):
        work: Any = None

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            time.sleep(0.002)
            return np.asarray(function(*self.work))

        def __array_finalize__(self, other: Any) -> None:
            self.work = getattr(other, "work", None)

    def lazy(*given: Any) -> Any:
        made = np.empty_like(given[0]).view(Late)
        made.work = given
        return made

    return lazy


@cheat_in_each_call
def promised(function: Call, *given: Any) -> Any:
    """Returns at once what computes as quickly as any when somebody looks at it."""
    return Promise(function, given, 0.0)


@cheat_in_each_call
def view_of_input(function: Call, *given: Any) -> Any:
    """Writes the result over its argument and returns that."""
    np.copyto(given[0], function(*given))
    return given[0]


@cheat_in_each_call
def other_dtype(function: Call, *given: Any) -> Any:
    """Gives float64 where NumPy gives float32."""
    return np.asarray(function(*given)).astype(np.float64)


@cheat_in_each_call
def other_shape(function: Call, *given: Any) -> Any:
    """Gives one row more than NumPy does."""
    return np.asarray(function(*given))[None]


@cheat_in_each_call
def other_order(function: Call, *given: Any) -> Any:
    """Gives the result in another memory order than NumPy does."""
    result = np.asarray(function(*given))
    if result.ndim > 1:
        return result.T.copy().T
    return np.repeat(result, 2)[::2]


@cheat
def same_buffer(function: Call, arguments: Arguments) -> Call:
    """Computes every time, into one buffer that all results share."""
    kept: list[Any] = []

    def same(*given: Any) -> Any:
        result = np.asarray(function(*given))
        if not kept or kept[0].shape != result.shape:
            kept[:] = [np.empty_like(result)]
        np.copyto(kept[0], result)
        return kept[0]

    return same


@cheat
def half_later(function: Call, arguments: Arguments) -> Call:
    """Computes the first half of the elements in timed loops, the rest as they were."""
    kept: list[Any] = []

    def half(*given: Any) -> Any:
        if not kept:
            kept.append(np.asarray(function(*given)))
        count = kept[0].shape[0] // 2 if kept[0].ndim else 0
        result = kept[0].copy()
        result[:count] = np.asarray(function(*given))[:count]
        return result

    return half


@cheat
def resident(function: Call, arguments: Arguments) -> Call:
    """Hands out a large result that it made before: sold as memory's speed, it is a cache's.

    It computes when the first elements change, which are all that it reads of large arrays.
    """
    kept: list[Any] = [None, None]

    def resident(*given: Any) -> Any:
        key = [np.ravel(each)[:4096].tobytes() for each in given]
        if kept[0] != key:
            kept[:] = [key, function(*given)]
        return kept[1]

    return resident


@cheat
def ring(function: Call, arguments: Arguments) -> Call:
    """Computes every time, into one of eight buffers in turn."""
    kept = [np.array(function(*arguments)) for _ in range(8)]
    turns = itertools.cycle(kept)

    def ring(*given: Any) -> Any:
        buffer = next(turns)
        np.copyto(buffer, function(*given))
        return buffer

    return ring


@cheat
def restless(function: Call, arguments: Arguments) -> Call:
    """Right, and from its fifth call on writes what it finds at the end to the front."""
    calls = iter(range(10**9))

    def restless(*given: Any) -> Any:
        result = function(*given)
        if next(calls) > 4:
            given[0].reshape(-1)[0] = given[0].reshape(-1)[-1]
        return result

    return restless


@cheat_in_each_call
def rare_nan(function: Call, *given: Any) -> Any:
    """Gives NaN for values that normal numbers do not reach."""
    return np.where(np.abs(given[0]) > 7, np.float32(np.nan), function(*given))


@cheat
def by_address(function: Call, arguments: Arguments) -> Call:
    """Takes long for arrays that it has not seen before, as if it compiled for each."""
    known: set[int] = set()

    def by_address(*given: Any) -> Any:
        if given[0].ctypes.data not in known:
            known.add(given[0].ctypes.data)
            time.sleep(0.02)
        return function(*given)

    return by_address


MORE = (
    stale_buffer, in_place, lower_precision, just_within, lazy_array, view_of_input, other_dtype,
    other_shape, other_order, same_buffer, half_later, ring, restless, rare_nan, by_address,
    promised,
)
