"""Parts of long rows that nobody waits for: NumPy's results, the same bits on every thread."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import costs
from fuser.backends.cpu.reducing import nest_views
from fuser.backends.cpu.schedule import DEFAULT
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.schedules import AWAITED, JOINED

GENERATOR = np.random.default_rng(31)
CASES: dict[str, Any] = {
    "dot": (lambda x, y: np.dot(x, y), 2),
    "sum and elements": (lambda x: (x * 2, np.sum(x * 2)), 1),
    "range": (lambda x: np.max(x) - np.min(x), 1),
    "place": (lambda x: (np.argmax(x), np.argmin(x)), 1),
    "root": (lambda x: np.sqrt(np.sum(x * x)), 1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str, dtype: str) -> None:
    """Whole and uneven parts, called again and again on one thread and on three."""
    plain, count = CASES[name]
    for length in (1 << 16, 200_003):
        arguments = [(GENERATOR.normal(size=length) * 40).astype(dtype) for _ in range(count)]
        wide = [a.astype("float64") if dtype == "float32" else a for a in arguments]
        parts = same_parts(fuser.fuse(plain, fallback="error"), *arguments, calls=8)
        expected = plain(*wide)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for mine, theirs in zip(parts, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1)


def test_nan_is_kept() -> None:
    """In whichever part it is."""
    total, largest = fuser.fuse(lambda x: np.sum(x)), fuser.fuse(lambda x: np.argmax(x))
    for place in (0, 70_000, 199_999):
        x = np.ones(200_000)
        x[place] = np.nan
        assert np.isnan(total(x))
        assert largest(x) == place


def test_which_nests() -> None:
    """One stage only; then chunks need no order."""
    load, store = TensorDesc("float64", CONTIGUOUS), TensorDesc("float64", INVARIANT)
    body = (Instruction("sum", (0,), "float64", "float64"),)
    nest = LoopNest(1, (load,), (), (), body, ((1, store),), False, "row", 1)
    assert nest_views.can_be_joined(nest)
    words, extent = lay_out(nest, (1 << 17,))
    assert extent.schedule == JOINED
    assert extent.outer == words[0]
    assert costs.counts_parts(extent)
    assert not costs.in_order(extent)
    assert costs.in_order(extent._replace(schedule=AWAITED))
    assert not costs.in_order(extent._replace(schedule=DEFAULT))
