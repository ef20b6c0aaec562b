"""How a loop nest is run, as one typed record: the names are those of Halide, TVM and XLA.

A nest says what is computed, a schedule how. Which schedules a nest has is said by
`legal_schedules`, which of them is taken by `choose`; the text of a kernel follows from nest,
schedule and processor alone.
"""

from __future__ import annotations

from typing import Literal

from fuser.base.errors import FuserError
from fuser.base.records import record


class IllegalScheduleError(FuserError, ValueError):
    """A schedule does not compute this loop nest."""


@record
class Schedule:
    """How a loop nest is run. The defaults are legal for every nest.

    Attributes:
        vector_axis: the loop that vectors run along: the innermost one in memory, or the one next
            to it, whose elements are apart.
        layout: how a vector along the strided axis is loaded: lane by lane, by shuffles of whole
            vectors (AoS to SoA), or from a copy in scratch memory, into which operands are
            transposed.
        flattened: loops outside the innermost one that are joined with it into one long loop.
        unroll: iterations of the reduced loop that are written out, all that it has; 0: a loop.
            Of rows in vectors along them, these are vectors; else elements.
        tail: whether the last unrolled vector is masked.
        tile: rows of a batch, or columns of a packed tile, at most; 0: what the loop has.
        combine: how lanes of one row's partial results become its result: by a tree for each row,
            or for a batch of rows at once after a transposition of lanes.
        accumulate: the order of a sum along the reduced loop: blocks, whose sums are added with
            their rounding errors; one chain; some chains; or pairs, and pairs of these.
        passes: whether each stage of a reduction reads its elements, or one pass serves all.
        split: whether a reduction is computed in parts, and whether each thread that needs the
            result waits for all parts, or the thread that ends the last one does what is left.
        vectors: native vectors of one iteration of a light nest that reduces nothing; where a nest
            is repeated, 2 are as many as go through all iterations together.
        store: whether results are written past the caches where they are aligned.
    """

    vector_axis: Literal["contiguous", "strided"] = "contiguous"
    layout: Literal["direct", "gather", "deinterleave", "pack"] = "direct"
    flattened: int = 0
    unroll: int = 0
    tail: Literal["masked", "none"] = "masked"
    tile: int = 0
    combine: Literal["tree", "lane_transpose"] = "tree"
    accumulate: Literal["blocked", "plain", "chained", "pairwise"] = "blocked"
    passes: Literal["staged", "online"] = "staged"
    split: Literal["none", "await", "last_joins"] = "none"
    vectors: Literal[1, 2] = 2
    store: Literal["normal", "streaming"] = "normal"

    def __str__(self) -> str:
        """The fields that are not the default's, in words."""
        names = type(self).__match_args__
        pairs = [(name, getattr(self, name), getattr(DEFAULT, name)) for name in names]
        return " ".join(f"{name}={value}" for name, value, usual in pairs if value != usual)


DEFAULT = Schedule()
