"""Fused calls beside the same NumPy code: values, types, layout, writes and exceptions."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fuser
from fuser.base import trees

Function = Callable[..., Any]
#: As `close`: what sums of some thousand numbers are rounded by, by the dtype.
ROUNDED = -1.0
_ROUNDED = {"e": 1e-2, "f": 2e-4, "d": 1e-10}


def faults() -> int:
    """How many calls ran in NumPy, or the long way, because of a mistake of ours.

    To a judge, each is a failure.
    """
    counted, codes = fuser.stats(), ("internal-error", "compile-failed")
    ways = "fallback", "no-short-way"
    return sum(counted.get(f"{way}.{code}", 0) for way in ways for code in codes)


def visible_strides(array: Any) -> tuple[int, ...]:
    """Strides that can be noticed: those of axes with more than one element."""
    if not array.size:
        return ()
    return tuple(s for n, s in zip(array.shape, array.strides, strict=True) if n > 1)


def difference(wanted: Any, found: Any, ulp: float = 0, close: float = 0) -> str:
    """Say how two results differ; an empty string where they do not.

    Args:
        wanted: what NumPy gives.
        found: what the fused function gives.
        ulp: error allowed, in units in the last place of the wanted value.
        close: error allowed instead, of the wanted value and of 1 together.
    """
    if type(wanted) is not type(found):
        return f"type {type(wanted).__name__} against {type(found).__name__}"
    if not isinstance(wanted, (np.ndarray, np.generic)):
        same = wanted == found or (wanted != wanted and found != found)
        same = same or bool(close and np.isclose(found, wanted, close, close))
        return "" if same else f"{wanted!r} against {found!r}"
    if wanted.dtype != found.dtype:
        return f"dtype {wanted.dtype} against {found.dtype}"
    if wanted.shape != found.shape:
        return f"shape {wanted.shape} against {found.shape}"
    if visible_strides(wanted) != visible_strides(found):
        return f"strides {wanted.strides} against {found.strides} for shape {wanted.shape}"
    if wanted.tobytes() == found.tobytes():  # most often: a third of the time
        return ""
    wrong = wrong_places(np.asarray(wanted), np.asarray(found), ulp, close)
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"value {wanted[place]!r} against {found[place]!r} at {place}, {wrong.sum()} in all"


def wrong_places(wanted: Any, found: Any, ulp: float, close: float = 0) -> Any:
    """Where values differ by more than is allowed; NaN is NaN, 0.0 is not -0.0 if nothing is."""
    if wanted.dtype.kind == "c" and close:
        return wrong_places(wanted.real, found.real, ulp, close) | wrong_places(
            wanted.imag, found.imag, ulp, close
        )
    if wanted.dtype.kind != "f":
        return wanted != found
    if close:
        close = _ROUNDED[wanted.dtype.char] if close == ROUNDED else close
        wide = found.astype(np.float64), wanted.astype(np.float64)
        return ~np.isclose(*wide, rtol=close, atol=close, equal_nan=True)
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    if not ulp:
        return ~(same & ((np.signbit(wanted) == np.signbit(found)) | np.isnan(wanted)))
    with np.errstate(all="ignore"):
        gap = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
        return ~same & ~(gap <= ulp * np.spacing(np.abs(wanted)).astype(np.float64))


def independent(args: Sequence[Any]) -> list[Any]:
    """Copies of arguments with the same memory layout, overlaps and identities included."""
    memories: dict[tuple[int, int], Any] = {}
    done: dict[int, Any] = {}
    return [_copied(arg, memories, done) for arg in args]


def _copied(value: Any, memories: dict[tuple[int, int], Any], done: dict[int, Any]) -> Any:
    """Copy the memory that an array looks at, once, and look at the copy in the same way."""
    if type(value) is tuple or type(value) is list:
        return type(value)(_copied(part, memories, done) for part in value)
    if type(value) is dict:
        return {key: _copied(part, memories, done) for key, part in value.items()}
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return value
    if id(value) not in done:
        base = value
        while type(base.base) is np.ndarray:
            base = base.base
        low, high = np.lib.array_utils.byte_bounds(base)
        if (low, high) not in memories:
            raw = (ctypes.c_char * max(high - low, 1)).from_address(low)
            room = np.zeros(high - low + 128, np.uint8)
            start = (low - room.__array_interface__["data"][0]) % 64
            memory = room[start : start + max(high - low, 1)]
            memory[:] = np.frombuffer(raw, np.uint8)
            memories[(low, high)] = memory
        offset = value.__array_interface__["data"][0] - low
        done[id(value)] = np.ndarray(
            value.shape, value.dtype, memories[(low, high)], offset, value.strides
        )
        done[id(value)].flags.writeable = value.flags.writeable
    return done[id(value)]


def run_plain(function: Function, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """NumPy's result, or the exception that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **keywords)
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises is the expectation
            return error


def compare(
    function: Function,
    *args: Any,
    ulp: float = 0,
    close: float = 0,
    mode: str = "fused",
    fallback: str = "error",
    **keywords: Any,
) -> str:
    """Call a function plainly and fused on equal arguments; say how the outcomes differ.

    The fused function is called twice: a second call of one shape takes a shorter way.
    """
    fused = (
        function
        if isinstance(function, fuser.FusedFunction)
        else fuser.fuse(function, mode=mode, fallback=fallback)
    )
    plain_args = independent(args)
    wanted = run_plain(fused.__wrapped__, plain_args, keywords)
    for turn in ("first call", "second call"):
        fused_args = independent(args)
        found = run_plain(fused, fused_args, keywords)
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            alike = isinstance(wanted, Exception) and isinstance(found, type(wanted))
            text = "" if alike else f"{wanted!r} against {found!r}"
        else:
            text = unlike(wanted, found, ulp, close)
            left = unlike(plain_args, fused_args, ulp, close)
            text = text or (left and f"of the arguments, {left}")
        if text:
            return f"{turn}: {text}"
    return ""


def unlike(wanted: Any, found: Any, ulp: float = 0, close: float = 0) -> str:
    """As `difference`, of tuples, lists and dicts of results too."""
    shape, leaves = trees.flatten(wanted)
    other, others = trees.flatten(found)
    if trees.spell(shape) != trees.spell(other):
        return f"structure {shape} against {other}"
    for place, (one, two) in enumerate(zip(leaves, others, strict=True)):
        if text := difference(one, two, ulp, close):
            return f"number {place}: {text}"
    return ""


def same(wanted: Any, found: Any) -> bool:
    """Whether two results have the same types, layouts and bits; a NaN is a NaN."""
    return not unlike(wanted, found)


def assert_near(wanted: Any, found: Any) -> None:
    """Fail where two results differ: in types, layout, or values by more than sums are rounded."""
    assert_alike(wanted, found, close=ROUNDED)


def assert_alike(wanted: Any, found: Any, ulp: float = 0, close: float = 0) -> None:
    """Fail where two results differ: in types, layout or values."""
    text = unlike(wanted, found, ulp, close)
    assert not text, text


def assert_same(function: Function, *args: Any, **options: Any) -> None:
    """Fail where the fused function does not do what the plain one does."""
    text = compare(function, *args, **options)
    assert not text, text
