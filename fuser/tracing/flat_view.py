"""`x.flat` of a stand-in for an array."""

from __future__ import annotations

from typing import Any

from fuser import dims
from fuser.errors import Unsupported
from fuser.tracing.indices import plain_slice
from fuser.tracing.scalars import HostScalar
from fuser.tracing.traced_memory import TracedMemory


class FlatView:
    """`x.flat`: all elements in C order."""

    def __init__(self, array: Any) -> None:
        """Look at an array."""
        self._array = array

    def _values(self) -> Any:
        """The elements, as an array of its own."""
        array = self._array
        whole = dims.product(array.dims)
        return array.tracing.wrap(array.tracing.node("reshape", [array.node], str(whole)))

    def __len__(self) -> int:
        """How many elements there are, as a guard."""
        return int(self._array.size)

    def __getitem__(self, index: Any) -> Any:
        """A copy of some elements, or one."""
        _check_index(index)
        found = self._values()[index]
        return found if found.generic else found.copy()

    def __setitem__(self, index: Any, value: Any) -> None:
        """One number for some elements."""
        _check_index(index)
        array, tracing = self._array, self._array.tracing
        given = tracing.operand(value)
        if isinstance(given, TracedMemory) and given.ndim:
            raise Unsupported("unsupported-argument", "ndarray.flat", "values that are repeated")
        if isinstance(index, slice) and plain_slice(index) == slice(None):
            array[...] = given
            return
        values = self._values()
        values[index] = given
        shape = ", ".join(map(str, array.dims))
        array.assign(tracing.node("reshape", [values.node], shape))

    def __getattr__(self, name: str) -> Any:
        """Nothing else."""
        raise Unsupported("unsupported-function", f"ndarray.flat.{name}", "no fused form")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refused: the values do not exist yet."""
        raise Unsupported("array-conversion", "np.asarray()", "on ndarray.flat")

    def __iter__(self) -> Any:
        """Refused, but for few elements."""
        return iter(self._values())


def _check_index(index: Any) -> None:
    """Refuse what is no integer and no slice."""
    if index is not Ellipsis and not isinstance(index, (int, slice, HostScalar)):
        raise Unsupported("unsupported-argument", "ndarray.flat", "an array as index")
