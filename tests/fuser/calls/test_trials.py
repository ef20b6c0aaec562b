"""Small programs beside the plain function: the faster one runs such calls."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls import trials
from tests.settings import settings

X = np.arange(5.0)


def _first_large(x: Any) -> Any:
    """A loop that ends early, by values."""
    for k in range(len(x)):
        if x[k].sum() > 1:
            return k, x[k] * 2
    return None


def _settled(function: Any, x: Any) -> list[str]:
    """Codes of the reasons after many calls, all of which are right."""
    for _ in range(100):
        k, found = function(x)
        assert (k, found) == _first_large(x)
    return [reason.code for reason in function.fallbacks]


@pytest.mark.parametrize("slower", [True, False])
def test_the_faster_way_runs_later_calls(slower: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what was timed; a policy that refuses fallbacks has none."""
    monkeypatch.setattr(trials, "SPARE_NS", -1e9 if slower else 1e9)
    with settings(check=False):
        assert _settled(fuser.fuse(_first_large, fallback="allow"), X) == ["no-gain"] * slower
        assert _settled(fuser.fuse(_first_large, fallback="error"), X) == []


def test_trials_leave_counters_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs for the clock alone is counted nowhere."""
    monkeypatch.setattr(trials, "SPARE_NS", 1e9)
    counts = []
    for check in (True, False):
        fuser.clear_caches()
        with settings(check=check):
            function = fuser.fuse(_first_large, fallback="allow")
            before = dict(fuser.stats())
            for _ in range(6):
                function(X)
            after = fuser.stats()
            names = [name for name in after if name.startswith(("decision", "graph_break"))]
            counts.append({name: after[name] - before.get(name, 0) for name in names})
    assert counts[0] == counts[1]


def test_programs_that_write_or_raise_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run would write again."""
    monkeypatch.setattr(trials, "SPARE_NS", -1e9)

    def counted(x: Any) -> Any:
        if x.max() >= 0:
            x += 1
        return x.sum()

    with settings(check=False):
        fused, x, y = fuser.fuse(counted, fallback="allow"), X.copy(), X.copy()
        for _ in range(20):
            assert fused(x) == counted(y)
        assert x.tolist() == y.tolist()
