"""Views: other ways to see an array's elements, and their algebra.

A view is an attribute of the operation that it is named after. It says which shape is seen, where
in memory the elements lie, which view undoes it, which one view two of them are, which axes of the
array are seen, whether it stays within an array, and how Python spells it.

A chain of views is applied to arrays, merged where two are one, and followed axis by axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Self

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import ShapeError
from fuser.base.records import changed, record
from fuser.ir import dims
from fuser.ir.attributes import Attribute, Box, Span, full_box, span_fits
from fuser.ir.dims import Dim, Shape, spell_shape
from fuser.ir.layouts import Layout, reshaped, writable_diagonal

Chain = tuple["View", ...]
#: Numbers, not symbols.
Lengths = tuple[int, ...]
#: Gives an expression of an object, or of a length.
Spelling = Callable[[Any], str]
IndexPart = int | slice | None
FULL = slice(None)
_BACKWARDS = slice(None, None, -1)


@record
class Seen:
    """What an array looks like through views, as far as these keep its axes apart.

    Attributes:
        axes: the array's axis behind each axis that is seen; None for one that only repeats.
        ends: whether each is seen from end to end.
        lengths: how long each is; -1 where that is not followed.
        whole: nothing is left out: axes are only moved, added and repeated.
        box: the places that are seen along each axis of the array; None where these are no box,
            or its axes are moved.
    """

    axes: tuple[int | None, ...]
    ends: tuple[bool, ...]
    lengths: Shape
    whole: bool
    box: Box | None


class View(Attribute):
    """One more way to see an array."""

    __slots__ = ()
    #: The operation, as graphs call it.
    op = ""

    def __str__(self) -> str:
        """What it adds to an array's name: `.transpose(1, 0)`."""
        return f".{self.op}({self.text})"

    @property
    def attribute(self) -> Attribute:
        """What a node of it has besides the operation."""
        return self

    @property
    def drops(self) -> bool:
        """Whether some elements may not be seen."""
        return False

    def shape(self, shape: Shape) -> Shape:
        """The shape that is seen of an array of a shape.

        Raises:
            ShapeError: no such array can be seen so.
        """
        raise NotImplementedError

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """Where the elements that are seen lie.

        Args:
            layout: of the array.
            sizes: values of symbols.

        Raises:
            NeedsCopy: this memory cannot be seen so.
            IndexError: an integer index out of bounds.
        """
        raise NotImplementedError

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """A real array, seen so by its own module's functions; a reshape may copy."""
        raise NotImplementedError

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The expression that `of` is.

        Args:
            array: an expression.
            constant: gives an expression of an object.
            dim: gives one of a length.
        """
        raise NotImplementedError

    def seen(self, seen: Seen) -> Seen | None:
        """Which axes are seen; None where axes are merged or split."""
        return None

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """Whether what is seen of an array of some lengths lies within it.

        Args:
            lengths: its own.
            shape: the lengths that are to be seen.
            sizes: values of symbols.
        """
        return True

    def inverse(self, shape: Shape) -> View | None:
        """The view that shows an array of a shape again through this one of it, where one does."""
        return None

    def then(self, view: View) -> Chain | None:
        """This view and another one behind it in fewer or simpler ones; None where not."""
        return None


def _places(part: slice, length: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice of an axis; as `slice.indices`, of symbolic lengths too."""
    step = 1 if part.step is None else part.step
    least, most = (0, length) if step > 0 else (-1, length - 1)

    def within(place: int) -> int:
        return min(max(place if place >= 0 else place + length, least), most)

    start = (least if step > 0 else most) if part.start is None else within(part.start)
    stop = (most if step > 0 else least) if part.stop is None else within(part.stop)
    return start, stop, step


