"""What `device_run.py` measures: workloads, the ways to run each, and how calls are timed."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Formula = Callable[..., Any]


def axpy(np_like: Any, x: Any, y: Any) -> Any:
    """Two reads, one write."""
    return 2.5 * x + y


def gelu(np_like: Any, x: Any) -> Any:
    """One read, one write, a costly function between."""
    return 0.5 * x * (1.0 + np_like.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softmax(np_like: Any, x: Any) -> Any:
    """Rows: kept between three passes."""
    e = np_like.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(np_like: Any, x: Any) -> Any:
    """Rows: two reductions, one after the other."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np_like.sqrt(variance + 1e-5)


def rms_norm(np_like: Any, x: Any) -> Any:
    """Rows: one reduction."""
    return x / np_like.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def total(np_like: Any, x: Any) -> Any:
    """Everything into one number."""
    return (x * x).sum()


def column_means(np_like: Any, x: Any) -> Any:
    """Down columns."""
    return x.mean(axis=0)


#: name -> formula, number of inputs, bytes moved for each element (float32), whether by rows
WORKLOADS: dict[str, tuple[Formula, int, int, bool]] = {
    "axpy": (axpy, 2, 12, False),
    "gelu": (gelu, 1, 8, False),
    "softmax": (softmax, 1, 8, True),
    "layer_norm": (layer_norm, 1, 8, True),
    "rms_norm": (rms_norm, 1, 8, True),
    "total": (total, 1, 4, False),
    "column_means": (column_means, 1, 4, True),
}
#: A copy of so much takes a device some 100 us and more: the host enqueues a call meanwhile.
BUSY_BYTES = 1 << 28
HIDDEN = (768, 4096, 16_384, 65_536)
#: Ways that take seconds to compile each workload.
COSTLY = ("jax", "torch.compile")
#: Workloads without reductions: cupy.fuse takes these.
POINTWISE = ("axpy", "gelu")

_RAW = {
    "axpy": (r"""
extern "C" __global__ void axpy(const float4* x, const float4* y, float4* out, long long n) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {
        float4 a = x[i], b = y[i];
        b.x += 2.5f * a.x; b.y += 2.5f * a.y; b.z += 2.5f * a.z; b.w += 2.5f * a.w;
        out[i] = b;
    }
}"""),
    "gelu": (r"""
__device__ float one(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
extern "C" __global__ void gelu(const float4* x, float4* out, long long n) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {
        float4 a = x[i];
        a.x = one(a.x); a.y = one(a.y); a.z = one(a.z); a.w = one(a.w);
        out[i] = a;
    }
}"""),
}  # fmt: skip


