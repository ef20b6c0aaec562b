"""The kernels that one section of a unit has; a compilation makes one variant of all of them."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.codegen import LoopNest


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a section.

    Attributes:
        wide: 64-bit indices, otherwise 32-bit ones.
        split: several blocks share a row: reductions alone have it.
    """

    wide: bool = False
    split: bool = False

    @property
    def name(self) -> str:
        """`narrow`, `wide`, `split_narrow` or `split_wide`."""
        return ("split_" if self.split else "") + ("wide" if self.wide else "narrow")

    @property
    def bits(self) -> int:
        """Of an index."""
        return 64 if self.wide else 32

    @property
    def defines(self) -> tuple[str, ...]:
        """Compiler options that leave all other variants out."""
        return (f"-DINDEX_BITS={self.bits}", f"-DSPLIT_ROWS={int(self.split)}")

    @property
    def condition(self) -> str:
        """What the preprocessor asks: every variant is there where nothing is defined."""
        split = f"(!defined(SPLIT_ROWS) || SPLIT_ROWS == {int(self.split)})"
        return f"(!defined(INDEX_BITS) || INDEX_BITS == {self.bits}) && {split}"

    def entry(self, name: str, section: int) -> str:
        """The kernel's name."""
        return f"{name}_{section}_{self.name}"


NARROW = Variant()


def variants_of(nest: LoopNest) -> list[Variant]:
    """The kernels of a section."""
    splits = (False,) if nest.strategy == "map" else (False, True)
    return [Variant(wide, split) for split in splits for wide in (False, True)]
