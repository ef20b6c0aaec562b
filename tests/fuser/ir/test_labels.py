"""Names of values in the user's terms."""

from typing import Any

import numpy as np

import fuser
from fuser.ir.labels import labels_of


def labels(graph: fuser.Graph) -> list[str]:
    """The labels of all values, in order."""
    found = labels_of(graph)
    return [found[id(node)] for node in graph.nodes]


def test_labels_name_the_operation_and_the_line() -> None:
    """An operation, which of its line it is, and where it was written; an argument by its name."""
    graph = fuser.trace(lambda pressure: np.exp(np.exp(pressure)) * 2, np.ones(3))
    found = labels(graph)
    assert found[0] == "pressure"
    assert found[1].startswith("exp#1 (test_labels.py:")
    assert found[2].startswith("exp#2 (test_labels.py:")
    assert len(set(found)) == len(found)


def test_arguments_are_called_as_the_function_calls_them() -> None:
    """By position, keyword, inside containers, beyond the names, and captured."""
    table = np.ones(3)

    def function(first: Any, *rest: Any, scale: Any, **more: Any) -> Any:
        return (first[1] + rest[0]) * scale + more["depth"] + table

    x = np.ones(3)
    graph = fuser.trace(function, (x, x), x, scale=x, depth=x)
    assert graph.names == ("first[0]", "first[1]", "args[0]", "scale", "depth", "captured array")


def test_equal_graphs_keep_their_own_lines_and_names() -> None:
    """The second function shares the first one's kernels, and none of its words."""
    @fuser.fuse
    def first(depth: Any) -> Any:
        return np.exp(depth[:, 0]).sum() * depth

    @fuser.fuse
    def second(height: Any) -> Any:
        total = np.exp(height[:, 0]).sum()
        return total * height

    x = np.ones((4, 5))
    for function, mine, other in ((first, "depth", "height"), (second, "height", "depth")):
        explanation = function.explain(x)
        lines = range(function.__wrapped__.__code__.co_firstlineno + 1, 0xFFFF)
        text = str(explanation)
        assert f"reads {mine}" in text
        assert other not in text
        for label in explanation.candidates["first"]:
            line = int(label.rpartition(":")[2].rstrip(")"))
            assert line - lines[0] in range(1, 4), label
    both = [fuser.fusion_candidates(fuser.trace(f.__wrapped__, x)) for f in (first, second)]
    assert list(both[0]["score"]) == list(both[1]["score"])
    assert list(both[0]["first"]) != list(both[1]["first"])


def test_numpys_functions_are_called_by_their_names() -> None:
    """In pairs, in kernels' texts, and where they stand between kernels."""
    def function(values: Any) -> Any:
        ordered = np.sort(values * 2)
        return ordered + 1

    explanation = fuser.fuse(function, fallback="allow").explain(np.ones(8))
    pairs = explanation.candidates
    graph_breaks = pairs[pairs["kind"] == "graph-break"]
    assert [label.partition("#")[0] for label in graph_breaks["first"]] == ["multiply", "np.sort"]
    assert set(graph_breaks["reason"]) == {"this function has no fused form"}
    assert set(graph_breaks["bytes_saved"]) == {128}
    assert "gives np.sort#1 (test_labels.py:" in str(explanation)