def inputs(shape: tuple[int, ...], count: int, seed: int = 0) -> list[Any]:
    """Random numbers on the device: a few, repeated there."""
    import cupy

    random = np.random.default_rng(seed)
    size = int(np.prod(shape))
    few = cupy.asarray(random.normal(size=min(size, 1 << 22)).astype(np.float32))
    repeated = [cupy.tile(few, -(-size // few.size))[:size] for _ in range(count)]
    return [array.reshape(shape) for array in repeated]


@functools.cache
def fused(name: str) -> Any:
    """A workload as a fused function."""
    import fuser

    return fuser.fuse(functools.partial(WORKLOADS[name][0], np), fallback="error")


def ways(name: str) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Each way to run a workload, made only when it is its turn: the costly ones last."""
    import cupy

    formula = WORKLOADS[name][0]
    yield "fuser", lambda: fused(name)
    yield "eager", lambda: functools.partial(formula, cupy)
    if name in POINTWISE:
        yield "cupy.fuse", lambda: cupy.fuse()(functools.partial(formula, cupy))
        yield "raw", lambda: raw(name)
    yield "jax", lambda: _jax(name)
    yield "torch.compile", lambda: _torch(name)


def raw(name: str, given: Any = None) -> Callable[..., Any]:
    """A kernel as one writes it by hand, into a new array or a given one."""
    import cupy

    kernel = cupy.RawKernel(_RAW[name], name)
    blocks = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"]

    def run(*arrays: Any) -> Any:
        out = cupy.empty_like(arrays[0]) if given is None else given
        kernel((blocks,), (256,), (*arrays, out, np.int64(out.size // 4)))
        return out

    return run


def _jax(name: str) -> Callable[..., Any]:
    """jax.jit on the same memory, through DLPack; it has streams of its own."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    compiled = jax.jit(functools.partial(WORKLOADS[name][0], jax.numpy))
    seen: dict[int, Any] = {}

    def run(*arrays: Any) -> Any:
        taken = [seen.get(a.data.ptr) for a in arrays]
        if any(array is None for array in taken):
            taken = [jax.dlpack.from_dlpack(a) for a in arrays]
            seen.update((a.data.ptr, t) for a, t in zip(arrays, taken, strict=True))
        return compiled(*taken)

    run.wait = jax.block_until_ready  # type: ignore[attr-defined]
    return run


def _torch(name: str) -> Callable[..., Any]:
    """torch.compile on the same memory, through DLPack, on CuPy's stream."""
    import cupy
    import torch

    formula = _TORCH.get(name) or functools.partial(WORKLOADS[name][0], torch)
    compiled = torch.compile(formula, dynamic=False)
    seen: dict[int, Any] = {}

    def run(*arrays: Any) -> Any:
        tensors = [seen.get(a.data.ptr) for a in arrays]
        if any(tensor is None for tensor in tensors):
            tensors = [torch.from_dlpack(a) for a in arrays]
            seen.update((a.data.ptr, t) for a, t in zip(arrays, tensors, strict=True))
        stream = torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)
        with torch.no_grad(), torch.cuda.stream(stream):
            return compiled(*tensors)

    return run


def _torch_layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()


#: What torch's arrays spell otherwise.
_TORCH: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": _torch_layer_norm,
    "rms_norm": lambda x: x / ((x * x).mean(-1, keepdim=True) + 1e-5).sqrt(),
    "column_means": lambda x: x.mean(0),
}


def event_times_ms(run: Callable[..., Any], sets: list[list[Any]], limit_s: float) -> list[float]:
    """Milliseconds of single calls between two events on CuPy's stream; inputs are rotated.

    A copy keeps the device busy while the host enqueues, so that Python's time is not in between.

    Each set of inputs is larger than the L2 cache, so one set after another is the cold case;
    one small set again and again is the hot one.
    """
    import cupy

    for arrays in sets[:2]:
        run(*arrays)
    busy = cupy.empty(BUSY_BYTES, np.uint8), cupy.empty(BUSY_BYTES, np.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    found: list[float] = []
    end = time.monotonic() + limit_s
    while len(found) < 100 and (len(found) < 10 or time.monotonic() < end):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.copyto(*busy)
        first.record()
        run(*sets[len(found) % len(sets)])
        last.record()
        last.synchronize()
        found.append(float(cupy.cuda.get_elapsed_time(first, last)))
    return found


def batch_times_ms(
    runs: Mapping[str, Callable[..., Any]], sets: list[list[Any]], limit_s: float, calls: int = 20
) -> dict[str, list[float]]:
    """Milliseconds a call by the host's clock over several calls, until the last is done, by way.

    The only fair clock for libraries with streams of their own; everything is measured by it, all
    ways in turns, so that a drift of the device meets all of them.
    """
    import cupy

    def wait(run: Any, result: Any) -> None:
        done = getattr(run, "wait", lambda result: cupy.cuda.runtime.deviceSynchronize())
        done(result)

    for run in runs.values():
        wait(run, run(*sets[0]))
    found: dict[str, list[float]] = {way: [] for way in runs}
    end, rounds = time.monotonic() + limit_s * len(runs), 0
    while rounds < 30 and (rounds < 5 or time.monotonic() < end):
        rounds += 1
        for way, run in runs.items():
            begin, result = time.perf_counter(), None
            for call in range(calls):
                result = run(*sets[call % len(sets)])
            wait(run, result)
            found[way].append((time.perf_counter() - begin) / calls * 1e3)
    return found
