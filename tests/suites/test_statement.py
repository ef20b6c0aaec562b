"""Statements that are timed written out."""

from time import perf_counter
from typing import Any

import numpy as np

from fuser.suites.sampling import timed_calls
from fuser.suites.statement import Statement


def function(a: Any, b: Any) -> Any:
    """Gives the names."""
    return a + b


def test_the_last_statement_is_the_result() -> None:
    """Each run counts, in place too; `f` and `o` are what was prepared and the buffer."""
    calls: list[Any] = []

    def prepared(*given: Any) -> Any:
        calls.append(given)
        return sum(given)

    seconds, result = timed_calls(Statement("x = f(a, b); x + 1", function, prepared), (1, 2), 5)
    assert (result, len(calls)) == (4, 5)
    assert seconds > 0
    buffer = np.zeros(2)
    into = Statement("np.add(a, b, out=o)", function, prepared, (buffer,))
    assert into(np.ones(2), 1.0) is buffer
    a = np.ones(2)
    assert Statement("a += b", function, prepared).timed((a, 1.0), 3, perf_counter)[1] is a
    assert a.tolist() == [4, 4]
