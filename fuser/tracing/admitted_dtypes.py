"""Which dtypes can be traced: those of the op table, and what the arguments' backend has beyond.

No backend has to have complex numbers and bfloat16; those that do say so (`Backend.extra_dtypes`),
and which rows take them (`Backend.admits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fuser.backend import Backend, backend_of, chosen_name, get_backend
from fuser.base.contexts import assigned
from fuser.base.errors import BackendError, Unsupported
from fuser.base.protocols import type_has
from fuser.ir.ops import DTYPES, TABLE

_KNOWN = frozenset(map(np.dtype, DTYPES))
_traced_for: ContextVar[Backend | None] = ContextVar("traced_for", default=None)


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype can be fused by the backend that is traced for."""
    if dtype in _KNOWN:
        return True
    backend = _traced_for.get()
    return backend is not None and dtype in backend.extra_dtypes


def check_row(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse operands of a dtype that only some rows take.

    Raises:
        Unsupported: this row does not.
    """
    backend = _traced_for.get()
    if dtype not in _KNOWN and (backend is None or not backend.admits(TABLE[name], dtype)):
        raise Unsupported("unsupported-dtype", f"np.{name}", f"dtype {dtype}")


def check_array(array: Any, what: str) -> None:
    """Refuse arrays whose meaning is more than dtype, shape and strides."""
    if type(array) is not np.ndarray and not isinstance(array, np.generic):
        if isinstance(array, np.ndarray):
            raise Unsupported("unsupported-array", what, f"{type(array).__name__}, a subclass")
    if not array.dtype.isnative:
        raise Unsupported("byte-order", what, f"dtype {array.dtype.str}")
    check_dtype(array.dtype, what)


def check_dtype(dtype: np.dtype[Any], what: str) -> None:
    """Refuse dtypes that have no column in the op table, nor a form on the trace's backend."""
    if not is_known(dtype):
        raise Unsupported("unsupported-dtype", what, f"dtype {dtype}")


def has_scans() -> bool:
    """Whether the backend that is traced for has results that run along an axis."""
    backend = _traced_for.get()
    return backend is not None and backend.capabilities.scans


def has_scatters() -> bool:
    """Whether the backend that is traced for writes at computed places."""
    backend = _traced_for.get()
    return backend is not None and backend.capabilities.scatters


def traced_for(leaves: Sequence[Any]) -> AbstractContextManager[None]:
    """Admit what the backend of these arguments has, for as long as a function is traced."""
    return assigned(_traced_for, _backend(leaves))


def runs_element_loops() -> bool:
    """Whether the backend that a function is traced for has kernels of loops over elements."""
    found = _traced_for.get()
    return found is None or found.capabilities.element_loops


def _backend(leaves: Sequence[Any]) -> Backend | None:
    """The backend of the arguments; None where that cannot be told."""
    arrays = [leaf for leaf in leaves if type_has(leaf, "__cuda_array_interface__")]
    name = chosen_name() or ("" if arrays else "cpu")
    try:
        return get_backend(name or backend_of(arrays))
    except BackendError:  # the executor says what is wrong
        return None
