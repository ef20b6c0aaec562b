"""The kernels that one section of a unit has; a compilation makes one variant of all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a section.

    Attributes:
        wide: 64-bit indices, otherwise 32-bit ones.
        split: several blocks share a row: reductions alone have it.
        held: vectors of a row that each of its threads holds in registers; 0: none.
        tail: the row has more of them, which shared memory keeps.
        odd: rows that are not of whole vectors, or begin between them.
        tiles: what lies across is read through tiles in shared memory; maps alone have it.
        cluster: blocks that share a row and read each other's shared memory: a power of two.
        ahead: the next row is copied to shared memory while one is computed.
    """

    wide: bool = False
    split: bool = False
    held: int = 0
    tail: bool = False
    odd: bool = False
    tiles: bool = False
    cluster: int = 1
    ahead: bool = False

    @property
    def name(self) -> str:
        """`narrow` or `wide`, after `held_`, `split_`, `long_` (both) or `tiles_` if it is such."""
        kind = "held_" if self.held else "tiles_" if self.tiles else ""
        if self.split:
            kind = "long_" if self.held else "split_"
        return kind + ("wide" if self.wide else "narrow")

    @property
    def bits(self) -> int:
        """Of an index."""
        return 64 if self.wide else 32

    @property
    def defines(self) -> tuple[str, ...]:
        """Compiler options that leave all other variants out."""
        return (
            f"-DINDEX_BITS={self.bits}",
            f"-DSPLIT_ROWS={int(self.split)}",
            f"-DHELD_ROWS={self.held}",
            f"-DHELD_TAIL={int(self.tail)}",
            f"-DODD_ROWS={int(self.odd)}",
            f"-DTILES={int(self.tiles)}",
            f"-DCLUSTER={self.cluster}",
            f"-DAHEAD={int(self.ahead)}",
        )

    @property
    def condition(self) -> str:
        """What the preprocessor asks: every variant is there where nothing is defined."""
        asked = [
            ("INDEX_BITS", f"INDEX_BITS == {self.bits}"),
            ("SPLIT_ROWS", f"SPLIT_ROWS == {int(self.split)}"),
            ("HELD_ROWS", "HELD_ROWS > 0" if self.held else "HELD_ROWS == 0"),
            ("TILES", f"TILES == {int(self.tiles)}"),
        ]
        return " && ".join(f"(!defined({name}) || {test})" for name, test in asked)

    def entry(self, name: str, section: int) -> str:
        """The kernel's name."""
        return f"{name}_{section}_{self.name}"


NARROW = Variant()
