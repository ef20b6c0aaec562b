"""Floating-point errors that functions ask for, or silence."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir import opaque_calls

WHOLE = np.array([1.0, 2.0])
ZERO = np.array([1.0, 0.0, -1.0])


def raising(x: Any) -> Any:
    """Where it divides by zero."""
    with np.errstate(divide="raise"):
        return 1 / x


def caught(x: Any) -> Any:
    """Another way where it divides by zero."""
    try:
        with np.errstate(all="raise"):
            return 1 / x
    except FloatingPointError:
        return x - 5


def warning(x: Any) -> Any:
    """As NumPy does by itself."""
    with np.errstate(all="warn"):
        return 1 / x


def set_and_reset(x: Any) -> Any:
    """Without a context."""
    before = np.seterr(all="raise")
    try:
        return 1 / x
    finally:
        np.seterr(**before)


def recording(x: Any) -> Any:
    """By what was warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = 1 / x
    return y * (2 if seen else 3)


def erring(x: Any) -> Any:
    """Warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return 1 / x


def silent(x: Any) -> Any:
    """Whatever it divides by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 / x


def silent_break(x: Any) -> Any:
    """In a function that NumPy runs."""
    with np.errstate(all="ignore"):
        return np.log(x + 0j) + np.cumsum(x) / np.cumsum(x * 0)


def silent_warnings(x: Any) -> Any:
    """In a function whose warnings are Python's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmedian(x * np.nan) + x


def observed(function: Callable[..., Any], values: Any) -> Any:
    """What is returned, raised and warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = function(values.copy())
        except (ArithmeticError, RuntimeWarning) as error:
            result = repr(error)
    return repr(result), [str(each.message) for each in seen]


ASKING = [raising, caught, warning, set_and_reset, recording, erring]


@pytest.mark.parametrize("function", ASKING)
def test_functions_that_ask_for_errors_are_told(function: Callable[..., Any]) -> None:
    """By NumPy, at each call."""
    fused = fuser.fuse(function, fallback="allow")
    for values in (WHOLE, ZERO, WHOLE, ZERO[:2]):
        assert observed(fused, values) == observed(function, values)


def test_the_reason_says_what_is_asked_for() -> None:
    """And what to do."""
    fused = fuser.fuse(raising, fallback="error")
    with pytest.raises(fuser.FusionError, match=r"divide: raise.*errstate=True"):
        fused(WHOLE)


def test_kernels_that_note_errors_serve_functions_that_ask_for_them() -> None:
    """But for underflow, which they do not note."""
    fused = fuser.fuse(raising, fallback="error", errstate=True)
    assert fused(WHOLE).tolist() == [1.0, 0.5]
    with pytest.raises(FloatingPointError):
        fused(ZERO)
    with pytest.raises(fuser.FusionError, match="under"):
        fuser.fuse(caught, fallback="error", errstate=True)(WHOLE)


@pytest.mark.parametrize("function", [silent, silent_break, silent_warnings])
def test_functions_that_silence_errors_are_fused_and_silent(function: Callable[..., Any]) -> None:
    """Also where NumPy runs a part of them."""
    fused = fuser.fuse(function, fallback="allow")
    observed(fused, ZERO)
    for values in (WHOLE, ZERO, WHOLE, ZERO):
        result, told = observed(fused, values)
        assert (result, told) == (observed(function, values)[0], [])
    assert fused.explain(ZERO).groups


def test_a_state_that_is_left_behind_is_an_effect() -> None:
    """The state is as it was before, after the trace."""

    def leaving(x: Any) -> Any:
        np.seterr(divide="ignore")
        return 1 / x

    with np.errstate(), pytest.raises(fuser.FusionError, match=r"np\.seterr.*side-effect"):
        fuser.fuse(leaving, fallback="error")(WHOLE)
    assert np.geterr()["divide"] != "ignore"


def test_the_text_of_a_call_says_what_is_silenced() -> None:
    """And is read back."""
    call = opaque_calls.read("0.0 silent(divide,over) numpy.sort(a0)")
    assert (call.name, call.silenced) == ("numpy.sort", ("divide", "over"))
    graph = fuser.trace(silent_break, ZERO)
    assert fuser.parse(str(graph)) is graph or str(fuser.parse(str(graph))) == str(graph)


def test_a_refused_trace_warns_of_nothing() -> None:
    """The plain function runs then, and gives its warnings once; those of a kept trace stay."""

    def shuffled(x: Any, draws: np.random.Generator) -> Any:
        draws.shuffle(x)  # which warns where it is given a stand-in
        return x

    fused = fuser.fuse(shuffled, fallback="allow")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            fused(np.arange(6.0), np.random.default_rng(3))
    assert fused.fallbacks
    assert not told
