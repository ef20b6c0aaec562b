"""What programs, loops, decisions, element loops, Dask and tune do with CuPy's arrays.

The table of docs/gpu.md, row by row, over the double: right results, the number of launches of a
call that is known, and the reason where there is no form.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import BackendError
from tests.backends.gpu import fake_arrays, fake_cupy

cupy = fake_cupy.for_a_file()

X = np.random.default_rng(2).normal(size=(40, 30))


def _fixed(x: Any) -> Any:
    for _ in range(5):
        x = x * 0.5 + 1
    return x


def _counted(x: Any, n: int) -> Any:
    for _ in range(n):
        x = np.sin(x) * 0.5 + 1
    return x


def _rows(x: Any) -> Any:
    total = np.zeros(x.shape[1])
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k]
    return total


def _until(x: Any) -> Any:
    while x.max() > 0.1:
        x = x * 0.5
    return x


def _elements(x: Any) -> Any:
    for i in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                x[i, j] = x[i - 1, j] * 0.5
    return x


def _counted_places(x: Any) -> Any:
    place = (x[:, 0] * 0).astype(np.int64)
    return np.bincount(place, weights=x[:, 1], minlength=3) + 1


#: row of the table -> (function, arguments, launches of a known call, codes of reasons)
FORMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int | None, set[str]]] = {
    "unrolled loop": (_fixed, (X,), 1, set()),
    "loop region": (_counted, (X, 7), 7, set()),
    "loop region with an index": (_rows, (X,), 41, set()),
    "decision": (_until, (np.abs(X),), None, set()),
    "opaque call": (lambda x: np.sort(x * 2, axis=0) + 1, (X,), 2, {"unsupported-function"}),
    "product of matrices": (lambda x: np.tanh(x @ x.T) + 1, (X,), 1, {"unsupported-function"}),
    "mask": (lambda x: x[x > 0].sum(), (X,), 1, set()),
    "gather": (lambda x, k: x[k] * 2, (X, np.array([3, 0, -1])), 1, set()),
    "nested axes": (lambda x: (x.reshape(4, 10, 30) * 2).sum(axis=(0, 2)), (X,), 1, set()),
    "row tiles": (lambda x: x.var(-1).mean(), (X,), 2, set()),
    "transpose": (lambda x: x[:30] + x[:30].T, (X,), 1, set()),
    "scan": (lambda x: np.cumsum(x * 2, axis=0) + 1, (X,), 2, {"unsupported-argument"}),
    "scatter": (_counted_places, (X,), 2, {"unsupported-argument"}),
    "element loop": (_elements, (X[:12, :9].copy(),), 11 * 9, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms(cupy: Any, name: str) -> None:
    """Three calls: the first, one that is looked up, and a short one where there is one."""
    function, arguments, launches, codes = FORMS[name]
    fused = fuser.fuse(function, fallback="allow")
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(4)]
    wanted = function(*copies[0])
    for own in copies[1:]:
        given = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in own]
        before = fuser.stats().get("launches", 0)
        found = fused(*given)
        launched = fuser.stats().get("launches", 0) - before
        assert type(found) is cupy.ndarray
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-12, atol=1e-12)
    if launches is not None:
        assert launched == launches
    assert {reason.code for reason in fused.fallbacks} <= codes


@pytest.mark.parametrize("name", ["decision", "gather", "element loop"])
def test_what_waits_cannot_be_captured(cupy: Any, name: str) -> None:
    """It is an error that says so; nothing of the call is in the graph."""
    function, arguments, *_ = FORMS[name]
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2):
        fused(*[cupy.asarray(a) for a in arguments])
    given = [cupy.asarray(a) for a in arguments]
    fake_arrays.settle()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        try:
            with pytest.raises((BackendError, fake_arrays.CUDARuntimeError), match="apture"):
                fused(*given)
        finally:
            stream.end_capture()


def test_dask_runs_chunks_of_cupy_itself(cupy: Any) -> None:
    """With the reason."""
    dask = pytest.importorskip("dask.array", reason="not installed: pip install dask")
    fused = fuser.fuse(lambda x: np.exp(x) * 2, fallback="allow")
    found = fused(dask.from_array(cupy.asarray(X), chunks=(20, 30), asarray=False))
    made = found.compute(scheduler="sync")
    assert type(made) is cupy.ndarray
    np.testing.assert_allclose(made.get(), np.exp(X) * 2, rtol=1e-12)
    assert [reason.code for reason in fused.fallbacks] == ["lazy-array"]


def test_tune_has_nothing_to_choose(cupy: Any) -> None:
    """A nest has one launch plan, its schedule, for each length: it says so."""
    fused = fuser.fuse(lambda x: x * 2 + 1, fallback="error")
    assert "no loop nest" in str(fuser.tune(fused, cupy.asarray(X)))


def test_the_table_has_these_rows() -> None:
    """docs/gpu.md says what is tested here."""
    page = (Path(__file__).parents[3] / "docs/gpu.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert {*FORMS, "Dask", "schedule", "tune", "random numbers"} <= set(rows)
