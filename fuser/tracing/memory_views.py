"""Views of memory inside a trace that no node has as its attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.base.records import record
from fuser.ir.attributes import NOTHING, Attribute
from fuser.ir.views import Spelling, View


@record(eq=False)
class ComplexPart(View):
    """The real or the imaginary parts of a traced array: an operation, which memory is seen by."""

    name: str

    @property
    def op(self) -> str:  # type: ignore[override] # one class for both
        """`real` or `imag`."""
        return self.name

    def _spelled(self) -> str:
        return ""

    @property
    def attribute(self) -> Attribute:
        """Nothing: the operation says it."""
        return NOTHING

    def __eq__(self, other: object) -> bool:
        """The same part."""
        return isinstance(other, ComplexPart) and other.name == self.name

    def __hash__(self) -> int:
        """Hash of the name."""
        return hash(self.name)

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """The property."""
        return getattr(array, self.name)

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The property."""
        return f"{array}.{self.name}"


@record(eq=False)
class Contiguous(View):
    """The array itself where its memory is contiguous, else a copy in C order, if it shows."""

    op = "contiguous"
    order: str

    def _spelled(self) -> str:
        return self.order

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """The function."""
        return module.ascontiguousarray(array)

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The function."""
        return f"{constant(np.ascontiguousarray)}({array})"
