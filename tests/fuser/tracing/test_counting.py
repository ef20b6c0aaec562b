"""Makers of counted arrays inside fused functions: NumPy's results, for every length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser

LENGTHS = (33, 64, 7, 1, 0, 2, 100)
SHAPES = ((33, 65), (8, 3), (64, 64), (1, 4), (4, 1), (0, 3), (1000, 3))


def _upper(x: Any) -> Any:
    """Rows and columns as arrays of x's shape."""
    row, column = np.indices(x.shape)
    return x * (row <= column) + row * 2


VECTORS: dict[str, Callable[[Any], Any]] = {
    "times": lambda x: x * np.arange(x.shape[0]),
    "single": lambda x: x * np.arange(x.shape[0], dtype=np.float32),
    "alone": lambda x: np.arange(x.shape[0]),
    "wraps": lambda x: np.arange(x.shape[0] * 3, dtype=np.int8) + np.int8(1),
    "from-one": lambda x: x / np.arange(1, x.shape[0] + 1),
    "steps": lambda x: np.arange(3, x.shape[0], 2) * 2.0,
    "down": lambda x: np.arange(x.shape[0] - 1, -1, -1) * x,
    "down-by-three": lambda x: np.arange(x.shape[0], 0, -3) + 1,
    "power": lambda x: 2 ** (x.shape[0] - 1 - np.arange(x.shape[0])),
    "sliced": lambda x: x[1:] * np.arange(x.shape[0])[1:] + np.arange(x.shape[0])[::-1][:-1],
    "written": lambda x: np.add(np.arange(x.shape[0]), 1, dtype=np.float64) + x,
    "linspace": lambda x: x * np.linspace(0, 1, x.shape[0]),
    "linspace-open": lambda x: np.linspace(-2.5, 7, x.shape[0], endpoint=False),
    "linspace-flat": lambda x: np.linspace(3.0, 3.0, x.shape[0]) + x,
    "total": lambda x: np.arange(x.shape[0]).sum(),
}
TABLES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x * np.arange(x.shape[0])[:, None],
    "columns": lambda x: (x + np.arange(x.shape[-1])).T * 2,
    "transposed": lambda x: x.T + np.arange(x.shape[0]),
    "linspace": lambda x: np.linspace(3, -1, x.shape[1], dtype=np.float32) + x,
    "indices": _upper,
    "tri": lambda x: x * np.tri(x.shape[0], x.shape[1], 1),
    "eye": lambda x: x + np.eye(*x.shape, k=-1, dtype=x.dtype),
    "identity": lambda x: np.identity(x.shape[1], np.float32) * x.shape[0],
    "row-sums": lambda x: (np.floor(x) * np.arange(x.shape[1])).sum(axis=1),
    "column-sums": lambda x: (np.floor(x) * np.arange(x.shape[0])[:, None]).sum(axis=0),
    "places": lambda x: (np.arange(x.shape[1]) * 5 % 7 + 0 * (x > 2)).sum(axis=0),
    "reshaped": lambda x: x + np.arange(x.shape[0] * x.shape[1]).reshape(x.shape),
    "copied": lambda x: x.reshape(-1) + np.arange(x.size).reshape(x.shape).T.reshape(-1),
    "backwards": lambda x: x[:, ::-1] + np.arange(x.shape[1])[::-1],
}
CASES = [
    pytest.param(function, sizes, id=name)
    for cases, sizes in ((VECTORS, LENGTHS), (TABLES, SHAPES))
    for name, function in cases.items()
]


@pytest.mark.parametrize(("function", "sizes"), CASES)
def test_counted_arrays_are_numpys(function: Callable[[Any], Any], sizes: Any) -> None:
    """Bit by bit, called once, again and natively; no length has a kernel of its own."""
    fused = fuser.fuse(function, fallback="error")
    random = np.random.default_rng(3)
    compiled = 0
    for place, size in enumerate(sizes):
        x = random.uniform(0, 10, size)
        want = function(x)
        for _ in range(3):
            found = fused(x)
            assert (found.dtype, np.shape(found)) == (want.dtype, np.shape(want))
            assert found.tobytes() == want.tobytes()
        if place == 2:
            compiled = fuser.n_compiled_kernels()
        elif place > 2 and min(np.shape(x)) > 1:
            assert fuser.n_compiled_kernels() <= compiled + 3  # patterns with ones in between
            compiled = max(compiled, fuser.n_compiled_kernels())
    assert len(fused.explain(x).groups) == 1


