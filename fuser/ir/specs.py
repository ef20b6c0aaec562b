"""Descriptions that kernels are specialised on: operands, loop nests, parts of buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.records import record
from fuser.ir.attributes import dtype_name
from fuser.ir.views import Chain

CONTIGUOUS, STRIDED, INVARIANT = "contiguous", "strided", "invariant"


@record
class TensorDesc:
    """How a kernel meets one operand: its dtype and its innermost stride's class.

    Attributes:
        dtype: NumPy dtype name.
        access: "contiguous" (stride of one item), "invariant" (stride 0) or "strided", along the
            innermost loop. Strides of outer loops are data.
        steady: in a reduction down columns or over several loops, the operand stays the same
            along all reduced loops.
        beside: in a reduction of rows, its stride's class along the last loop that is kept; of
            columns, along the last that is reduced, if all columns have one element.
        counted: there is no memory: an element's value is its address divided by its size, and
            the addresses start at 0.
        located: it is counted, and an element's value is its address.
    """

    dtype: str
    access: str
    steady: bool = False
    beside: str = ""
    counted: bool = False
    located: bool = False

    def __str__(self) -> str:
        """`float32 contiguous`."""
        memory = " located" if self.located else " counted" if self.counted else ""
        return f"{self.dtype} {self.access}{memory}"

    @property
    def picked(self) -> bool:
        """Whether elements lie apart in memory along the innermost loop."""
        return self.access not in (CONTIGUOUS, INVARIANT) and not self.counted


@record
class SectionSpec:
    """One loop nest's specialisation: loops after collapsing, and its operands.

    Attributes:
        rank: number of loops.
        tensors: how operands are met: loads, then stores.
        strategy: "map" where nothing is reduced; "repeat" where the first loop is over iterations
            of a loop, which run one after another for each element; "scan" where results run along
            the last loop but one, "scan row" where they run along the only one; "scatter" where
            elements are written at computed places, one after another; "row" where the innermost
            loop is reduced; "column" where elements beside each other belong to different results.
        reduced: how many loops, the last ones, are reduced.
    """

    rank: int
    tensors: tuple[TensorDesc, ...]
    strategy: str = "map"
    reduced: int = 0


@record
class ArgSpec:
    """What one compiled kernel serves: device, and a section spec for each loop nest.

    Lengths, strides of outer loops, addresses, alignment and scalar values are not in it.
    """

    device: str
    sections: tuple[SectionSpec, ...]


@record
class PartitionDesc:
    """A part of a buffer, as views applied one after another: the classic chunk and cat.

    Attributes:
        buffer: `x0` (argument), `t0` (temporary) or `o0` (output).
        views: of it.
    """

    buffer: str
    views: Chain = ()

    def __str__(self) -> str:
        """`x0[1:].transpose(1, 0)`."""
        return self.buffer + "".join(map(str, self.views))


def access_class(stride: int, itemsize: int) -> str:
    """Classify an innermost stride in bytes."""
    if stride == itemsize:
        return CONTIGUOUS
    return INVARIANT if stride == 0 else STRIDED


def desc_of(
    dtype: np.dtype[Any], stride: int, counted: bool = False, located: bool = False
) -> TensorDesc:
    """The TensorDesc of an operand with this innermost stride in bytes."""
    access = access_class(stride, dtype.itemsize)
    return TensorDesc(dtype_name(dtype), access, counted=counted or located, located=located)


#: The buffer of numbers that say how an array lies: it has no memory.
MEASURES = "positions()"


def counted_name(length: str) -> str:
    """The buffer of positions 0, 1, 2 … below a length: it has no memory."""
    return f"positions({length})"


def is_counted(buffer: str) -> bool:
    """Whether a buffer is one of positions."""
    return buffer.startswith("positions(")


def counted_length(buffer: str) -> str:
    """The length of a buffer of positions."""
    return buffer[len("positions(") : -1]
