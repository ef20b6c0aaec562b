"""The table of pairs: every one considered, its score and its parts, and why not."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.explain.candidates import COLUMNS, rows_of
from fuser.scheduling import verdicts
from fuser.scheduling.verdicts import FUSED, VERDICTS
from tests.children import said

X = np.ones((10, 20), np.float32)
V = np.ones(20, np.float32)
N = X.nbytes


def pair(first: str, second: str, kind: str, verdict: str) -> tuple[str, str, str, str]:
    """What a row says, without lines and bytes."""
    return first, second, kind, verdict


#: name -> (function, arguments, rows, best first)
PAIRS: dict[str, tuple[Any, tuple[Any, ...], list[tuple[str, str, str, str]]]] = {
    "chain": (lambda x: np.exp(x) + 1, (X,), [pair("exp", "add", "vertical", "inlined")]),
    "side by side": (
        lambda x: (x + 1, x.sum(-1)), (X,), [pair("add", "sum", "horizontal", "same-loops")]
    ),
    "rows and columns": (
        lambda x: (x.sum(0), x.sum(1)), (X,), [pair("sum", "sum", "horizontal", "other-loops")]
    ),
    "costly row": (
        lambda x, v: x * np.exp(v), (X, V),
        [pair("exp", "multiply", "vertical", "heavy-broadcast")],
    ),
    "view": (
        lambda x: (x + 1)[::2] * 2, (X,),
        [pair("index", "multiply", "view", "view"), pair("add", "index", "view", "view")],
    ),
    "NumPy between": (
        lambda x: np.sort(x + 1), (X,),
        [pair("add", "np.sort", "graph-break", "unsupported-function")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_and_verdicts(name: str) -> None:
    """Both operations in the user's terms, the kind, the verdict and its sentence."""
    function, args, wanted = PAIRS[name]
    frame = fuser.fuse(function, fallback="allow").explain(*args).candidates
    assert list(frame.columns) == COLUMNS
    found = [
        pair(r.first.partition("#")[0], r.second.partition("#")[0], r.kind, r.verdict)
        for r in frame.itertuples()
    ]
    assert found == wanted
    for entry in frame.itertuples():
        assert "test_candidates.py:" in entry.first
        assert entry.fused == (entry.verdict in FUSED)
        assert entry.reason == VERDICTS.get(entry.verdict) or entry.kind == "graph-break"
        assert entry.reason == verdicts.meaning(entry.verdict)
        expected = entry.bytes_saved * (1 + entry.kind_bonus) / (1 + entry.distance / 1000)
        assert entry.score == pytest.approx(expected)


def test_bytes_saved() -> None:
    """A stored value's write and read; an array's second reading; for lengths that are given."""
    graph = fuser.trace(lambda x: (np.exp(x) * 2, x.sum(0)), X)
    frame = fuser.fusion_candidates(graph, {"n0": 10, "n1": 20}).set_index("kind")
    assert frame.loc["vertical", "bytes_saved"] == 2 * N
    assert frame.loc["horizontal", "bytes_saved"] == N
    default = fuser.fusion_candidates(graph).set_index("kind")
    assert default.loc["horizontal", "bytes_saved"] == 1024 * 1024 * 4


def test_pairs_apart_save_what_they_would_save() -> None:
    """Planned as two loop nests, what was one moves as many bytes more as the table says."""
    def fused(x: Any) -> Any:
        return x + 1, x * 2

    saved = fuser.fuse(fused).explain(X).candidates["bytes_saved"].sum()
    books = [fuser.fuse(fused, mode=mode).explain(X).ledger for mode in ("unfused", "fused")]
    assert books[0].planned_bytes - books[1].planned_bytes == saved == N


def test_what_stays_in_the_cache_saves_nothing() -> None:
    """A small row that a kernel computes before its large loops crosses no boundary."""
    found = fuser.fuse(lambda x, v: x + np.sin(v) * np.exp(v)).explain(X, V)
    apart = found.candidates[~found.candidates["fused"]]
    assert len(apart) == 1
    assert not apart["bytes_saved"].any()
    assert not found.boundaries


def test_a_reduction_needed_elsewhere_is_called_so() -> None:
    """Not by the views through which its one element is seen."""
    def joined(x: Any, y: Any) -> Any:
        z = np.concatenate([x, y])
        return z - z.mean()

    frame = fuser.fuse(joined).explain(X, X + 1).candidates
    sums = frame[frame["first"].str.startswith("sum") & ~frame["fused"]]
    assert "reduction-elsewhere" in set(sums["verdict"])
    assert "through-view" not in set(sums["verdict"])


def test_views_save_what_they_keep_from_being_stored() -> None:
    """Nothing of their own; an argument is read anyway, and repeated elements are read once."""
    graph = fuser.trace(lambda x, v: (x + 1)[:, ::2] * 2 + x[:, 1::2] + np.exp(v), X, V[:10])
    frame = fuser.fusion_candidates(graph, {"n0": 10, "n1": 20})
    saved = {
        (r.first.partition("#")[0], r.second.partition("#")[0]): r.bytes_saved
        for r in frame[frame["kind"] == "view"].iloc[::-1].itertuples()
    }
    assert saved["add", "index"] == 0
    assert saved["index", "multiply"] == N + N // 2


def test_explanations_need_no_pandas() -> None:
    """The text lists the pairs that are apart; pandas is for the table alone."""
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "import numpy as np, fuser\n"
        "found = fuser.fuse(lambda x: (x.sum(0), x.sum(1))).explain(np.ones((3, 4)))\n"
        "assert 'pairs considered' in str(found) and 'loops differ' in str(found)\n"
    )
    said("-c", program)


def test_rows_are_sorted() -> None:
    """The best first, as pairs are tried."""
    spec = fuser.compiler.compile_upfront(fuser.trace(lambda x: np.exp(x - x.max(-1)[:, None]), X))
    scores = [row[COLUMNS.index("score")] for row in rows_of(spec)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 2