@pytest.mark.parametrize("shape", [(400_000,), (3, 100_000), (100_000, 3), (2, 300, 700)])
def test_places_of_long_rows_and_columns(shape: tuple[int, ...]) -> None:
    """Reductions in parts and on threads, and streamed results, count on from where they begin."""

    def function(x: Any) -> Any:
        place = np.arange(x.shape[-1])
        total = (x * place).sum(axis=-1), (x * place).sum(axis=0), (x * place).max()
        return *total, x * place, x + np.arange(x.shape[0])[(...,) + (None,) * (x.ndim - 1)]

    x = np.random.default_rng(5).integers(0, 9, shape)
    fused = fuser.fuse(function, fallback="error")
    for _ in range(2):
        for found, want in zip(fused(x), function(x), strict=True):
            np.testing.assert_array_equal(found, want)


def test_one_kernel_reads_no_memory_for_places() -> None:
    """Positions cost no bytes, and a plan says what they are."""
    x = np.ones((5, 6))
    explained = fuser.fuse(lambda x: x * np.arange(x.shape[1])).explain(x)
    assert explained.ledger.planned_bytes == 2 * x.nbytes
    assert "positions(n1)" in str(explained)


def test_graphs_with_positions_have_text() -> None:
    """And read back; the fallback and each operation alone mean the same."""
    x = np.linspace(0, 3, 20).reshape(4, 5)

    def function(v: Any) -> Any:
        return v * np.arange(v.shape[0])[:, None]

    graph = fuser.trace(function, x)
    assert "positions{n0}" in str(graph)
    assert fuser.parse(str(graph)) == graph
    for mode in ("unfused", "fallback"):
        np.testing.assert_array_equal(fuser.fuse(function, mode=mode)(x), function(x))


def test_other_arguments_are_numpys_own() -> None:
    """Numbers that are no lengths, steps that are no integers: as before."""

    def function(x: Any, start: Any) -> Any:
        return x[0] + np.arange(start, start + 4, dtype="float32") + np.arange(0, 1, 0.25).sum()

    fused = fuser.fuse(function, fallback="allow")
    for start in (1, 2.5):
        x = np.ones(3)
        np.testing.assert_array_equal(fused(x, start), function(x, start))
    uneven = fuser.fuse(lambda x: np.arange(0, x.shape[0], 0.5) + x[0], fallback="allow")
    np.testing.assert_array_equal(uneven(np.ones(5)), np.arange(0, 5, 0.5) + 1)
    single = fuser.fuse(lambda x: np.arange(1, x.shape[0], dtype="f4") + x[1:], fallback="allow")
    np.testing.assert_array_equal(single(np.ones(5)), np.arange(1, 5, dtype="f4") + 1)


def test_unpacking_needs_a_known_or_small_length() -> None:
    """Parts along an axis that a trace knows; others are control flow on lengths."""
    stacked = fuser.fuse(lambda x: sum(np.stack([x, x * 2])), fallback="error")
    np.testing.assert_array_equal(stacked(np.ones(3)), np.full(3, 3.0))
    with pytest.raises(fuser.FusionError, match="iteration"):
        fuser.fuse(lambda x: sum(x), fallback="error")(np.ones(7))


def _distance(points: Any) -> Any:
    x, y, z = points.T
    return np.sqrt(x * x + y * y + z * z)


def test_points_are_unpacked_into_coordinates() -> None:
    """One kernel whatever their number; other dimensions are Python's own error."""
    fused = fuser.fuse(_distance, fallback="error")
    rng = np.random.default_rng(3)
    fused(rng.random((4, 3)))
    before = fuser.stats()["kernels"]
    for number in (5, 300, 3, 2, 7):
        points = rng.random((number, 3))
        np.testing.assert_array_equal(fused(points), _distance(points))
    assert fuser.stats()["kernels"] == before
    assert fused(np.empty((0, 3))).shape == (0,)
    for wrong in (np.ones((5, 4)), np.ones((5, 2)), np.ones(5), np.ones((9, 9))):
        with pytest.raises(ValueError, match="values to unpack"):
            fused(wrong)
    np.testing.assert_array_equal(fused(points), _distance(points))


def test_small_arrays_are_iterated_as_numpy_does() -> None:
    """Entries of one dimension are NumPy's scalars; long arrays are gone over as ranges are."""

    def total(rows: Any) -> Any:
        result = 0
        for row in rows:
            result = result + row * 2
        return result

    fused = fuser.fuse(total, fallback="allow")
    for length in (5, 3, 1, 0, 6, 7, 40, 3, 0, 2, 1):
        for shape in ((length,), (length, 9), (length, 1)):
            values = np.linspace(-1, 1, length * shape[-1] if len(shape) > 1 else length)
            found, wanted = fused(values.reshape(shape)), total(values.reshape(shape))
            np.testing.assert_array_equal(found, wanted)
            assert type(found) is type(wanted)
    assert {reason.code for reason in fused.fallbacks} <= {"no-gain"}
