"""Errors of tracing: raised again as they were, as long as nothing has changed."""

import contextlib
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls import trace_cache
from fuser.capture import purity
from fuser.capture.known_errors import LIMIT, KnownErrors
from tests.fuser.comparing import assert_same

EXTRA = np.ones(3)


def test_a_repeated_error_is_the_same_and_is_not_traced_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Type and text; other lengths are looked at anew, and the right ones run."""
    traced: list[Any] = []
    trace_call = purity.trace_call
    monkeypatch.setattr(
        purity, "trace_call", lambda *given: traced.append(given) or trace_call(*given)
    )
    function = fuser.fuse(lambda a, b: a + b)
    texts = set()
    for _ in range(3):
        with pytest.raises(fuser.ShapeError) as caught:
            function(np.ones(3), np.ones(4))
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert len(traced) == 1
    with pytest.raises(ValueError, match="5"):
        function(np.ones(3), np.ones(5))
    assert function(np.ones(3), np.ones(3)).tolist() == [2, 2, 2]


def test_an_integer_that_fits_is_not_taken_for_one_that_does_not() -> None:
    """Numbers are part of what is remembered."""
    function = fuser.fuse(lambda a, k: a * k)
    a = np.arange(3, dtype=np.int8)
    for _ in range(3):
        with pytest.raises(OverflowError, match="1000"):
            function(a, 1000)
        with pytest.raises(OverflowError, match="2000"):
            function(a, 2000)
        assert function(a, 10).tolist() == [0, 10, 20]


def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error holds as long as the names that the function reads are the same objects."""
    function = fuser.fuse(lambda a: a + EXTRA)
    for _ in range(2):
        with pytest.raises(ValueError, match="broadcast"):
            function(np.ones(4))
    monkeypatch.setitem(globals(), "EXTRA", np.full(4, 2.0))
    assert function(np.ones(4)).tolist() == [3, 3, 3, 3]


def test_they_are_bounded() -> None:
    """At the limit all are forgotten."""
    known = KnownErrors()
    for n in range(LIMIT + 3):
        known.keep([n], ValueError(str(n)), [])
    known.raise_known([0])
    with pytest.raises(ValueError, match=f"^{LIMIT + 2}$"):
        known.raise_known([LIMIT + 2])
    assert trace_cache.Signature().errors is not trace_cache.Signature().errors


def test_a_refusal_is_an_error_where_that_is_the_policy() -> None:
    """Each time."""
    function = fuser.fuse(lambda a: a + 1, fallback="error")
    for _ in range(4):
        with pytest.raises(fuser.FusionError):
            function(np.ones(2, "g"))


def _reshaped(x: Any) -> Any:
    try:
        return x.reshape(3, -1) * 2
    except ValueError:
        return x + 1


def _indexed(x: Any) -> Any:
    try:
        return x[5] * 2
    except IndexError:
        return x.sum() - 1


def _joined(x: Any) -> Any:
    with contextlib.suppress(ValueError):
        return x + np.arange(6.0)
    return x - 1


@pytest.mark.parametrize("function", [_reshaped, _indexed, _joined])
def test_caught_errors_are_control_flow(function: Any) -> None:
    """Whether there is one depends on the lengths of each call."""
    fused = fuser.fuse(function, fallback="allow")
    for length in (7, 6, 0, 5, 9, 6, 1):
        assert_same(fused, np.arange(float(length)))
