"""Object files of x86-64 and aarch64, as LLVM makes them here, laid out and linked at an address.

Only what our own modules contain is understood; anything else is `UnknownObjectError`, and such a
file is linked by LLVM. A file becomes one piece of memory: what is never written (code,
constants, the addresses and jumps to functions outside) and, on pages of its own behind it, what
is.

Why not LLVM's own linker alone: it ends the process where memory is refused while it links
(`python -m tests.judges.faults --call mprotect` with `arena.arena` giving None), and it needs LLVM,
which a process that finds all code on disk does not load: decorator and first call take 44 ms of
processor time instead of 102. To link a kernel of 3 KB takes 0.065 ms instead of 0.25 (`_placed`
and `_linked` of `loader.py` in turn, least of 12).

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, version
1.0, section 4.4 (relocation types); ELF for the Arm 64-bit Architecture, 2023Q3, section 5.7
(relocations); "ELF-64 Object File Format", version 1.5.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from struct import Struct

from fuser.base.records import record

#: Of memory protection.
PAGE = 4096
#: Pieces of a file begin at multiples of this: a cache line.
_LINE = 64
#: Distances within a file fit in 32 bits.
_MOST_BYTES = 1 << 30

_HEADER = Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SYMBOL = Struct("<IBBHQQ")
_RELOCATION = Struct("<QIIq")
_ADDRESS, _DISTANCE, _WORD = Struct("<Q"), Struct("<i"), Struct("<I")

_RELOCATABLE = 1
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
#: How frames are unwound: nothing is thrown through our code.
_UNWIND, _UNWIND_NAME = 0x70000001, b".eh_frame"
_WRITE, _ALLOCATED, _CODE, _MERGE, _STRINGS, _INFO = 1, 2, 4, 0x10, 0x20, 0x40
_KNOWN_FLAGS = _WRITE | _ALLOCATED | _CODE | _MERGE | _STRINGS | _INFO
_GLOBAL = 1
#: No type, an object, a function, a section; nothing of a thread's own or found when called.
_KNOWN_KINDS = (0, 1, 2, 3)


class UnknownObjectError(Exception):
    """The file has something that our own modules never have."""


#: What a relocation asks for: an address; a place; a function; where an address is kept.
_TO_ADDRESS, _TO_PLACE, _TO_CALL, _TO_SLOT = range(4)
#: Writes into memory at a place how to come from there to a goal; both are offsets in memory.
_Put = Callable[[bytearray, int, int], None]


@record
class _Machine:
    """What files of a processor have.

    Attributes:
        number: in a file's head.
        jump: behind an address that is kept: the code that goes there.
        relocations: by kind: what it asks for, how many bytes that takes, and what writes them.
    """

    number: int
    jump: bytes
    relocations: Mapping[int, tuple[int, int, _Put]]


def _distance(image: bytearray, place: int, goal: int) -> None:
    """32 bits."""
    _DISTANCE.pack_into(image, place, goal - place)


def _instruction(image: bytearray, place: int, field: int, value: int) -> None:
    """Set the bits of an instruction that `field` has."""
    (word,) = _WORD.unpack_from(image, place)
    _WORD.pack_into(image, place, word & ~field | value & field)


def _branch(image: bytearray, place: int, goal: int) -> None:
    """26 bits, in instructions."""
    distance = goal - place
    if distance & 3 or not -(1 << 27) <= distance < 1 << 27:
        raise UnknownObjectError(f"a branch over {distance} bytes")
    _instruction(image, place, 0x03FFFFFF, distance >> 2)


def _page(image: bytearray, place: int, goal: int) -> None:
    """Distance of pages in 21 bits, of which the lowest two stand apart: memory begins a page."""
    pages = (goal >> 12) - (place >> 12)
    _instruction(image, place, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2) << 5)


def _in_page(shift: int) -> _Put:
    """An offset within a page, in 12 bits, in elements of so many bytes."""

    def put(image: bytearray, place: int, goal: int) -> None:
        if goal & (1 << shift) - 1:
            raise UnknownObjectError(f"an element of {1 << shift} bytes at {goal}")
        _instruction(image, place, 0x003FFC00, (goal & 0xFFF) >> shift << 10)

    return put


#: By the system's names of processors.
MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(
        62,
        bytes.fromhex("ff25 f2ffffff"),  # jmp *-14(%rip)
        {
            1: (_TO_ADDRESS, 8, _distance), 2: (_TO_PLACE, 4, _distance),
            4: (_TO_CALL, 4, _distance),
            **dict.fromkeys((9, 41, 42), (_TO_SLOT, 4, _distance)),
        },
    ),
    "aarch64": _Machine(
        183,
        bytes.fromhex("d0ffff58 00021fd6"),  # ldr x16, .-8; br x16
        {
            257: (_TO_ADDRESS, 8, _distance), 261: (_TO_PLACE, 4, _distance),
            **dict.fromkeys((282, 283), (_TO_CALL, 4, _branch)),
            275: (_TO_PLACE, 4, _page), 311: (_TO_SLOT, 4, _page),
            **{kind: (_TO_PLACE, 4, _in_page(shift))
               for kind, shift in ((277, 0), (278, 0), (284, 1), (285, 2), (286, 3), (299, 4))},
            312: (_TO_SLOT, 4, _in_page(3)),
        },
    ),
}  # fmt: skip
#: An address that is kept, and the jump there.
_SLOT_BYTES, _JUMP_AT = 16, 8


class ObjectFile:
    """A file that has been read, laid out, and linked but for addresses.

    Attributes:
        size_bytes: of its memory; whole pages.
        fixed_bytes: how much of that, from its beginning, is never written; whole pages.
        exports: offsets in memory of what it defines for others, by name.
        externals: functions outside that it needs: offsets of their addresses, by name.
    """

    def __init__(self, content: bytes, machine: str = "") -> None:
        """Read a file.

        Args:
            content: of the file.
            machine: of which processor it has to be; by default the one that this runs on.

        Raises:
            UnknownObjectError: it is damaged, or has something that is not known here.
        """
        self._content = content
        self._machine = MACHINES[machine or os.uname().machine]
        self.exports: dict[str, int] = {}
        self.externals: dict[str, int] = {}
        self._addresses: list[tuple[int, int]] = []  # places that want one, offsets in memory
        try:
            self._read()
        except (struct.error, IndexError, ValueError) as error:
            raise UnknownObjectError(f"a damaged object file: {error}") from None

    def linked_at(self, base: int, addresses: Mapping[str, int]) -> bytearray:
        """The memory's content if it begins at an address, a page's first.

        Args:
            base: the address.
            addresses: of all `externals`.
        """
        image = self._image[:]
        for name, place in self.externals.items():
            _ADDRESS.pack_into(image, place, addresses[name])
        for place, goal in self._addresses:
            _ADDRESS.pack_into(image, place, base + goal)
        return image

    def _read(self) -> None:
        """Read and link everything."""
        magic, wide, little, version, kind, machine, *rest = _HEADER.unpack_from(self._content)
        head = (magic, wide, little, version, kind, machine)
        if head != (b"\x7fELF", 2, 1, 1, _RELOCATABLE, self._machine.number):
            raise UnknownObjectError("no relocatable object file of this machine")
        start, entry_bytes, count, names = rest[3], rest[8], rest[9], rest[10]
        if entry_bytes != _SECTION.size or not count:
            raise UnknownObjectError("section headers of another form")
        self._headers: list[tuple[int, ...]] = list(
            _SECTION.iter_unpack(self._content[start : start + count * entry_bytes])
        )
        fixed, written = self._loaded(names)
        symbols = [header for header in self._headers if header[1] == _SYMTAB]
        if len(symbols) != 1:
            raise UnknownObjectError(f"{len(symbols)} tables of symbols")
        table = list(_SYMBOL.iter_unpack(self._bytes_of(symbols[0])))
        exported = [k for k, (_, info, *_) in enumerate(table) if info >> 4 == _GLOBAL]
        self._lay_out(fixed, written, exported)
        self._read_symbols(table, self._bytes_of(self._headers[symbols[0][6]]))
        for header in self._headers:
            if header[1] == _RELA and header[7] in self._places:
                self._link(header)

    def _bytes_of(self, header: tuple[int, ...]) -> bytes:
        """What the file holds of a section."""
        offset, size = header[4:6]
        found = self._content[offset : offset + size]
        if len(found) != size:
            raise ValueError("a section lies beyond the end")
        return found

    def _loaded(self, names: int) -> tuple[list[int], list[int]]:
        """Numbers of the sections that are loaded: what is never written, and what is."""
        texts = self._bytes_of(self._headers[names])
        fixed: list[int] = []
        written: list[int] = []
        for number, (name, kind, flags, _, _, size, *_, align, _) in enumerate(self._headers):
            if kind in (_NULL, _SYMTAB, _STRTAB, _RELA):
                continue
            if kind == _UNWIND or texts.startswith(_UNWIND_NAME + b"\0", name):
                continue
            if kind not in (_PROGBITS, _NOBITS) or flags & ~_KNOWN_FLAGS or align > PAGE:
                raise UnknownObjectError(f"a section of kind {kind:#x} with flags {flags:#x}")
            if size > _MOST_BYTES:
                raise UnknownObjectError(f"a section of {size} bytes")
            if flags & _ALLOCATED:
                (written if flags & _WRITE else fixed).append(number)
        return fixed, written

    def _lay_out(self, fixed: list[int], written: list[int], exported: list[int]) -> None:
        """Decide where in memory everything goes, and copy the sections there."""
        self._places: dict[int, int] = {}  # by section's number
        self._slots: dict[int, int] = {}  # by symbol's number
        at = 0
        for number in fixed:
            at = self._place(number, at)
        at = _up(at, _LINE)
        for symbol in exported:
            self._slots[symbol] = at
            at += _SLOT_BYTES
        at = self.fixed_bytes = _up(at, PAGE)
        for number in written:
            at = self._place(number, at)
        self.size_bytes = _up(at, PAGE)
        if self.size_bytes > _MOST_BYTES:
            raise UnknownObjectError("distances may not fit in 32 bits")
        self._image = bytearray(self.size_bytes)
        for number, place in self._places.items():
            if self._headers[number][1] == _PROGBITS:
                content = self._bytes_of(self._headers[number])
                self._image[place : place + len(content)] = content

    def _place(self, number: int, at: int) -> int:
        """Give a section its place; returns where the next one may begin."""
        header = self._headers[number]
        place = self._places[number] = _up(at, max(header[8], _LINE))
        return place + header[5]

    def _read_symbols(self, table: list[tuple[int, ...]], names: bytes) -> None:
        """Find out where symbols lie, and the names of those that others know."""
        places, slots = self._places, self._slots
        #: By symbol's number: the offset in memory, or None where it lies elsewhere.
        self._goals: list[int | None] = []
        self._outside: dict[int, str] = {}
        for number, (name, info, _, section, value, _) in enumerate(table):
            goal = None
            if section in places and info & 15 in _KNOWN_KINDS and info >> 4 <= _GLOBAL:
                goal = places[section] + value
            self._goals.append(goal)
            if number in slots:
                text = names[name : names.index(b"\0", name)].decode()
                if goal is not None:
                    self.exports[text] = goal
                elif section == 0 and info & 15 == 0 and text:
                    self._outside[number] = text

    def _link(self, header: tuple[int, ...]) -> None:
        """Write what a table of relocations asks for."""
        base, limit = self._places[header[7]], self._headers[header[7]][5]
        goals, image, known = self._goals, self._image, self._machine.relocations
        for offset, kind, symbol, addend in _RELOCATION.iter_unpack(self._bytes_of(header)):
            goal = goals[symbol]
            wanted, size, put = known.get(kind, (_TO_PLACE, limit + 1, _distance))
            if offset + size > limit:
                raise UnknownObjectError(f"a relocation of kind {kind} at {offset}")
            place = base + offset
            if wanted == _TO_ADDRESS:
                if goal is None:
                    raise UnknownObjectError("data with an address that lies elsewhere")
                self._addresses.append((place, goal + addend))
                continue
            if goal is None or wanted == _TO_SLOT:
                goal = self._slot(symbol, wanted)
            put(image, place, goal + addend)

    def _slot(self, symbol: int, wanted: int) -> int:
        """The address of a symbol in memory, or the jump to it."""
        slot = self._slots.get(symbol)
        goal = self._goals[symbol]
        if slot is None or (goal is None and symbol not in self._outside):
            raise UnknownObjectError("a symbol that is not loaded, or of a kind that is not known")
        if goal is not None:
            self._addresses.append((slot, goal))
            return slot
        self.externals[self._outside[symbol]] = slot
        if wanted == _TO_SLOT:
            return slot
        if wanted != _TO_CALL:
            raise UnknownObjectError("a distance to what lies elsewhere")
        jump, at = self._machine.jump, slot + _JUMP_AT
        self._image[at : at + len(jump)] = jump
        return at


def _up(value: int, to: int) -> int:
    """The next multiple."""
    return -(-value // to) * to
