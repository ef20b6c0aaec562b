"""Reductions over chunks: what each chunk gives, and how several such results become one.

A chunk gives the partial results of all reductions of one pass. Two of a kind that follow one
another are one pass: a sum of exponentials after the greatest element (softmax, logsumexp), and
a sum of squares after the mean (variances). There each chunk takes its own greatest element, or
its own mean, and what that changes is made up for when results of chunks meet:

    sum(exp(x - m)) = sum over chunks of exp(m_c - m) * sum(exp(x - m_c))
    sum((x - u)**2) = sum over chunks of sum((x - u_c)**2) + 2 * d_c * r_c + n_c * d_c**2

with d_c = u_c - u and r_c = sum(x - u_c), what rounding leaves of the mean: without it, variances
of values far from zero would lose as many digits as the distance has.

Source:
    Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, 2018.
    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.records import record


@record
class Partial:
    """One reduction of a pass.

    Attributes:
        kind: the ufunc that joins two partial results ("add" …), "place" (positions of extremes),
            "exponentials" or "squares" (see above).
        slot: which of a chunk's results is its own.
        beside: the slot of the extreme elements, or of what the chunk's own values are around.
        greatest: of positions: of the greatest elements.
        rest: of squares: the slot of the sum of what is squared.
        dtype: of the result.
    """

    kind: str
    slot: int
    dtype: str
    beside: int = -1
    greatest: bool = False
    rest: int = -1


class Combine:
    """Joins the partial results of chunks."""

    def __init__(
        self, partials: Sequence[Partial], axes: Sequence[int], last: bool, single: bool
    ) -> None:
        """Say what is joined.

        Args:
            partials: the reductions of the pass.
            axes: that are reduced; they are of length 1 in partial results.
            last: the results are whole, and lose these axes.
            single: the pass has one reduction, whose result is given and no tuple.
        """
        self.partials = tuple(partials)
        self.axes = tuple(axes)
        self.last = last
        self.single = single

    def __call__(self, *parts: Any, chunks: Sequence[tuple[int, int]] = ()) -> Any:
        """Join them.

        Args:
            parts: of each chunk, or of several already: a tuple with the slots, and at its end how
                many elements it is of.
            chunks: for results of chunks: where each begins along the axis, and its elements.
        """
        if chunks:
            parts = tuple(self._of_chunk(part, *of) for part, of in zip(parts, chunks, strict=True))
        counts = [part[-1] for part in parts]
        slots = [np.stack([part[slot] for part in parts]) for slot in range(len(parts[0]) - 1)]
        joined = list(slots)
        with np.errstate(all="ignore"):
            for each in self.partials:
                self._join(each, slots, counts, joined)
        if not self.last:
            return (*joined, sum(counts))
        found = tuple(
            np.squeeze(joined[each.slot], self.axes).astype(each.dtype, copy=False)[()]
            for each in self.partials
        )
        return found[0] if self.single else found

    def _of_chunk(self, part: Any, start: int, count: int) -> tuple[Any, ...]:
        """A chunk's results, with positions in the whole array."""
        found = list(part) if type(part) is tuple else [part]
        for each in self.partials:
            if each.kind == "place":
                found[each.slot] = found[each.slot] + start
        return (*found, count)

    def _join(
        self, each: Partial, slots: list[Any], counts: list[int], joined: list[Any]
    ) -> None:
        """Join the results of one reduction."""
        own = slots[each.slot]
        if each.kind == "place":
            beside = slots[each.beside]
            found = (np.argmax if each.greatest else np.argmin)(beside, axis=0)[None]
            joined[each.slot] = np.take_along_axis(own, found, 0)[0]
            joined[each.beside] = np.take_along_axis(beside, found, 0)[0]
        elif each.kind == "exponentials":
            around = slots[each.beside]
            whole = np.maximum.reduce(around)
            part = np.where(np.isneginf(around), 0, own * np.exp(around - whole))
            joined[each.slot] = np.add.reduce(np.where(around == whole, own, part), axis=0)
        elif each.kind == "squares":
            sums = slots[each.beside]
            number = np.reshape(np.asarray(counts, own.dtype), (-1, *[1] * (own.ndim - 1)))
            mean = np.add.reduce(sums) / own.dtype.type(sum(counts))
            apart, rest = sums / number - mean, slots[each.rest]
            joined[each.slot] = np.add.reduce(own + apart * (2 * rest + number * apart))
            joined[each.rest] = np.add.reduce(rest + number * apart)
        else:
            joined[each.slot] = getattr(np, each.kind).reduce(own, axis=0)

    def __reduce__(self) -> tuple[Any, ...]:
        """By what it was made with."""
        return type(self), (self.partials, self.axes, self.last, self.single)

    def __dask_tokenize__(self) -> Any:
        """What it was made with, as text."""
        return type(self).__name__, repr((self.partials, self.axes, self.last, self.single))
