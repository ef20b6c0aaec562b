"""Dask: a workload on chunks, eagerly, with the fuser in two ways, and with numba in `map_blocks`.

Arguments are Dask arrays of `CHUNK_BYTES` a chunk: vectors read from an uncompressed Zarr store,
others in memory. What is timed makes the graph, optimises it and computes all chunks, by Dask's
threads; results stay in chunks (`persist`), so that nobody's time has the copy that joins them.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np

from fuser.suites import details
from fuser.suites.peers.dask_loops import FORMS, OVERLAPPING, with_neighbours
from fuser.suites.peers.numba_runner import FASTMATH
from fuser.suites.runners import Facts, FuserRunner, NotExpressibleError, Runner
from fuser.suites.workload import Arguments

CHUNK_BYTES = 8 << 20
"""Larger than a core's caches, and some chunks for each of a machine's cores."""


class DaskRunner(Runner):
    """The workload's function on Dask arrays, as Dask itself runs it."""

    name: ClassVar[str] = "dask"
    needs: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"dask": "'fuser-bench[dask]'", "zarr": "zarr"}
    )
    fuses: ClassVar[bool] = False
    description: ClassVar[str] = "the function on Dask arrays: NumPy, one operation at a time"

    def unavailable(self) -> str | None:
        """Return what to install, or why the fuser cannot run where it is asked for, or None."""
        found = super().unavailable()
        return found or (FuserRunner().unavailable() if self.fuses else None)

    def lazily(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what gives lazy Dask arrays of Dask arrays.

        Args:
            function: of the workload.
        """
        return with_neighbours(function) if function.__name__ in OVERLAPPING else function

    def optimised(self) -> AbstractContextManager[Any]:
        """Surround what optimises graphs."""
        return nullcontext()

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return what makes the graph and computes its chunks."""
        return Computed(self.lazily(function), self.optimised)

    def accept(self, arguments: Arguments) -> Arguments:
        """Return Dask arrays of the arrays, in chunks."""
        import dask
        import dask.array as da

        with dask.config.set({"array.chunk-size": CHUNK_BYTES}):
            return tuple(
                each if not isinstance(each, np.ndarray)
                else _stored(each) if each.ndim == 1
                else da.from_array(each, chunks="auto")
                for each in arguments
            )  # fmt: skip

    def fetch(self, result: Any) -> Any:
        """Return whole arrays of those in chunks."""
        import dask

        return dask.compute(result, scheduler="sync")[0]  # a copy, which waits for no thread

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return the tasks of a call, the bytes that they hand to one another, and the memory."""
        given = self.accept(arguments)
        with self.optimised():
            tasks, handed_bytes = counted(cast(Computed, prepared).lazily(*given))
        return Facts(
            peak_bytes=details.peak_bytes(prepared, given), tasks=tasks, handed_bytes=handed_bytes
        )


@dataclass(frozen=True)
class Computed:
    """What is timed.

    Attributes:
        lazily: gives lazy Dask arrays of Dask arrays.
        optimised: surrounds what optimises their graph.
    """

    lazily: Callable[..., Any]
    optimised: Callable[[], AbstractContextManager[Any]]

    def __call__(self, *given: Any) -> Any:
        """Make the graph, and compute its chunks."""
        import dask

        with self.optimised():
            return dask.persist(self.lazily(*given), scheduler="threads")[0]


class DaskFusedRunner(DaskRunner):
    """The workload as a fused function that is called with Dask arrays."""

    name = "dask_fused"
    fuses = True
    description = "a fused function of Dask arrays: one kernel a chunk between what crosses chunks"

    def lazily(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the fused function, with nothing cached from earlier ones."""
        import fuser

        fuser.clear_caches()
        return fuser.fuse(function, fallback="allow")


class DaskOptimizedRunner(DaskRunner):
    """The workload as it is, with the optimisation of Dask's graphs."""

    name = "dask_optimized"
    fuses = True
    description = "the function on Dask arrays, inside of fuser.dask.fused()"

    def optimised(self) -> AbstractContextManager[Any]:
        """Surround with the optimisation."""
        import fuser

        return cast(AbstractContextManager[Any], fuser.dask.fused())


class DaskNumbaRunner(DaskRunner):
    """Loops written by hand for chunks, compiled by numba."""

    name = "dask_numba"
    needs = MappingProxyType({**DaskRunner.needs, "numba": "numba"})
    description = "loops by hand for numba.njit, fastmath, in Dask's map_blocks and map_overlap"
    typical_first_call_s = 2.0

    def lazily(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the form by hand; what it compiles is compiled by the first call.

        Raises:
            NotExpressibleError: there is none.
        """
        import numba

        if (form := FORMS.get(function.__name__)) is None:
            raise NotExpressibleError("no loops were written for its chunks")
        compiled = numba.njit(nogil=True, fastmath=set(FASTMATH), error_model="numpy")
        return form(compiled)


def _stored(array: Any) -> Any:
    """A Dask array of a Zarr store on disk, which goes when the array does."""
    import dask.array as da
    import zarr

    folder = tempfile.mkdtemp(prefix="fuser-bench-")
    length = max(1, CHUNK_BYTES // array.itemsize)
    store = zarr.create_array(
        folder, shape=array.shape, chunks=(min(length, max(1, array.size)),), dtype=array.dtype,
        compressors=None, overwrite=True,
    )  # fmt: skip
    store[...] = array
    lazy = da.from_zarr(store)
    weakref.finalize(lazy, shutil.rmtree, folder, ignore_errors=True)
    return lazy


def counted(results: Any) -> tuple[int, int]:
    """Run Dask arrays in one thread; how many tasks that takes, and the bytes handed over.

    Args:
        results: Dask arrays, nested as they like.

    Returns:
        Tasks of the optimised graph; the bytes of their results, once for each task that needs one.
    """
    import dask
    from dask.callbacks import Callback

    tasks = handed_bytes = 0

    def after(key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        nonlocal tasks, handed_bytes
        tasks += 1
        handed_bytes += len(state["dependents"].get(key, ())) * sum(_sizes(result))

    with Callback(posttask=after):
        dask.persist(results, scheduler="sync")
    return tasks, handed_bytes


def _sizes(result: Any) -> Iterable[int]:
    """The bytes of the arrays that a task gives."""
    if isinstance(result, (np.ndarray, np.generic)):
        yield result.nbytes
    elif isinstance(result, (tuple, list)):
        for each in cast(Sequence[Any], result):
            yield from _sizes(each)
    elif isinstance(result, dict):
        for each in result.values():
            yield from _sizes(each)
