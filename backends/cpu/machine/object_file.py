"""x86-64 object files, as LLVM makes them here, laid out and linked at an address.

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
1.0, section 4.4 (relocation types); "ELF-64 Object File Format", version 1.5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from struct import Struct

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
_ADDRESS, _DISTANCE = Struct("<Q"), Struct("<i")

_RELOCATABLE, _X86_64 = 1, 62
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
#: How frames are unwound: nothing is thrown through our code.
_UNWIND, _UNWIND_NAME = 0x70000001, b".eh_frame"
_WRITE, _ALLOCATED, _CODE, _MERGE, _STRINGS, _INFO = 1, 2, 4, 0x10, 0x20, 0x40
_KNOWN_FLAGS = _WRITE | _ALLOCATED | _CODE | _MERGE | _STRINGS | _INFO
_GLOBAL = 1
#: No type, an object, a function, a section; nothing of a thread's own or found when called.
_KNOWN_KINDS = (0, 1, 2, 3)

#: Relocations: an address; distances to a place, to a function, to where an address is kept.
_TO_ADDRESS, _TO_DISTANCE, _TO_CALL, _TO_SLOTS = 1, 2, 4, (9, 41, 42)
#: How many bytes each writes.
_KNOWN_RELOCATIONS = {_TO_ADDRESS: 8, _TO_DISTANCE: 4, _TO_CALL: 4, **dict.fromkeys(_TO_SLOTS, 4)}

#: An address, and behind it `jmp *address(%rip)`: how far back it is, in the last four bytes.
_SLOT = Struct("<Q2si2x")
_JUMP, _JUMP_AT = b"\xff\x25", 8
_BACK = -(_JUMP_AT + len(_JUMP) + 4)


class UnknownObjectError(Exception):
    """The file has something that our own modules never have."""


class ObjectFile:
    """A file that has been read, laid out, and linked but for addresses.

    Attributes:
        size_bytes: of its memory; whole pages.
        fixed_bytes: how much of that, from its beginning, is never written; whole pages.
        exports: offsets in memory of what it defines for others, by name.
        externals: functions outside that it needs: offsets of their addresses, by name.
    """

    def __init__(self, content: bytes) -> None:
        """Read a file.

        Raises:
            UnknownObjectError: it is damaged, or has something that is not known here.
        """
        self._content = content
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
        if head != (b"\x7fELF", 2, 1, 1, _RELOCATABLE, _X86_64):
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
            at += _SLOT.size
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
        goals, image, put = self._goals, self._image, _DISTANCE.pack_into
        for offset, kind, symbol, addend in _RELOCATION.iter_unpack(self._bytes_of(header)):
            goal = goals[symbol]
            if kind not in _KNOWN_RELOCATIONS or offset + _KNOWN_RELOCATIONS[kind] > limit:
                raise UnknownObjectError(f"a relocation of kind {kind} at {offset}")
            place = base + offset
            if kind == _TO_ADDRESS:
                if goal is None:
                    raise UnknownObjectError("data with an address that lies elsewhere")
                self._addresses.append((place, goal + addend))
                continue
            if goal is None or kind in _TO_SLOTS:
                goal = self._slot(symbol, kind)
            put(image, place, goal + addend - place)

    def _slot(self, symbol: int, kind: int) -> int:
        """The address of a symbol in memory, or the jump to it."""
        slot = self._slots.get(symbol)
        goal = self._goals[symbol]
        if slot is None or (goal is None and symbol not in self._outside):
            raise UnknownObjectError("a symbol that is not loaded, or of a kind that is not known")
        if goal is not None:
            self._addresses.append((slot, goal))
            return slot
        self.externals[self._outside[symbol]] = slot
        if kind in _TO_SLOTS:
            return slot
        if kind != _TO_CALL:
            raise UnknownObjectError("a distance to what lies elsewhere")
        _SLOT.pack_into(self._image, slot, 0, _JUMP, _BACK)
        return slot + _JUMP_AT


def _up(value: int, to: int) -> int:
    """The next multiple."""
    return -(-value // to) * to
