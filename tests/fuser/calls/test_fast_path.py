"""The short way of calls in Python: what the long way gives, without it."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.call_keys import exact_key
from fuser.calls import fused_function
from fuser.calls.fast_path import Ready
from tests.fuser.result_kinds import KINDS, check, in_place, own_out, silent_out
from tests.requirements import needs_native_entry


@pytest.fixture(autouse=True)
def _no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No native entry serves calls."""
    monkeypatch.setattr(fused_function, "_NATIVE", False)


def _refuse(*_: Any) -> Any:
    raise AssertionError("the long way")


@needs_native_entry
@pytest.mark.parametrize("name", KINDS)
def test_the_short_way_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, whose memory they are, and what is written into arguments."""
    function, args = KINDS[name]
    fused = fuser.fuse(function, fallback="error")
    check(function, fused, args)
    assert [type(ready) for ready in fused._ready.values()] == [Ready]
    monkeypatch.setattr(fused, "_find_and_run", _refuse)
    for _ in range(2):
        check(function, fused, args)


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
def test_overlapping_and_read_only_arguments() -> None:
    """Those that are written: as the plain function does it, or its error."""
    for function in (own_out, silent_out):
        fused = fuser.fuse(function, fallback="allow")
        memory = np.linspace(1, 2, 12)
        for first, second, third in ((0, 0, 6), (0, 0, 0), (1, 2, 0), (0, 1, 2), (6, 0, 0)) * 2:
            mine, theirs = memory.copy(), memory.copy()
            for target, run in ((mine, fused), (theirs, function)):
                run(target[first:][:6], target[second:][:6], target[third:][:6])
            assert mine.tobytes() == theirs.tobytes()
    fused = fuser.fuse(in_place)
    frozen, other = np.ones(3), np.ones(3)
    fused(frozen, other)
    frozen.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            fused(frozen, other)
    assert frozen.tolist() == [2, 2, 2]


def test_other_shapes_have_ways_of_their_own() -> None:
    """The key holds dtypes, shapes and strides; of objects that are no arrays there is none."""
    x = np.ones((2, 3))
    assert exact_key((x, 2.0)) != exact_key((x.T, 2.0)) != exact_key((x.T, 2))
    assert exact_key((x, [])) is None
    assert exact_key((x, 1j)) != exact_key((x, 2j))


@needs_native_entry
def test_scalars_of_numpy_beside_integers_that_are_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are arrays of each call: other values compile nothing, and take the short way."""

    def function(n: int, scale: Any, x: Any) -> Any:
        x -= x.mean(axis=0) * scale
        return np.eye(n, dtype=x.dtype) * scale, np.sqrt(scale) + x

    fused = fuser.fuse(function, fallback="error")
    x = np.linspace(0, 1, 12).reshape(4, 3)
    for n in (3, 5):
        fused(n, np.float64(2), x.copy())
        fused(n, np.float64(2), x.copy())
    monkeypatch.setattr(fused, "_find_and_run", _refuse)
    for n, scale in ((3, 2.0), (5, 9.0), (3, 0.25)):
        mine, theirs = x.copy(), x.copy()
        found, wanted = fused(n, np.float64(scale), mine), function(n, np.float64(scale), theirs)
        for one, other in zip((*found, mine), (*wanted, theirs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-15)
