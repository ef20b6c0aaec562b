"""Attributes of operations: what a node has besides operands, typed, each with its text.

The text is what stands in the braces of a graph's text; equal attributes have equal texts, and
`fuser.ir.attribute_text` takes a text back. A view is an attribute, too (`fuser.ir.views`), and so
is the call of a function that NumPy runs (`fuser.ir.opaque_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import ShapeError
from fuser.base.host_expressions import rename_scalars, scalar_symbols
from fuser.base.records import record
from fuser.ir import dims
from fuser.ir.dims import Dim, Shape

#: Places start, start + step, … below stop along one axis.
Span = tuple[Dim, Dim, int]
#: Places along each axis of an array.
Box = tuple[Span, ...]


class Attribute:
    """What an operation has besides operands. Immutable; equal if class and text are.

    Attributes:
        text: as a graph's text spells it.
    """

    __slots__ = ("text",)
    text: str

    def __post_init__(self) -> None:
        """Spell it once: hashing and comparing take the text."""
        object.__setattr__(self, "text", self._spelled())

    def _spelled(self) -> str:
        """The text."""
        return ""

    def __eq__(self, other: object) -> bool:
        """Same class and text."""
        return type(other) is type(self) and other.text == self.text

    def __hash__(self) -> int:
        """Hash of the text."""
        return hash(self.text)

    def __str__(self) -> str:
        """The text."""
        return self.text

    @property
    def lengths(self) -> Shape:
        """The symbolic lengths that it is spelled with."""
        return ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The scalars and lengths that it speaks of, each once."""
        return tuple(dict.fromkeys(name for dim in self.lengths for name in dims.symbols(dim)))

    def renamed(self, names: Mapping[str, Dim]) -> Self:
        """The same with other symbols."""
        return self

    def shapes(self, shapes: Sequence[Shape]) -> Sequence[Shape]:
        """What broadcasts to a result's shape, given the operands' shapes."""
        return shapes


@record(eq=False)
class Nothing(Attribute):
    """Of most operations: the operands say all."""


NOTHING = Nothing()


@record(eq=False)
class Name(Attribute):
    """Which of the graph's arrays an input is."""

    name: str

    def _spelled(self) -> str:
        return self.name


@record(eq=False)
class Expression(Attribute):
    """How a number is computed from scalars and lengths: a host expression."""

    expression: str

    def _spelled(self) -> str:
        return self.expression

    @property
    def symbols(self) -> tuple[str, ...]:
        """Those of the expression."""
        return tuple(sorted(scalar_symbols(self.expression)))

    def renamed(self, names: Mapping[str, Dim]) -> Self:
        """With other symbols."""
        return type(self)(rename_scalars(self.expression, names))


@record(eq=False)
class Bits(Attribute):
    """The exact bits of a constant: 0.0 is not -0.0.

    Attributes:
        bits: as an integer, the first byte of memory the lowest.
        size_bytes: how many bytes they are.
    """

    bits: int
    size_bytes: int

    def _spelled(self) -> str:
        return f"0x{self.bits:0{2 * self.size_bytes}x}"


@record(eq=False)
class Axes(Attribute):
    """The axes that a reduction reduces."""

    axes: tuple[int, ...]

    def _spelled(self) -> str:
        return ", ".join(map(str, self.axes))


@record(eq=False)
class Axis(Attribute):
    """The axis along which arrays are joined, or results run."""

    axis: int

    def _spelled(self) -> str:
        return str(self.axis)


@record(eq=False)
class Places(Attribute):
    """Where a gather reads, or a scatter writes: for each axis, by which index or along which loop.

    Attributes:
        axes: -1 - k for an axis whose position the k-th index gives; else the axis of the result,
            of a scatter that of what is written, that it runs along.
    """

    axes: tuple[int, ...]

    def _spelled(self) -> str:
        return ", ".join(map(str, self.axes))

    @property
    def indexed(self) -> tuple[int, ...]:
        """The axis of what is read that each index is of, in the order of the indices."""
        found = {-1 - place: axis for axis, place in enumerate(self.axes) if place < 0}
        return tuple(found[k] for k in range(len(found)))

    @property
    def kept(self) -> tuple[int, ...]:
        """The other axes of what is read, in the order of the result's axes."""
        axes = range(len(self.axes))
        return tuple(sorted((k for k in axes if self.axes[k] >= 0), key=self.axes.__getitem__))

    def inserted(self, rank: int) -> tuple[int, ...]:
        """The axes of a result of some rank that no axis of what is read runs along."""
        return tuple(axis for axis in range(rank) if axis not in self.axes)

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """What broadcasts to the result's shape; of a scatter, to that of what is written.

        Args:
            shapes: of the indices, what is written, if anything is, and of what they are of.

        Raises:
            ShapeError: they are not what the axes say.
        """
        *found, table = shapes
        rank = max((len(shape) for shape in found), default=0)
        count = sum(axis < 0 for axis in self.axes)
        wanted = [*range(-count, 0), *self.kept_axes]
        same = sorted(self.axes) == wanted and len(set(wanted)) == len(wanted) == len(table)
        fits = count <= len(found) <= count + 1 and all(axis < rank for axis in self.axes)
        if not (count and same and fits):
            raise ShapeError(f"indices: axes {self.text} of {dims.spell_shape(table)}")
        kept = dict(zip(self.axes, table, strict=True))
        return [*found, tuple(kept.get(axis, 1) for axis in range(rank))]

    @property
    def kept_axes(self) -> tuple[int, ...]:
        """The axes of the result that axes of what is read run along, in order."""
        return tuple(sorted(axis for axis in self.axes if axis >= 0))

    def read(self, indices: Sequence[Any], table: Any, module: Any) -> Any:
        """The elements of real arrays.

        Raises:
            IndexError: an index lies outside of its axis.
        """
        return table[self._entries(indices, table, module)]

    def write(
        self, indices: Sequence[Any], value: Any, table: Any, ufunc: Any, module: Any
    ) -> Any:
        """A copy of a real array with a value written into it.

        Args:
            indices: of the axes that have one.
            value: of the shape of all indices.
            table: what is copied.
            ufunc: combines it with what is there; None where it takes its place.
            module: of the arrays.

        Raises:
            IndexError: an index lies outside of its axis.
        """
        new = module.array(table, order="K")
        entries = self._entries([module.asarray(i) for i in indices], new, module)
        if ufunc is None:
            new[entries] = value
        else:
            ufunc.at(new, entries, value)
        return new

    def _entries(self, indices: Sequence[Any], table: Any, module: Any) -> tuple[Any, ...]:
        """An index of each axis: arrays that broadcast."""
        rank = max(*(index.ndim for index in indices), *(axis + 1 for axis in self.axes))
        return tuple(
            indices[-1 - place]
            if place < 0
            else module.arange(length).reshape((1,) * place + (-1,) + (1,) * (rank - place - 1))
            for place, length in zip(self.axes, table.shape, strict=True)
        )


