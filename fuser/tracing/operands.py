"""What operands are computed in: NumPy's own choice of dtypes, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import Unsupported
from fuser.ir import infer
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def check_out(found: np.dtype[Any], out: np.dtype[Any], casting: Any, name: str) -> None:
    """Refuse an `out=` that NumPy would not convert results into.

    Raises:
        TypeError: as NumPy's.
    """
    if not np.can_cast(found, out, casting):
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and ufunc.nout == 1:  # which has an error of its own
            ufunc(*[np.empty(0, found)] * ufunc.nin, out=np.empty(0, out), casting=casting)
        raise TypeError(
            f"Cannot cast ufunc '{name}' output from {found!r} to {out!r} "
            f"with casting rule '{casting}'"
        )


def check_target(out: Any, name: str) -> None:
    """Refuse to write into an array that NumPy made, which tracing has no stand-in for yet.

    Raises:
        Unsupported: the function is traced again, with stand-ins for what it makes.
    """
    if type(out) is np.ndarray:
        # The function may go on with the array itself, which nothing has been written to.
        raise Unsupported(
            "write-into-constant", name, "an array that NumPy made while the function ran"
        )


def loop_dtypes(
    ufunc: np.ufunc, operands: Sequence[Any], dtype: Any, casting: str
) -> tuple[np.dtype[Any], ...]:
    """The dtypes that NumPy itself would compute in, inputs then outputs.

    Raises:
        TypeError: NumPy's own, where it has no loop.
    """
    kinds: list[Any] = []
    for value in operands:
        if isinstance(value, TracedArray):
            kinds.append(value.dtype)
        elif isinstance(value, np.generic):
            kinds.append(value.dtype)
        else:
            kind = value.kind if isinstance(value, HostScalar) else type(value)
            kinds.append(np.dtype(bool) if kind is bool else kind)
    if all(isinstance(kind, type) for kind in kinds):
        kinds = [np.dtype(kind) for kind in kinds]
    return _resolved(ufunc, tuple(kinds), None if dtype is None else np.dtype(dtype), casting)


@memo(4096)
def _resolved(
    ufunc: np.ufunc, kinds: tuple[Any, ...], dtype: Any, casting: str
) -> tuple[np.dtype[Any], ...]:
    """Ask NumPy, once for each combination."""
    options: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        options["signature"] = (None,) * ufunc.nin + (dtype,) * ufunc.nout
    found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), **options)
    return tuple(infer.dtype_of(d) for d in found)


def fits_dtype(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a Python integer is in the range of the integer dtype that it meets."""
    number = value.hint if isinstance(value, HostScalar) else value
    if type(number) is not int or dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    fits = bool(limits.min <= number <= limits.max)
    if fits and isinstance(value, HostScalar):  # later values may not
        value._tracing.guard_value(f"{limits.min} <= ({value.text}) <= {limits.max}", True)
    return fits