@record(eq=False)
class Index(View):
    """Basic indexing: integers, slices and None for new axes."""

    op = "index"
    parts: tuple[IndexPart, ...]

    @staticmethod
    def of_parts(parts: Sequence[IndexPart]) -> Index:
        """Without entries at the end that change nothing."""
        kept = list(parts)
        while kept and kept[-1] == FULL:
            kept.pop()
        return Index(tuple(kept))

    def _spelled(self) -> str:
        return ", ".join(map(_spell_part, self.parts))

    def __str__(self) -> str:
        """`[1:, None]`."""
        return f"[{self.text}]"

    @property
    def entries(self) -> list[int | slice]:
        """The entries that axes of the array have."""
        return [part for part in self.parts if part is not None]

    @property
    def drops(self) -> bool:
        """It does but for whole axes, turned round or not."""
        return any(part not in (FULL, _BACKWARDS) for part in self.entries)

    @property
    def only_inserts(self) -> bool:
        """Whether it keeps all elements, and only puts axes between."""
        return all(part is None or part == FULL for part in self.parts)

    def shape(self, shape: Shape) -> Shape:
        """Integers take axes away, None puts one there."""
        result: list[Dim] = []
        axis = 0
        for part in self.parts:
            if part is None:
                result.append(1)
                continue
            if axis == len(shape):
                raise ShapeError(f"too many indices for shape {spell_shape(shape)}: {self.parts}")
            length = shape[axis]
            axis += 1
            if isinstance(part, slice):
                result.append(dims.slice_length(length, part))
            elif isinstance(length, int) and not -length <= part < length:
                raise ShapeError(f"index {part} is out of bounds for axis {axis - 1} of {length}")
        return (*result, *shape[axis:])

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """Places are moved along, strides multiplied."""
        offset, axis = layout.offset, 0
        kept: list[tuple[int, int, bool]] = []
        for part in self.parts:
            if part is None:
                kept.append((1, 0, False))
                continue
            length, stride, again = layout.shape[axis], layout.strides[axis], layout.repeated[axis]
            if isinstance(part, slice):
                start, stop, step = _places(part, length)
                count = -(-max(stop - start if step > 0 else start - stop, 0) // abs(step))
                offset += start * stride if count else 0
                kept.append((count, stride * step, again))
            else:
                if not -length <= part < length:
                    raise IndexError(
                        f"index {part} is out of bounds for axis {axis} with size {length}"
                    )
                offset += (part if part >= 0 else part + length) * stride
            axis += 1
        kept.extend(
            zip(layout.shape[axis:], layout.strides[axis:], layout.repeated[axis:], strict=True)
        )
        shape, strides, repeated = zip(*kept, strict=True) if kept else ((), (), ())
        return Layout(offset, shape, strides, self.shape(layout.symbolic), repeated)

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """A 0-d array where nothing is left, never a scalar."""
        return array[(*self.parts, Ellipsis)]

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """An index: short where it can be."""
        if all(isinstance(part, int) for part in self.parts):
            return f"{array}[{constant((*self.parts, Ellipsis))}]"
        return f"{array}[{constant(self.parts[0] if len(self.parts) == 1 else self.parts)}]"

    def seen(self, seen: Seen) -> Seen | None:
        """Axes are narrowed, dropped and inserted."""
        axes, ends, lengths = list(seen.axes), list(seen.ends), list(seen.lengths)
        whole = seen.whole
        box = None if seen.box is None else list(seen.box)
        place = 0
        for part in self.parts:
            if part is None:
                axes.insert(place, None)
                ends.insert(place, True)
                lengths.insert(place, 1)
                place += 1
                continue
            axis = axes[place]
            if box is not None and axis is not None and part != FULL:
                span = _narrowed(box[axis], part)
                box = None if span is None else [*box[:axis], span, *box[axis + 1 :]]
            if isinstance(part, slice):
                if part != FULL:
                    ends[place], lengths[place], whole = False, -1, False
                place += 1
            else:
                whole = whole and axis is None
                del axes[place], ends[place], lengths[place]
        kept = None if box is None else tuple(box)
        return Seen(tuple(axes), tuple(ends), tuple(lengths), whole, kept)

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """Integers lie within their axes."""
        return all(
            isinstance(part, slice) or -length <= part < length
            for part, length in zip(self.entries, lengths, strict=False)
        )

    def inverse(self, shape: Shape) -> View | None:
        """Of axes that are inserted or turned round, and of single places of axes of length 1."""
        parts: list[IndexPart] = []
        axis = 0
        for part in self.parts:
            if part is None:
                parts.append(0)
                continue
            undone = shape[axis] == 1 if isinstance(part, int) else part in (FULL, _BACKWARDS)
            if not undone:
                return None
            parts.append(None if isinstance(part, int) else part)
            axis += 1
        return Index(tuple(parts))

    def then(self, view: View) -> Chain | None:
        """`x[1:][:-1]` is `x[1:-1]`: where no axis is cut twice, or only at its ends."""
        if isinstance(view, Broadcast):
            return self._broadcast(view)
        if not isinstance(view, Index):
            return None
        parts = list(self.parts)
        place = 0
        for part in view.parts:
            if part is None:
                parts.insert(place, None)
                place += 1
                continue
            while place < len(parts) and isinstance(parts[place], int):
                place += 1  # an axis that is not seen any more
            if place == len(parts):
                parts.append(FULL)
            if parts[place] is None and part in (0, -1):
                del parts[place]
                continue
            if part != FULL:
                merged = _merged(parts[place], part)
                if merged is None:
                    return None
                parts[place] = merged
            place += 1
        index = Index.of_parts(parts)
        return (index,) if index.parts else ()

    def _broadcast(self, view: Broadcast) -> Chain | None:
        """`x[None, :, None]` through a broadcast is `x[:, None]`: that puts axes in front.

        Not so of single numbers: a total that others need too is rather had in a kernel before
        them.
        """
        if len(self.parts) == len(view.lengths) and all(part is None for part in self.parts):
            return None
        rest = list(dropwhile(lambda part: part is None, self.parts))
        if len(rest) == len(self.parts):
            return None
        kept = Index.of_parts(rest)
        return (kept, view) if kept.parts else (view,)


def _spell_part(part: IndexPart) -> str:
    """Write one entry of an index."""
    if not isinstance(part, slice):
        return str(part)
    bounds = ["" if bound is None else str(bound) for bound in (part.start, part.stop)]
    step = "" if part.step in (None, 1) else f":{part.step}"
    return ":".join(bounds) + step


def _narrowed(span: Span, part: int | slice) -> Span | None:
    """The places of a span that an entry of an index leaves; None where they are no span."""
    start, stop, step = span
    if step != 1:
        return None
    if isinstance(part, int):
        at = start + part if part >= 0 else stop + part
        return at, at + 1, 1
    first, last = part.start or 0, part.stop
    if first < 0 or (part.step or 1) < 1 or (last is not None and last >= 0):
        return None
    return start + first, stop if last is None else stop + last, part.step or 1


def _merged(first: IndexPart, then: int | slice) -> int | slice | None:
    """Two entries for one axis as one: slices that only drop elements from the ends are merged."""
    if first == FULL:
        return then
    if not isinstance(first, slice) or not isinstance(then, slice):
        return None
    for part in (first, then):
        drops = (part.start or 0) >= 0 and (part.stop is None or part.stop < 0)
        if part.step is not None or not drops:
            return None
    start = (first.start or 0) + (then.start or 0)
    stop = (first.stop or 0) + (then.stop or 0)
    return slice(start or None, stop or None)


@record(eq=False)
class Transpose(View):
    """Axes in another order."""

    op = "transpose"
    order: tuple[int, ...]

    def _spelled(self) -> str:
        return ", ".join(map(str, self.order))

    def shape(self, shape: Shape) -> Shape:
        """The lengths in that order."""
        if sorted(self.order) != list(range(len(shape))):
            raise ShapeError(f"transpose: axes {self.text} do not permute {spell_shape(shape)}")
        return tuple(shape[axis] for axis in self.order)

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """The strides in that order."""
        return Layout(
            layout.offset,
            tuple(layout.shape[axis] for axis in self.order),
            tuple(layout.strides[axis] for axis in self.order),
            tuple(layout.symbolic[axis] for axis in self.order),
            tuple(layout.repeated[axis] for axis in self.order),
        )

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """The method."""
        return array.transpose(self.order)

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The property where it will do."""
        reverses = self.order == tuple(reversed(range(len(self.order))))
        return f"{array}.T" if reverses else f"{array}.transpose({constant(self.order)})"

    def seen(self, seen: Seen) -> Seen | None:
        """Axes are moved."""
        return Seen(
            tuple(seen.axes[axis] for axis in self.order),
            tuple(seen.ends[axis] for axis in self.order),
            tuple(seen.lengths[axis] for axis in self.order),
            seen.whole,
            None,
        )

    def inverse(self, shape: Shape) -> View | None:
        """Back again."""
        return Transpose(tuple(map(self.order.index, range(len(self.order)))))

    def then(self, view: View) -> Chain | None:
        """Two are one, or none."""
        if not isinstance(view, Transpose):
            return None
        merged = Transpose(tuple(self.order[axis] for axis in view.order))
        return () if merged.order == tuple(sorted(merged.order)) else (merged,)


class _OfLengths(View):
    """A view that says which lengths are seen."""

    __slots__ = ()
    lengths: Shape

    def _spelled(self) -> str:
        return ", ".join(map(str, self.lengths))

    def renamed(self, names: Mapping[str, Dim]) -> Self:
        """With other symbols."""
        shape = tuple(dims.substitute(dim, names) for dim in self.lengths)
        return type(self)(shape)  # type: ignore[call-arg]

    def shape(self, shape: Shape) -> Shape:
        """What it says."""
        return self.lengths

    def _sizes(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The numbers that they are."""
        return tuple(dims.evaluate(dim, sizes) for dim in self.lengths)

    def then(self, view: View) -> Chain | None:
        """The last of several decides."""
        return (view,) if type(view) is type(self) else None


@record(eq=False)
class Reshape(_OfLengths):
    """Another shape over the elements in C order."""

    op = "reshape"
    lengths: Shape

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """Where the strides allow it."""
        return reshaped(layout, self._sizes(sizes), self.lengths)

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """A view, or a copy."""
        return array.reshape(self._sizes(sizes))

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """`array.reshape(…)`; of the one length that is no constant, -1 lets NumPy infer it."""
        fixed = tuple(dim if isinstance(dim, int) else -1 for dim in self.lengths)
        if fixed.count(-1) == 1 and 0 not in fixed:
            return f"{array}.reshape({constant(fixed)})"
        return f"{array}.reshape(({''.join(f'{dim(each)}, ' for each in self.lengths)}))"

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """As many elements are seen as there are."""
        return dims.product(lengths) == dims.product(shape)

    def inverse(self, shape: Shape) -> View | None:
        """The shape from before."""
        return Reshape(shape)


def repeated(array: Any, shape: tuple[int, ...], module: Any = np) -> Any:
    """`module.broadcast_to`, quick where nothing is repeated: then all that is new is read-only.

    Args:
        array: of NumPy's or CuPy's.
        shape: that it is seen in.
        module: NumPy or CuPy.
    """
    if module is not np or array.shape != shape:
        return module.broadcast_to(array, shape)
    seen = array.view()
    seen.flags.writeable = False
    return seen


@record(eq=False)
class Broadcast(_OfLengths):
    """Elements repeated along new axes in front, and along axes of length 1."""

    op = "broadcast_to"
    lengths: Shape

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """A stride of 0 along axes that are missing, or 1 where the target is not."""
        shape = self._sizes(sizes)
        missing = len(shape) - len(layout.shape)
        strides: list[int] = [0] * missing
        repeated: list[bool] = [True] * missing
        for axis, length in enumerate(layout.shape):
            wanted = self.lengths[missing + axis]
            again = (layout.symbolic[axis] == 1 and wanted != 1) or (
                length == 1 and shape[missing + axis] != 1
            )
            strides.append(0 if again else layout.strides[axis])
            repeated.append(again or layout.repeated[axis])
        return Layout(layout.offset, shape, tuple(strides), self.lengths, tuple(repeated))

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """A view that NumPy marks as read-only."""
        return repeated(array, self._sizes(sizes), module)

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """NumPy's function."""
        shape = "".join(f"{dim(each)}, " for each in self.lengths)
        return f"{constant(repeated)}({array}, ({shape}))"

    def seen(self, seen: Seen) -> Seen | None:
        """Axes are added in front; those of length 1 only repeat."""
        lead = len(self.lengths) - len(seen.lengths)
        axes = tuple(
            None if length == 1 and wanted != 1 else axis
            for axis, length, wanted in zip(
                seen.axes, seen.lengths, self.lengths[lead:], strict=True
            )
        )
        ends, box = (*[True] * lead, *seen.ends), None if lead else seen.box
        return Seen((*[None] * lead, *axes), ends, self.lengths, seen.whole, box)

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """Each length is the same, or 1."""
        lead = len(shape) - len(lengths)
        return lead >= 0 and all(
            mine in (1, length) for mine, length in zip(lengths, shape[lead:], strict=True)
        )


@record(eq=False)
class Part(View):
    """The elements at start, start + step, … below stop along one axis: symbolic lengths."""

    op = "part"
    drops = True
    axis: int
    start: Dim
    stop: Dim
    step: int = 1

    def _spelled(self) -> str:
        return f"{self.axis}; {self.start}; {self.stop}; {self.step}"

    def __str__(self) -> str:
        """`.part(0; 1; n0)`."""
        return f".part({self.text if self.step != 1 else self.text[:-3]})"

    @property
    def span(self) -> Span:
        """Start, stop and step."""
        return self.start, self.stop, self.step

    @property
    def lengths(self) -> Shape:
        """Both ends."""
        return self.start, self.stop

    def renamed(self, names: Mapping[str, Dim]) -> Part:
        """With other symbols."""
        start, stop = (dims.substitute(bound, names) for bound in (self.start, self.stop))
        return Part(self.axis, start, stop, self.step)

    def shape(self, shape: Shape) -> Shape:
        """One length changes."""
        return (*shape[: self.axis], dims.steps(*self.span), *shape[self.axis + 1 :])

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """One offset, one stride and one length change."""
        axis, stride = self.axis, layout.strides[self.axis]
        length = dims.evaluate(dims.steps(*self.span), sizes)
        return changed(
            layout,
            offset=layout.offset + dims.evaluate(self.start, sizes) * stride,
            shape=(*layout.shape[:axis], length, *layout.shape[axis + 1 :]),
            strides=(*layout.strides[:axis], stride * self.step, *layout.strides[axis + 1 :]),
            symbolic=self.shape(layout.symbolic),
        )

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """A basic slice."""
        start, stop = (dims.evaluate(bound, sizes) for bound in (self.start, self.stop))
        return array[(FULL,) * self.axis + (slice(start, stop, self.step),)]

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """A basic slice."""
        bounds = f"{dim(self.start)}:{dim(self.stop)}:{self.step}"
        return f"{array}[{':, ' * self.axis}{bounds}]"

    def is_place_of(self, index: View) -> bool:
        """Whether it is one place, of which an index drops the axis."""
        if not isinstance(index, Index) or self.step != 1 or self.stop - self.start != 1:
            return False
        others = (FULL,) * self.axis
        return len(index.parts) > self.axis and index.parts == (
            *others, 0, *(FULL,) * (len(index.parts) - self.axis - 1)
        )

    def python_of_place(self, array: str, dim: Spelling) -> str:
        """An index by a number, of which an array is left."""
        return f"{array}[{':, ' * self.axis}{dim(self.start)}, ...]"

    def seen(self, seen: Seen) -> Seen | None:
        """One axis is narrowed."""
        place, axis, box = self.axis, seen.axes[self.axis], seen.box
        if box is not None and axis is not None and box[axis][2] == 1:
            first = box[axis][0]
            span = first + self.start, first + self.stop, self.step
            box = (*box[:axis], span, *box[axis + 1 :])
        else:
            box = None
        ends = (*seen.ends[:place], False, *seen.ends[place + 1 :])
        lengths = (*seen.lengths[:place], -1, *seen.lengths[place + 1 :])
        return Seen(seen.axes, ends, lengths, False, box)

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """The last place is one of the axis."""
        return span_fits(self.span, lengths[self.axis], shape[self.axis], sizes)


@record(eq=False)
class Diagonal(View):
    """The diagonal of the first two axes, as the last one; `writable` where it may be written."""

    op = "diagonal"
    drops = True
    writable: bool = False

    def _spelled(self) -> str:
        return "writable" if self.writable else ""

    @property
    def attribute(self) -> Attribute:
        """What may be written into does not show in a value."""
        return Diagonal()

    def shape(self, shape: Shape) -> Shape:
        """Both axes are of one length."""
        if len(shape) < 2 or (type(shape[0]) is type(shape[1]) is int and shape[0] != shape[1]):
            raise ShapeError(f"diagonal: {spell_shape(shape)} has no square of its first two axes")
        return (*shape[2:], shape[0])

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """Both strides at once."""
        (first, second, *strides), repeated = layout.strides, layout.repeated
        return Layout(
            layout.offset,
            (*layout.shape[2:], min(layout.shape[:2])),
            (*strides, first + second),
            self.shape(layout.symbolic),
            (*repeated[2:], repeated[0] and repeated[1]),
        )

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """The method."""
        return writable_diagonal(array) if self.writable else array.diagonal()

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The method."""
        if self.writable:
            return f"{constant(writable_diagonal)}({array})"
        return f"{array}.diagonal()"

    def fits(self, lengths: Lengths, shape: Lengths, sizes: Mapping[str, int]) -> bool:
        """Both axes are of one length."""
        return lengths[0] == lengths[1]


@record(eq=False)
class Component(View):
    """One part of complex numbers, some bytes behind their first one."""

    op = "component"
    offset: int

    def _spelled(self) -> str:
        return str(self.offset)

    def __str__(self) -> str:
        """`.imag`."""
        return ".imag" if self.offset else ".real"

    def shape(self, shape: Shape) -> Shape:
        """The same."""
        return shape

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """The offset moves."""
        return changed(layout, offset=layout.offset + self.offset)

    def of(self, array: Any, sizes: Mapping[str, int], module: Any) -> Any:
        """The property."""
        return array.imag if self.offset else array.real

    def python(self, array: str, constant: Spelling, dim: Spelling) -> str:
        """The property."""
        return f"{array}{self}"

    def seen(self, seen: Seen) -> Seen | None:
        """All axes."""
        return changed(seen, box=None)


@record(eq=False)
class Address(View):
    """Where elements lie, as numbers: the first ones along the axes that are left out.

    Attributes:
        kept: axes of the array, in the order in which they are seen.
    """

    op = "address"
    kept: tuple[int, ...]

    def _spelled(self) -> str:
        return ", ".join(map(str, self.kept))

    def shape(self, shape: Shape) -> Shape:
        """The lengths of the axes that are kept."""
        return tuple(shape[axis] for axis in self.kept)

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """The strides of the axes that are kept."""
        return Layout(
            layout.offset,
            tuple(layout.shape[axis] for axis in self.kept),
            tuple(layout.strides[axis] for axis in self.kept),
            self.shape(layout.symbolic),
            tuple(layout.repeated[axis] for axis in self.kept),
        )


@record(eq=False)
class Measure(View):
    """A number that says how an array lies along an axis: its length, or its stride in bytes."""

    op = "measure"
    axis: int
    what: str

    def _spelled(self) -> str:
        return f"{self.axis} {self.what}"

    def __str__(self) -> str:
        """`.stride(0)`."""
        return f".{self.what}({self.axis})"

    def shape(self, shape: Shape) -> Shape:
        """One number."""
        return ()

    def layout(self, layout: Layout, sizes: Mapping[str, int]) -> Layout:
        """No memory: the number is where it would lie."""
        numbers = layout.shape if self.what == "length" else layout.strides
        return Layout(numbers[self.axis], (), (), (), ())


def apply_views(array: Any, views: Sequence[View], sizes: Mapping[str, int], module: Any) -> Any:
    """A real array through views, by its own module's functions; reshapes may copy."""
    for view in views:
        array = view.of(array, sizes, module)
    return array


def compose(first: Chain, then: Chain) -> Chain:
    """Views one after another, merged where two are one."""
    chain = list(first)
    for view in then:
        if chain and (merged := _then(chain[-1], view)) is not None:
            chain[-1:] = merged
        else:
            chain.append(view)
    return tuple(chain)


@memo(16384)
def _then(first: View, view: View) -> Chain | None:
    """Kept: plans compose the same views again and again."""
    return first.then(view)


def insert_axes(rank: int, axes: Sequence[int]) -> Index:
    """The view that puts reduced axes back with length 1."""
    return Index.of_parts([None if axis in axes else FULL for axis in range(rank)])


@memo(4096)
def seen_through(shape: Shape, views: Chain) -> Seen | None:
    """An array of `shape` through views; None where axes of it are merged or split."""
    return seen_of_box(full_box(shape), views, shape)


def seen_of_box(box: Box, views: Chain, shape: Shape | None = None) -> Seen | None:
    """A box of an array through views; None where axes of it are merged or split."""
    lengths = tuple(dims.steps(*span) for span in box) if shape is None else shape
    ends = (True,) * len(lengths)
    seen: Seen | None = Seen(tuple(range(len(lengths))), ends, lengths, True, box)
    for view in views:
        seen = seen and view.seen(seen)
    return seen


def spans(shape: Shape, views: Chain, target: Shape, axes: tuple[int, ...]) -> bool:
    """Whether views repeat a result of `shape` along the reduced axes and do nothing else."""
    kept = iter(range(len(shape)))
    wanted = tuple(None if axis in axes else next(kept, -1) for axis in range(len(target)))
    seen = seen_through(shape, views)
    return seen is not None and seen.whole and seen.axes == wanted


def repeats(shape: Shape, views: Chain, axes: tuple[int, ...]) -> bool:
    """Whether an array of `shape`, seen through views, is surely the same along some axes."""
    seen = seen_through(shape, views)
    return seen is not None and all(seen.axes[axis] is None for axis in axes)


def rises(chain: Chain, by: Mapping[str, int]) -> bool:
    """Whether other elements are seen when symbols rise by these numbers."""
    return any(isinstance(view, Part) and dims.rise(view.start, by) for view in chain)


def in_steps(chain: Chain) -> Iterator[tuple[View, bool]]:
    """Yield views, and whether one is a place, with the index behind it that drops its axis."""
    waiting = list(chain)
    while waiting:
        view = waiting.pop(0)
        place = isinstance(view, Part) and bool(waiting) and view.is_place_of(waiting[0])
        if place:
            del waiting[0]
        yield view, place