@record(eq=False)
class Extent(Attribute):
    """How many positions an iota counts."""

    length: Dim

    def _spelled(self) -> str:
        return str(self.length)

    @property
    def lengths(self) -> Shape:
        """Its own."""
        return (self.length,)

    def renamed(self, names: Mapping[str, Dim]) -> Self:
        """With other symbols."""
        return type(self)(dims.substitute(self.length, names))


@record(eq=False)
class Cast(Attribute):
    """A conversion.

    Attributes:
        dtype: the result's.
        order: "" for the conversion of an operand, as ufuncs do it in passing; "K", "C" … for an
            array of its own in that memory order (astype, copy).
        like: with it, nothing is copied, and only the order told: that of what is met by taking
            these operands one after another, from the cast on.
    """

    dtype: np.dtype[Any]
    order: str = ""
    like: tuple[int, ...] = ()

    def _spelled(self) -> str:
        if not self.order:
            return dtype_name(self.dtype)
        return f"{dtype_name(self.dtype)} {'.'.join((self.order, *map(str, self.like)))}"


@memo(256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """`dtype.name`, cached."""
    return dtype.name


@record(eq=False)
class Region(Attribute):
    """A box of an array, which an update writes: `1:n0 - 1; 0:n1:2`."""

    box: Box

    def _spelled(self) -> str:
        return "; ".join(
            f"{start}:{stop}" + (f":{step}" if step != 1 else "") for start, stop, step in self.box
        )

    @property
    def lengths(self) -> Shape:
        """All bounds."""
        return tuple(bound for start, stop, _ in self.box for bound in (start, stop))

    def renamed(self, names: Mapping[str, Dim]) -> Self:
        """With other symbols."""
        return self.changed(lambda bound: dims.substitute(bound, names))

    def changed(self, change: Callable[[Dim], Dim]) -> Self:
        """With other bounds, each by itself."""
        return type(self)(
            tuple((change(start), change(stop), step) for start, stop, step in self.box)
        )

    def is_full(self, shape: Shape) -> bool:
        """Whether it is all of an array of a shape."""
        return self.box == full_box(shape)

    def slices(self, sizes: Mapping[str, int]) -> tuple[slice, ...]:
        """The index of it in an array of given lengths."""
        return tuple(
            slice(dims.evaluate(start, sizes), dims.evaluate(stop, sizes), step)
            for start, stop, step in self.box
        )

    def fits(
        self, lengths: Sequence[int], shape: Sequence[int], sizes: Mapping[str, int]
    ) -> bool:
        """Whether it lies within an array of some lengths and has those of `shape`."""
        return len(shape) == len(self.box) and all(
            span_fits(span, length, count, sizes)
            for span, length, count in zip(self.box, lengths, shape, strict=True)
        )

    def python(self, dim: Callable[[Dim], str]) -> str:
        """The index as Python spells it, with lengths as expressions."""
        parts = [f"{dim(start)}:{dim(stop)}:{step}" for start, stop, step in self.box]
        return ", ".join(parts) or "..."


def span_fits(span: Span, length: int, count: int, sizes: Mapping[str, int]) -> bool:
    """Whether start, start + step, … below stop are `count` places of an axis of some length.

    All numbers may be symbolic.
    """
    start, stop = (dims.evaluate(bound, sizes) for bound in span[:2])
    step = span[2]
    if not (start >= 0 and step > 0):
        return False
    if not stop > start:
        return count == 0
    places = (stop - start + step - 1) // step
    return count == places and start + (places - 1) * step < length


def full_box(shape: Shape) -> Box:
    """All places of an array."""
    return tuple((0, length, 1) for length in shape)
