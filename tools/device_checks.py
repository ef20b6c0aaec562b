"""What `device_run.py` checks besides its workloads: calls of every kind, beside NumPy.

Each check gives whether its result was right, call by call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

ROWS = np.random.default_rng(5).normal(size=(67, 515)).astype(np.float32)


def _adam(weights: Any, mean: Any, square: Any, slope: Any, rate: float) -> None:
    mean *= 0.9
    mean += 0.1 * slope
    square *= 0.99
    square += 0.01 * slope * slope
    weights -= rate * mean / (np.sqrt(square) + 1e-8)


def _near(found: Any, wanted: Any) -> bool:
    """Whether all results have NumPy's dtype, shape and, nearly, values."""
    founds = found if isinstance(found, tuple) else (found,)
    wanteds = wanted if isinstance(wanted, tuple) else (wanted,)
    return len(founds) == len(wanteds) and all(
        (one.dtype, one.shape) == (np.asarray(other).dtype, np.shape(other))
        and np.allclose(one.get(), other, rtol=1e-4, atol=1e-5)
        for one, other in zip(founds, wanteds, strict=True)
    )


def _calls(function: Callable[..., Any], *arguments: Any) -> Callable[[], Iterator[bool]]:
    """The same call three times."""

    def check() -> Iterator[bool]:
        import cupy

        import fuser

        fused = fuser.fuse(function, fallback="allow")
        given = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        wanted = function(*arguments)
        for _ in range(3):
            yield _near(fused(*given), wanted)

    return check


def _given() -> Iterator[bool]:
    """Into another array, in place, and across an argument."""
    import cupy

    import fuser

    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    memory, y = cupy.asarray(ROWS.ravel()), cupy.asarray(ROWS.ravel()[:10_000])
    x, apart, across = memory[:10_000], memory[15_000:25_000], memory[5_000:15_000]
    for out in (apart, apart, x, x, across, across, apart):
        wanted = x.get() * 2 + y.get()
        yield fused(x, y, out=out) is out and _near(out, wanted)


def _updated() -> Iterator[bool]:
    """Several arguments are updated by one kernel."""
    import cupy

    import fuser

    wanted = [ROWS.copy(), ROWS * 0.5, ROWS * ROWS, ROWS[::-1].copy()]
    arrays = [cupy.asarray(array) for array in wanted]
    fused = fuser.fuse(_adam, fallback="error")
    for _ in range(3):
        fused(*arrays, 0.1)
        _adam(*wanted, 0.1)
        yield _near(tuple(arrays), tuple(wanted))


def _explained() -> Iterator[bool]:
    """A loss averaged over rows is two kernels, and said to be."""
    import cupy

    import fuser

    fused = fuser.fuse(lambda x: x.var(-1).mean(), fallback="error")
    x = cupy.asarray(ROWS)
    yield _near(fused(x), np.asarray(ROWS.var(-1).mean()))
    told = fused.explain(x)
    yield len(told.groups) == len(fused.source(x, kind="ptx")) == 2


#: name -> a check
CHECKS: dict[str, Callable[[], Iterator[bool]]] = {
    "given arrays": _given,
    "updated arrays": _updated,
    "totals": _explained,
    "numbers": _calls(lambda x, a, n: x * a + n, ROWS, 2.5, 3),
    "numpy's scalars": _calls(lambda x, a: x * a, ROWS, np.float32(0.3)),
    "a product between kernels": _calls(lambda x, y: np.tanh(x.T @ y) * 2, ROWS, ROWS),
    "sorting between kernels": _calls(lambda x: np.sort(x * 2, axis=1) + 1, ROWS),
    "indices": _calls(lambda x, i: x[i] * 2, ROWS, np.arange(0, 60, 7)),
    "views": _calls(lambda x: ((x + 1).T[1:], x * 2), ROWS),
    "float16": _calls(lambda x: (x * 2).astype(np.float32), ROWS.astype(np.float16)),
    "several reductions": _calls(lambda x: (x.max(0), x.argmax(1), x.sum()), ROWS),
    "a layout": _calls(lambda x, y: x[::-1, :514:2] * y[:, 1::2], ROWS, ROWS),
    "nothing": _calls(lambda x: (x + 1, x.sum(0)), ROWS[:0]),
}
