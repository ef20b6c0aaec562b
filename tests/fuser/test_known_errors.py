"""Errors of tracing: raised again as they were, as long as nothing has changed."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import fused_function, purity
from fuser.known_errors import LIMIT, KnownErrors

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
    assert fused_function._Signature().errors is not fused_function._Signature().errors
