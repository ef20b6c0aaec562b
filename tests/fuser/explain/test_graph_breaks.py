"""What explanations say of functions that NumPy runs between kernels."""

from typing import Any

import numpy as np

import fuser


def ranks(x: Any, y: Any) -> Any:
    """One call between two kernels."""
    order = np.argsort(x * 2 + y)
    return order * 2 + 1


X, Y = np.arange(50.0), np.ones(50)


def test_a_graph_break_is_shown_where_it_runs() -> None:
    """Function, line, reason, and the bytes of what goes in and out, between the kernels."""
    explained = fuser.fuse(ranks, fallback="allow").explain(X, Y)
    text = str(explained)
    assert text.index("kernel 0") < text.index("graph break: np.argsort") < text.index("kernel 1")
    (found,) = explained.graph_breaks
    assert "test_graph_breaks.py:" in found
    assert "[unsupported-function]" in found
    assert found.count("400 bytes") == 2
    assert "float64[n0]" in found
    assert [reason.operation for reason in explained.fallbacks] == ["np.argsort"]
    assert len(explained.groups) == 2
    assert "graph break: np.argsort" in explained._repr_html_()


def test_what_crosses_is_plain_data() -> None:
    """An entry for each operand and result of a call."""
    explained = fuser.fuse(ranks, fallback="allow").explain(X, Y)
    entries = [entry for entry in explained.boundaries if entry["kind"] == "graph-break"]
    assert [(e["written_by"], e["read_by"], e["bytes"]) for e in entries] == [
        (None, ["np.argsort"], 400),
        ("np.argsort", [], 400),
    ]
    assert {entry["reason"] for entry in entries} == {"unsupported-function"}


def test_the_ledger_is_that_of_the_kernels() -> None:
    """Kernels before and after a call read and write what they share with it."""
    explained = fuser.fuse(ranks, fallback="allow").explain(X, Y)
    book = explained.ledger
    assert book is not None
    assert (book.kernels_fused, book.planned_bytes) == (2, 3 * 400 + 2 * 400)
    assert book.least_bytes == book.planned_bytes
    assert book.kernels_unfused == 4


def test_views_of_a_result_are_one_pair_with_its_reader() -> None:
    """Gaps between sorted numbers: the array is written once, read twice, and counted so."""
    found = fuser.fuse(lambda x: np.diff(np.sort(x * 2)), fallback="allow").explain(X)
    apart = found.candidates[found.candidates["kind"] == "graph-break"]
    assert sorted(apart["bytes_saved"]) == [400 + 392, 800]
    assert any(name.startswith("subtract") for name in apart["second"])
    text = str(found)
    assert "n1 = np.sort#1.shape[0] = 50" in text
    assert found._repr_html_().count("this function has no fused form") > 1
    assert "2 kernels" in text


def test_candidates_name_the_function() -> None:
    """Pairs that a call keeps apart are listed, not fused, with the reason."""
    table = fuser.fuse(ranks, fallback="allow").explain(X, Y).candidates
    apart = table[table["kind"] == "graph-break"]
    assert len(apart) == 2
    assert not apart["fused"].any()
    named = apart["first"].str.startswith("np.argsort#1") | (
        apart["second"].str.startswith("np.argsort#1")
    )
    assert named.all()
    assert set(apart["reason"]) == {"this function has no fused form"}
    assert (apart["bytes_saved"] == 800).all()
    graph = fuser.trace(ranks, X, Y)
    assert fuser.fusion_candidates(graph, {"n0": 10, "n1": 10})["bytes_saved"].max() == 160


def test_a_number_read_off_an_element_is_told() -> None:
    """The element is spelled with the length of this call."""
    text = str(fuser.fuse(lambda x, k: x * float(x[-1]) * k, fallback="allow").explain(X, 2.0))
    assert "reads s1 off x[-1]: float64[]" in text, text
