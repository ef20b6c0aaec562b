"""Which dtypes can be traced: those of the op table, and what the arguments' backend has beyond.

No backend has to have complex numbers and bfloat16; those that do say so (`Backend.extra_dtypes`),
and take the rows that `fuser.ops.admits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fuser.errors import BackendError, Unsupported
from fuser.ops import DTYPES, TABLE, admits

_KNOWN = frozenset(map(np.dtype, DTYPES))
_extra: ContextVar[frozenset[np.dtype[Any]]] = ContextVar("extra", default=frozenset())


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype can be fused by the backend that is traced for."""
    return dtype in _KNOWN or dtype in _extra.get()


def check_row(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse operands of a dtype that only some rows take.

    Raises:
        Unsupported: this row does not.
    """
    if dtype not in _KNOWN and not admits(TABLE[name], dtype):
        raise Unsupported("unsupported-dtype", f"np.{name}", f"dtype {dtype}")


@contextmanager
def traced_for(leaves: Sequence[Any]) -> Iterator[None]:
    """Admit what the backend of these arguments has, for as long as a function is traced."""
    before = _extra.set(_extra_dtypes(leaves))
    try:
        yield
    finally:
        _extra.reset(before)


def _extra_dtypes(leaves: Sequence[Any]) -> frozenset[np.dtype[Any]]:
    """What the backend of the arguments has beyond the op table's dtypes."""
    from fuser.backend import backend_of, chosen_name, get_backend  # they need what is traced

    arrays = [leaf for leaf in leaves if hasattr(type(leaf), "__cuda_array_interface__")]
    name = chosen_name()
    if not name and not arrays:
        return frozenset()
    try:
        return get_backend(name or backend_of(arrays)).extra_dtypes
    except BackendError:  # the executor says what is wrong
        return frozenset()
