"""Names of values in the user's terms."""

import numpy as np

import fuser
from fuser.labels import labels_of


def test_labels_name_the_operation_and_the_line() -> None:
    """An operation, its place, and where it was written; an argument by its name."""
    graph = fuser.trace(lambda x: np.exp(x) * 2, np.ones(3))
    found = [labels_of(graph)[id(node)] for node in graph.nodes]
    assert found[0] == "x0"
    assert found[1].startswith("exp#1 (test_labels.py:")
    assert len(set(found)) == len(found)
