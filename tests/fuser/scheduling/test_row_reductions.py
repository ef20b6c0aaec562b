"""Reductions of all that nests compute: from those of its rows, made while they are near."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.scheduling import nest_sequences, row_tiles
from fuser.scheduling.row_reductions import reuse
from fuser.traffic import ledger
from tests.fuser.scheduling.plans import plan_of


def distances(x: Any) -> Any:
    """Squared, of all pairs."""
    return ((x[:, None, :] - x[None]) ** 2).sum(-1)


def double_centred(x: Any) -> Any:
    """As classical scaling wants them."""
    d = distances(x)
    return d - d.mean(0) - d.mean(1)[:, None] + d.mean()


def kernel_centred(x: Any) -> Any:
    """The same of a kernel: heavy elements."""
    k = np.exp(-distances(x))
    return k - k.mean(0) - k.mean(1, keepdims=True) + k.mean()


def sides(x: Any) -> Any:
    """Rows, columns and all, of sums and of extremes."""
    d = distances(x)
    return d.sum(0), d.sum(1), d.sum(), d.max(1), d.max(), d.min((0, 1))


def energies(x: Any, m: Any) -> Any:
    """Of bodies, with their forces: both need all distances, forces by rows."""
    apart = x[:, None] - x
    r = np.sqrt((apart * apart).sum(-1) + 0.25)
    forces = (m[:, None] / r**3)[..., None] * apart
    return forces.sum(1), -0.5 * (m[:, None] * m / r).sum(), (forces * apart).sum()


def attended(x: Any) -> Any:
    """Weighted sums, and the entropy of all weights."""
    scores = (x[:, None] * x).sum(-1)
    w = np.exp(scores - scores.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    return (w[..., None] * x).sum(1), -(w * np.log(w)).sum()


def nearest(x: Any) -> Any:
    """And the mean of all distances."""
    d = distances(x)
    return d.max(1), d.mean()


N, K = 30, 3
#: Coordinates; distances are written, and read again for columns and results; sums of rows are
#: written and read by the sum of all and by the results, that is written and read too.
CENTRED = 8 * (N * K + N * N + N + N + 1 + N * N + N + 1 + N * N)


@pytest.mark.parametrize("function", [double_centred, kernel_centred])
def test_planned_bytes_are_the_hand_count(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many distances are stored once and read once more; few stay in the cache."""
    spec, sizes = plan_of(function, np.ones((N, K)))
    assert ledger.ledger(spec, sizes).planned_bytes == 8 * (N * K + N * N)
    monkeypatch.setattr(nest_sequences, "ROW_CACHE_BYTES", 0)
    assert ledger.ledger(spec, sizes).planned_bytes == CENTRED
    groups = nest_sequences.apart(spec.plan).groups
    chains = [group.rows for group in groups if group.rows is not None]
    assert [chain.kept for chain in chains] == [()]
    assert [[axes for _, axes in chain.handed] for chain in chains] == [[(0,)]]


@pytest.mark.parametrize("function", [energies, attended, nearest])
def test_sums_of_all_beside_rows_are_made_by_rows(function: Any) -> None:
    """Nothing is stored, in one kernel; the results are NumPy's."""
    fused = fuser.fuse(function, fallback="error")
    for count, dtype in ((N, "float64"), (1, "float32"), (200, "float32")):
        x = np.random.default_rng(count).random((count, K)).astype(dtype)
        args = (x, x[:, 0] + 1) if function is energies else (x,)
        book = fused.explain(*args).ledger
        assert (book.kernels_fused, book.planned_bytes) == (1, book.least_bytes)
        found = fused(*args)
        loose = 1e-10 if dtype == "float64" else 1e-4
        for one, other in zip(found, function(*args), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=loose, atol=loose)


def test_blocks_are_as_small_as_what_is_handed_on() -> None:
    """Rows that are stored as well have to be near too."""
    spec, _ = plan_of(double_centred, np.ones((N, K)))
    held = spec.plan.held
    groups = nest_sequences.apart(spec.plan).groups
    group = next(group for group in groups if group.rows is not None)
    assert row_tiles.row_bytes(group.rows, held, {"n0": 5000, "n1": 3}) == 8 * 5000
    block = row_tiles.block_shape(group, held, {"n0": 5000, "n1": 3})
    assert block == (row_tiles.BLOCK_BYTES // 40000,)


@pytest.mark.parametrize("function", [double_centred, kernel_centred, sides])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 33, 200])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results(function: Any, length: int, dtype: str) -> None:
    """NumPy's, in turn through one function."""
    fused = fuser.fuse(function, fallback="allow")
    random = np.random.default_rng(length)
    loose = 1e-10 if dtype == "float64" else 1e-4
    for count in (length, 9, length):
        x = random.random((count, K)).astype(dtype)
        with np.errstate(all="ignore"):
            try:
                wanted = function(x)
            except ValueError:
                with pytest.raises(ValueError, match="zero-size"):
                    fused(x)
                continue
            found = fused(x)
        several = isinstance(wanted, tuple)
        for one, other in zip(found, wanted, strict=True) if several else [(found, wanted)]:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=loose, atol=loose)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0, 5e-324])
def test_edge_values(value: float) -> None:
    """Wherever they go."""
    x = np.random.default_rng(1).random((8, K))
    x[3, 1] = value
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(fuser.fuse(double_centred)(x), double_centred(x), atol=1e-12)


def test_only_what_is_computed_by_other_nests() -> None:
    """Of arguments, one nest makes sums of rows and of all; nothing changes there."""
    for function in (
        lambda x: (x.sum(1), x.sum()),
        lambda x: (lambda y: (y.sum(1), y.sum()))(x - x.mean(1, keepdims=True)),
        lambda x: (distances(x).sum(0), distances(x).sum()),
        lambda x: (distances(x), distances(x).sum()),
        lambda x: (distances(x).max(1), distances(x).max(0), distances(x).sum()),
        lambda x: (lambda y: (y.std(-1), y.mean(-1).sum()))(x[:, None] * x),
    ):
        graph = fuser.trace(function, np.ones((5, 4)))
        assert reuse(graph) is graph
    graph = fuser.trace(sides, np.ones((5, 4)))
    assert str(reuse(graph)) != str(graph)


def test_told_in_the_users_terms() -> None:
    """The pair that runs by turns, and the line of what is taken from rows."""
    told = fuser.fuse(double_centred, fallback="error").explain(np.ones((N, K)))
    table = told.candidates
    assert "same-rows" in set(table["verdict"])
    assert all("(test_row_reductions.py:" in name for name in {*table["second"]} - {"x"})
    assert "by turns on some rows" in str(told)
