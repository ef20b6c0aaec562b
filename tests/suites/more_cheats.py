"""More ways of being wrong: results that are views, buffers, other dtypes, orders or precisions."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.suites.workload import Arguments
from tests.suites.cheats import Honest


class StaleBuffer(Honest):
    """Computes when the first element has changed; else returns what it has, copied."""

    name = "stale_buffer"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that looks at one element to know whether there is work."""
        kept: list[Any] = [None, None]

        def stale(*given: Any) -> Any:
            key = [each.reshape(-1)[:1].tobytes() for each in given if isinstance(each, np.ndarray)]
            if kept[0] != key:
                kept[:] = [key, np.asarray(function(*given))]
            return kept[1].copy()

        return stale


class InPlace(Honest):
    """Works in its argument's memory and puts the values back afterwards, most of them."""

    name = "in_place"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that leaves the last element of its first argument changed later on."""
        calls = iter(range(10**9))

        def in_place(*given: Any) -> Any:
            result = function(*given)
            if next(calls):
                given[0].reshape(-1)[-1] = 0
            return result

        return in_place


class LowerPrecision(Honest):
    """Computes in float16 and widens the result."""

    name = "lower_precision"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function whose result has the right dtype and half of the digits."""

        def lower(*given: Any) -> Any:
            short = [each.astype(np.float16) for each in given]
            return np.asarray(function(*short)).astype(given[0].dtype)

        return lower


class JustWithin(Honest):
    """Cuts four bits off its argument: near enough for a generous tolerance."""

    name = "just_within"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of truncated arguments."""

        def within(*given: Any) -> Any:
            mask = np.uint32(0xFFFFFF00)
            return function(*[(each.view(np.uint32) & mask).view(np.float32) for each in given])

        return within


class LazyArray(Honest):
    """Returns an array of the right type that is filled when its elements are looked at."""

    name = "lazy_array"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of arrays whose class computes late."""

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


class Promised(Honest):
    """Returns at once what computes as quickly as any when somebody looks at it."""

    name = "promised"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of promises too short to be seen by a clock."""

        class Promise:
            def __init__(self, given: Any) -> None:
                self.given = given

            def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
                return np.asarray(function(*self.given))

        return lambda *given: Promise(given)


class ViewOfInput(Honest):
    """Writes the result over its argument and returns that."""

    name = "view_of_input"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that reuses its argument's memory for the result."""

        def view(*given: Any) -> Any:
            np.copyto(given[0], function(*given))
            return given[0]

        return view


class OtherDtype(Honest):
    """Gives float64 where NumPy gives float32."""

    name = "other_dtype"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of wider results."""
        return lambda *given: np.asarray(function(*given)).astype(np.float64)


class OtherShape(Honest):
    """Gives one row more than NumPy does."""

    name = "other_shape"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of results with another axis."""
        return lambda *given: np.asarray(function(*given))[None]


class OtherOrder(Honest):
    """Gives the result in another memory order than NumPy does."""

    name = "other_order"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of results that lie the other way round in memory."""

        def other(*given: Any) -> Any:
            result = np.asarray(function(*given))
            if result.ndim > 1:
                return result.T.copy().T
            return np.repeat(result, 2)[::2]

        return other


class SameBuffer(Honest):
    """Computes every time, into one buffer that all results share."""

    name = "same_buffer"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function whose earlier results change with the next call."""
        kept: list[Any] = []

        def same(*given: Any) -> Any:
            result = np.asarray(function(*given))
            if not kept or kept[0].shape != result.shape:
                kept[:] = [np.empty_like(result)]
            np.copyto(kept[0], result)
            return kept[0]

        return same


class HalfLater(Honest):
    """Computes the first half of the elements in timed loops, the rest as they were."""

    name = "half_later"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that does half of the work from its second call on."""
        kept: list[Any] = []

        def half(*given: Any) -> Any:
            if not kept:
                kept.append(np.asarray(function(*given)))
            count = kept[0].shape[0] // 2 if kept[0].ndim else 0
            result = kept[0].copy()
            result[:count] = np.asarray(function(*given))[:count]
            return result

        return half


class Resident(Honest):
    """Hands out a large result that it made before: sold as memory's speed, it is a cache's.

    It computes when the first elements change, which are all that it reads of large arrays.
    """

    name = "resident"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that reads a block which stays in the cache."""
        kept: list[Any] = [None, None]

        def resident(*given: Any) -> Any:
            key = [np.ravel(each)[:4096].tobytes() for each in given]
            if kept[0] != key:
                kept[:] = [key, function(*given)]
            return kept[1]

        return resident


class Ring(Honest):
    """Computes every time, into one of eight buffers in turn."""

    name = "ring"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function whose results are lost eight calls later."""
        kept = [np.array(function(*arguments)) for _ in range(8)]
        turns = itertools.cycle(kept)

        def ring(*given: Any) -> Any:
            buffer = next(turns)
            np.copyto(buffer, function(*given))
            return buffer

        return ring


class Restless(Honest):
    """Right, and from its fifth call on writes what it finds at the end to the front."""

    name = "restless"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that changes its argument when the result is there."""
        calls = iter(range(10**9))

        def restless(*given: Any) -> Any:
            result = function(*given)
            if next(calls) > 4:
                given[0].reshape(-1)[0] = given[0].reshape(-1)[-1]
            return result

        return restless


class RareNan(Honest):
    """Gives NaN for values that normal numbers do not reach."""

    name = "rare_nan"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that is wrong beyond 7."""

        def rare(*given: Any) -> Any:
            return np.where(np.abs(given[0]) > 7, np.float32(np.nan), function(*given))

        return rare


class ByAddress(Honest):
    """Takes long for arrays that it has not seen before, as if it compiled for each."""

    name = "by_address"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that knows arrays by where they lie."""
        known: set[int] = set()

        def by_address(*given: Any) -> Any:
            if given[0].ctypes.data not in known:
                known.add(given[0].ctypes.data)
                time.sleep(0.02)
            return function(*given)

        return by_address


MORE = (
    StaleBuffer, InPlace, LowerPrecision, JustWithin, LazyArray, ViewOfInput, OtherDtype,
    OtherShape, OtherOrder, SameBuffer, HalfLater, Ring, Restless, RareNan, ByAddress,
    Promised,
)
