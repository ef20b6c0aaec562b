"""Totals of few, long rows: every row is computed in parts, and notes its results."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import config
from tests.backends.cpu.long_rows import small_cache  # noqa: F401 - a fixture is found by its name
from tests.backends.cpu.reducing.test_epilogues import extent_of
from tests.backends.cpu.schedules import ONLINE_AWAITED

GENERATOR = np.random.default_rng(6)


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("rows", [1, 3, 70])
def test_rows_longer_than_the_cache(rows: int) -> None:
    """Merged from parts, whose results are noted for the totals; whatever the threads."""

    def losses(x: Any, y: Any) -> Any:
        m = x.max(-1, keepdims=True)
        rows = np.log(np.exp(x - m).sum(-1)) - x.var(-1)
        return rows.mean(), rows.min(), rows, x * y / (1 + x.var(-1, keepdims=True))

    fused = fuser.fuse(losses, fallback="error")
    x, y = GENERATOR.normal(size=(2, rows, 2 * 4096 + 300)).astype(np.float32)
    wanted = losses(x, y)
    found = set()
    for threads in (1, 2, 3):
        before = config.change(num_threads=threads)
        try:
            results = fused(x, y)
        finally:
            config.restore(before)
        found.add(b"".join(result.tobytes() for result in results))
        for one, other in zip(wanted, results, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    assert len(found) == 1
    assert extent_of(fused, x, y).schedule == ONLINE_AWAITED
