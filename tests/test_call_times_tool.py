"""tools/call_times.py: what a call costs beside NumPy's same line."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.tree import ROOT, tool


@pytest.fixture(scope="module")
def found() -> dict[str, list[list[float]]]:
    """Two processes' figures, of few calls: nothing is claimed of this machine's speed."""
    return dict(tool("call_times").measure(processes=2, rounds=1, calls=10))


def test_every_row_is_timed_in_every_process(found: dict[str, list[list[float]]]) -> None:
    """A ratio and seconds, both positive."""
    assert list(found) == [case.title for case in tool("call_times").cases()]
    for pairs in found.values():
        assert np.shape(pairs) == (2, 2)
        assert np.min(pairs) > 0


def test_two_checkouts_are_timed_in_turns() -> None:
    """As many seconds of each, for every row; this checkout stands for both."""
    found = tool("call_times").beside(ROOT, processes=1, rounds=1, calls=10)
    assert list(found) == [case.title for case in tool("call_times").cases()]
    for seconds in found.values():
        assert [len(seconds[side]) for side in ("new", "old")] == [1, 1]
        assert min(*seconds["new"], *seconds["old"]) > 0


def test_the_table_judges_by_the_interval() -> None:
    """An aim is reached where the whole interval is: not by the middle alone."""
    sure, unsure = [[0.2, 1e-7], [0.2, 1e-7]], [[0.1, 1e-7], [0.3, 1e-7]]
    head, first, second = tool("call_times").lines({"one element": sure, "out=": unsure})
    assert "ns a call" in head
    assert "0.200 [0.200, 0.200]" in first
    assert first.endswith("0.25  reached")
    assert second.endswith("0.40  NOT shown")


def test_both_statements_compute_the_same() -> None:
    """The fused call and NumPy's line, and the same arrays are written."""

    def results(case: Any, line: str, function: Any) -> list[Any]:
        names = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in case.operands.items()
        }
        names.update(f=function, np=np)
        *before, last = line.split("; ")
        for statement in before:
            exec(statement, names)
        try:
            given = eval(last, names)
        except SyntaxError:  # a statement that writes into an operand
            exec(last, names)
            given = names["a"]
        return given if isinstance(given, tuple) else (given,)

    for case in tool("call_times").cases():
        ours = results(case, case.fused, fuser.fuse(case.function, fallback="error"))
        for ours_one, theirs in zip(ours, results(case, case.plain, None), strict=True):
            np.testing.assert_allclose(ours_one, theirs, rtol=1e-6)
