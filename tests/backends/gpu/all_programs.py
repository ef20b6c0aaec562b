"""Every program, and how far its results may be from NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.backends.gpu.programs import PROGRAMS, Program
from tests.backends.gpu.reduction_programs import REDUCTIONS

ALL: dict[str, Program] = {**PROGRAMS, **REDUCTIONS}


def tolerance(name: str, dtype: np.dtype[Any]) -> float:
    """The relative error to allow: sums are grouped otherwise than NumPy's."""
    if dtype.kind != "f":
        return 0.0
    if name in REDUCTIONS:
        return {"float16": 2e-3, "float32": 1e-5, "float64": 1e-13}[dtype.name]
    return 4e-6 if name in ("column", "black-scholes") else 0.0


def assert_means(name: str, found: Any) -> None:
    """Compare a program's results with NumPy's; sums with those in double precision.

    NumPy adds columns one after another, so its own sums may be far off.
    """
    function, arguments = ALL[name]
    want = function(*arguments)
    exact = function(*map(_doubled, arguments)) if name in REDUCTIONS else want
    results = found if isinstance(want, tuple) else (found,)
    wants = want if isinstance(want, tuple) else (want,)
    exacts = exact if isinstance(want, tuple) else (exact,)
    for one, other, true in zip(results, wants, exacts, strict=True):
        other = np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        rtol = tolerance(name, other.dtype)
        np.testing.assert_allclose(one, true, rtol=rtol, atol=rtol / 10)


def _doubled(array: Any) -> Any:
    """A float array in double precision."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array
