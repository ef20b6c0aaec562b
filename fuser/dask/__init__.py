"""Dask and the fuser: arrays in chunks, one kernel a chunk.

Dask's own schedulers run everything. `optimize` is an optimisation of Dask's arrays, `fused()` a
block in which it is switched on, and a fused function that is called with Dask arrays gives some.
`import fuser` does not import this package, nor Dask: `fuser.dask` does.
"""

try:
    from fuser.dask.optimization import fused, optimize
except ModuleNotFoundError as error:
    told = f"{error}: pip install 'fuser-bench[dask]'"
    raise ModuleNotFoundError(told, name=error.name) from None

__all__ = ["fused", "optimize"]
