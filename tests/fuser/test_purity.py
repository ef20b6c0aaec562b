"""Whether two traces of a function agree."""

from typing import Any

import numpy as np
import pytest

from fuser import trees
from fuser.errors import Unsupported
from fuser.purity import compare
from fuser.trace_result import Trace
from fuser.tracer import trace_call


def traced(function: Any) -> Trace:
    """One trace with a fixed argument."""
    structure, leaves = trees.flatten(((np.ones(3),), {}))
    return trace_call(function, structure, leaves)


def test_arrays_made_anew_are_constants() -> None:
    """The same values each time: a copy is kept."""
    def function(x: Any) -> Any:
        return x * np.frombuffer(bytes(24))

    found = compare(traced(function), traced(function), "f")
    assert [array.tolist() for array in found.values()] == [[0, 0, 0]]


def test_two_graphs_are_impure() -> None:
    """Other operations, or other numbers in an array."""
    with pytest.raises(Unsupported, match="impure"):
        compare(traced(lambda x: x + 1), traced(lambda x: x + 2), "f")
    tables = iter([np.zeros(3), np.ones(3)])
    first, second = (traced(lambda x: x * next(tables)) for _ in range(2))
    with pytest.raises(Unsupported, match="other values"):
        compare(first, second, "f")
