"""What `device_run.py` checks besides its workloads: calls of every kind, beside NumPy.

Each check gives whether its result was right, call by call.
"""

from __future__ import annotations

import contextlib
import importlib.util
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


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _batch_norm(x: Any) -> Any:
    x = x.reshape(8, -1, 4, x.shape[-1])
    return (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1)


#: name -> (function, shapes): even rows and odd ones of each way to lay a nest over threads
VARIANTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, int], ...]]] = {
    "map": (lambda x: x * 2 + x[:1], ((64, 512), (65, 515))),
    "held by lanes": (_softmax, ((640, 96), (641, 67))),
    "held by a block": (_softmax, ((64, 4096), (65, 4099))),
    "tail": (_softmax, ((512, 36_864), (513, 36_867))),
    "long": (_softmax, ((1, 1 << 20), (2, (1 << 20) + 3))),
    "split": (lambda x: x.sum(), ((256, 4096), (257, 4099))),
    "columns": (lambda x: x.mean(0) + x.max(0), ((515, 512), (67, 515))),
    "split columns": (lambda x: x.sum(0), ((20_000, 64), (20_001, 67))),
    "axes apart": (_batch_norm, ((640, 32), (672, 33))),
    "places": (lambda x: (x.argmax(-1), x.argmin(0)), ((64, 512), (65, 515))),
    "tiles": (lambda x: x[:, :64] + x[:64, :64].T, ((64, 512), (64, 515))),
    "shared by a cluster": (_softmax, ((512, 36_864), (513, 36_867))),
    "copied ahead": (_softmax, ((2048, 4096), (2049, 4096))),
}
#: Those that are off by themselves -> the constant of `reduction_plan` that switches them on.
SWITCHED = {"shared by a cluster": "CLUSTERS", "copied ahead": "AHEAD"}


@contextlib.contextmanager
def _switched(name: str | None) -> Iterator[None]:
    """Have a constant on; no plan from before is used."""
    import fuser
    from fuser.backends.gpu import reduction_plan

    if name is None:
        yield
        return
    fuser.clear_caches()
    setattr(reduction_plan, name, True)
    try:
        yield
    finally:
        setattr(reduction_plan, name, False)
        fuser.clear_caches()



def variant_checks(most: int = 1 << 31) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each variant and dtype: its name, and what was found.

    Args:
        most: elements of an array; larger ones are left out.
    """
    import cupy

    import fuser

    random, dtypes = np.random.default_rng(9), ["float16", "float32", "float64"]
    if importlib.util.find_spec("ml_dtypes") and hasattr(cupy, "from_dlpack"):
        dtypes.append("bfloat16")
    for name, (function, shapes) in VARIANTS.items():
        for shape in shapes:
            if shape[0] * shape[1] > most:
                continue
            values = random.normal(size=shape).astype(np.float32)
            for dtype in dtypes:
                try:
                    with _switched(SWITCHED.get(name)):
                        fused = fuser.fuse(function, fallback="error")
                        found = _three_times(fused, function, values, dtype)
                except Exception as error:  # noqa: BLE001 - the others may tell something
                    known = dtype != "bfloat16"  # which older versions of CuPy have not
                    found = {"error": repr(error)[:300], **({"right": False} if known else {})}
                yield f"{name} {shape[0]}x{shape[1]}", dtype, found


#: Of results: sums of 16-bit numbers are of numbers that were rounded.
_NEAR = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-4, "float64": 1e-11}


def _three_times(fused: Any, function: Any, values: Any, dtype: str) -> dict[str, Any]:
    """Call three times while the pool's memory is full of NaN: the same bits, NumPy's values."""
    import cupy

    if dtype == "bfloat16":
        import ml_dtypes

        given = values.astype(ml_dtypes.bfloat16)
    else:
        given = values.astype(dtype)
    x, bits = cupy.asarray(given), set()
    wanted = function(given.astype(np.float64))
    wanteds = wanted if isinstance(wanted, tuple) else (wanted,)
    error = 0.0
    for _ in range(3):
        junk = [cupy.full(max(512, x.nbytes >> k), 0xFF, np.uint8) for k in (0, 1, 4, 8, 20)]
        del junk
        found = fused(x)
        founds = [one.get() for one in (found if isinstance(found, tuple) else (found,))]
        bits.add(b"".join(one.tobytes() for one in founds))
        for one, other in zip(founds, wanteds, strict=True):
            if one.dtype.kind in "iu":  # a place: what lies there is what matters
                continue
            off = np.abs(one.astype(np.float64) - other) / (np.abs(other) + 1)
            error = max(error, float(np.max(np.where(np.isnan(off), np.inf, off))))
    return {"relative_error": error, "same_bits": len(bits) == 1,
            "right": len(bits) == 1 and error <= _NEAR[dtype]}  # fmt: skip
