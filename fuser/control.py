"""What a process may do and has done: devices switched on and off, threads, counters, caches."""

from __future__ import annotations

import sys

import numpy as np

from fuser import kernel_cache
from fuser.backend import available, available_backends, get_backend
from fuser.base import caches, config, counters
from fuser.base.errors import ArgumentError


def can_fuse_on_cpu() -> bool:
    """Whether calls with NumPy arrays are fused."""
    return config.current().can_fuse.get("cpu", True) and available("cpu") is None


def can_fuse_on_gpu() -> bool:
    """Whether calls with CuPy arrays are fused."""
    return config.current().can_fuse.get("gpu", True) and available("gpu") is None


def _override(backend: str, flag: bool) -> None:
    """Switch fusing on or off for one backend."""
    if not isinstance(flag, (bool, np.bool_)):
        raise ArgumentError(f"override_can_fuse_on_{backend} takes True or False, found {flag!r}")
    settings = dict(config.current().can_fuse)
    settings[backend] = bool(flag)
    config.change(can_fuse=settings)


def override_can_fuse_on_cpu(flag: bool) -> None:
    """Switch fusing of NumPy calls on or off.

    Args:
        flag: False: calls run in NumPy, with the reason counted.

    Raises:
        ArgumentError: the flag is neither True nor False.
    """
    _override("cpu", flag)


def override_can_fuse_on_gpu(flag: bool) -> None:
    """Switch fusing of CuPy calls on or off.

    Args:
        flag: as of `override_can_fuse_on_cpu`.
    """
    _override("gpu", flag)


def n_compiled_kernels() -> int:
    """How many kernels have been compiled in this process."""
    return counters.value("kernels")


def debug_num_cached_kernel_specs() -> int:
    """How many specs are cached."""
    return kernel_cache.count()


def stats() -> dict[str, int]:
    """Counters: specs, kernels, launches, fallbacks, and `fallback.<reason>` for each reason."""
    return {"cached_specs": kernel_cache.count(), **counters.snapshot()}


def clear_caches() -> None:
    """Forget specs, kernels and specialisations, and empty the pool of large results.

    What is emptied is listed in `fuser.base.caches`; code on disk stays (`fuser-bench cache`).

    Calls that run now finish undisturbed.
    """
    caches.clear()


def show_config() -> str:
    """Print and return versions, switches, backends and what the processor can do."""
    import platform

    lines = [
        f"python      {platform.python_version()} ({platform.system()} {platform.machine()})",
        f"numpy       {np.__version__}",
    ]
    for name, reason in available_backends().items():
        lines.append(f"backend     {name}: {'ready' if reason is None else reason}")
    if available("cpu") is None:
        import llvmlite

        lines.insert(2, f"llvmlite    {llvmlite.__version__}")
        lines.append(f"cpu         {get_backend('cpu').features}")  # type: ignore[attr-defined]
    lines.append(f"settings    {config.current()}")
    lines.append(f"cached      {kernel_cache.count()} specs, {n_compiled_kernels()} kernels")
    lines += [f"cache       {each.name}: {each.limit}" for each in caches.CACHES]
    text = "\n".join(lines)
    sys.stdout.write(text + "\n")
    return text


def get_num_threads() -> int:
    """How many threads a CPU kernel may use.

    That is what `set_num_threads` was given, else FUSER_NUM_THREADS, else OMP_NUM_THREADS, else the
    processors that this process may run on. Short work is done by fewer.
    """
    return get_backend("cpu").threads


def set_num_threads(count: int) -> None:
    """Let CPU kernels use this many threads, 256 at most.

    Raises:
        ArgumentError: `count` is not a positive integer.
    """
    if type(count) is not int or count < 1:
        raise ArgumentError(f"set_num_threads takes a positive integer, found {count!r}")
    config.change(num_threads=count)
