"""All loop nests of a call, one after another, through one native call.

The table of a sequence holds, for each loop nest, ten words (function, extents, how the work is
shared among threads, size of its block) and then its block of arguments. Only addresses and
scalars change from call to call. Temporaries lie in one workspace; a part of it is used again
when the temporary that it held is dead.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from fuser import native_call
from fuser.backends.cpu import workers
from fuser.backends.cpu.fused_kernel import FusedKernelCPU
from fuser.launch import Launch, pack_scalars

HEAD_WORDS = 10
#: Temporaries start at multiples of this many bytes.
ALIGNMENT = 64

_TEXT = """\
define i32 @sequence(ptr %base, i64 %count, ptr %team) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %p = phi ptr [ %base, %entry ], [ %following, %next ]
  %status = phi i32 [ 0, %entry ], [ %joined, %next ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %work, label %done
work:
  %fn = load ptr, ptr %p
  %outer.at = getelementptr i8, ptr %p, i64 8
  %outer = load i64, ptr %outer.at
  %inner.at = getelementptr i8, ptr %p, i64 16
  %inner = load i64, ptr %inner.at
  %helpers.at = getelementptr i8, ptr %p, i64 56
  %helpers = load i64, ptr %helpers.at
  %words.at = getelementptr i8, ptr %p, i64 64
  %words = load i64, ptr %words.at
  %block = getelementptr i8, ptr %p, i64 80
  %following = getelementptr i64, ptr %block, i64 %words
  %alone = icmp eq i64 %helpers, 0
  br i1 %alone, label %plain, label %shared
plain:
  %s0 = call i32 %fn(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  br label %next
shared:
  %ochunk.at = getelementptr i8, ptr %p, i64 24
  %ochunk = load i64, ptr %ochunk.at
  %ichunk.at = getelementptr i8, ptr %p, i64 32
  %ichunk = load i64, ptr %ichunk.at
  %iparts.at = getelementptr i8, ptr %p, i64 40
  %iparts = load i64, ptr %iparts.at
  %total.at = getelementptr i8, ptr %p, i64 48
  %total = load i64, ptr %total.at
  %h = trunc i64 %helpers to i32
  %s1 = call i32 %team(ptr %fn, ptr %block, i64 %outer, i64 %inner, i64 %ochunk, i64 %ichunk,
                       i64 %iparts, i64 %total, i32 %h)
  br label %next
next:
  %s = phi i32 [ %s0, %plain ], [ %s1, %shared ]
  %joined = or i32 %status, %s
  %k1 = add i64 %k, 1
  br label %loop
done:
  ret i32 %status
}
"""


@cache
def _native() -> Any:
    """The native loop over a table."""
    from fuser.backends.cpu.native import load_forever

    address = load_forever(_TEXT, ("sequence",), quick=True)["sequence"]
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(address)


_lock = threading.Lock()


def _function() -> Any:
    """The native loop, made once."""
    with _lock:
        return _native()


class Sequence:
    """A bound launch as one table."""

    def __init__(self, launch: Launch) -> None:
        """Lay the table out; `launch` must need no copies."""
        self._backend = launch.backend
        self._run = _function()
        self._team = 0
        self._words: list[int] = []
        self._places: list[tuple[int, str, int]] = []
        self._scalars: list[tuple[int, Any]] = []
        self._heads: list[int] = []
        self._count = 0
        temporaries = {f.name: f for f in launch.fresh if f.name.startswith("t")}
        self._offsets, self._workspace = _workspace(launch, temporaries)
        self._outputs = [f for f in launch.fresh if f.name not in temporaries]
        self._nests: list[tuple[FusedKernelCPU, int, Any]] = []
        for group in launch.groups:
            assert isinstance(group.kernel, FusedKernelCPU)
            for number, section in group.sections:
                self._add(group.kernel, number, section)
        self._mode = 0
        self._share_out()

    def _share_out(self) -> None:
        """Divide the work among the threads that are allowed now."""
        self._mode = native_call.MODE_WORD.value
        threads = workers.thread_count() if workers.supported() else 1
        for at, (kernel, number, extent) in zip(self._heads, self._nests, strict=True):
            self._words[at + 3 : at + 8] = kernel.share(number, extent, threads)[3:8]
        team = workers.workers() if any(self._words[at + 7] for at in self._heads) else None
        if team is not None:
            team.start(threads - 1)
            self._team = team.team_address

    def _add(self, kernel: FusedKernelCPU, number: int, section: Any) -> None:
        """Append one loop nest."""
        head = kernel.share(number, section.extent, 1)
        self._nests.append((kernel, number, section.extent))
        pointers = len(section.operands)
        rest = struct.unpack(f"={len(section.rest) // 8}q", section.rest)
        at = len(self._words)
        self._heads.append(at)
        size = pointers + len(rest) + len(section.scalars)
        self._words += [*head, size, 0, *[0] * pointers, *rest, *[0] * len(section.scalars)]
        first = at + HEAD_WORDS
        for k, (name, offset) in enumerate(section.operands):
            self._places.append((first + k, name, offset))
        if section.scalars:
            self._scalars.append((first + pointers + len(rest), section.scalars))
        self._words[at] = kernel.streaming_address(number, section.extent) or head[0]
        self._count += 1

    def run(self, arrays: dict[str, Any], numbers: Mapping[str, Any]) -> int:
        """Allocate outputs into `arrays` and run every loop nest.

        Args:
            arrays: by buffer name: arguments and given outputs; filled with the rest.
            numbers: values of scalars and lengths.

        Returns:
            0, or not 0 when a kernel met a value for which NumPy raises.

        Raises:
            OverflowError: a Python integer does not fit the dtype that it meets.
        """
        if native_call.MODE_WORD.value != self._mode:
            self._share_out()
        words = self._words.copy()
        for at, wanted in self._scalars:
            packed = pack_scalars(wanted, numbers)
            words[at : at + len(wanted)] = struct.unpack(f"={len(wanted)}q", packed)
        for entry in self._outputs:
            if entry.name not in arrays:
                arrays[entry.name] = entry.make(self._backend)
        address = self._backend.address
        bases = {name: address(array) for name, array in arrays.items()}
        if self._workspace:
            room = self._backend.empty((self._workspace,), _BYTE)
            start = -(-address(room) // ALIGNMENT) * ALIGNMENT
            bases.update((name, start + offset) for name, offset in self._offsets.items())
        for at, name, offset in self._places:
            words[at] = bases[name] + offset
        table = struct.pack(f"={len(words)}q", *words)
        return int(self._run(table, self._count, self._team))


_BYTE = np.dtype(np.uint8)


def _workspace(launch: Launch, temporaries: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Places of temporaries in one workspace, and its size in bytes.

    A temporary lives from the first kernel that names it to the last. First fit: a place is
    taken again as soon as it is free and large enough.
    """
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for step, group in enumerate(launch.groups):
        for _, section in group.sections:
            for name, _ in section.operands:
                if name in temporaries:
                    born.setdefault(name, step)
                    dies[name] = step
    offsets: dict[str, int] = {}
    taken: list[tuple[int, int, str]] = []
    size = 0
    for name in sorted(born, key=lambda n: (born[n], n)):
        entry = temporaries[name]
        count = 1
        for length in entry.shape:
            count *= length
        need = -(-max(count * entry.dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
        taken = sorted(part for part in taken if dies[part[2]] >= born[name])
        place = 0
        for begin, end, _ in taken:
            if begin - place >= need:
                break
            place = max(place, end)
        offsets[name] = place
        taken.append((place, place + need, name))
        size = max(size, place + need)
    return offsets, size + ALIGNMENT if offsets else 0


def make(launch: Launch) -> Sequence | None:
    """A sequence for a bound launch, or None where it needs steps in Python."""
    if any(group.copies for group in launch.groups) or not native_call.supported():
        return None
    if not launch.groups or not workers.supported():
        return None
    return Sequence(launch)
