"""All loop nests of a call, one after another, through one native call.

The table of a sequence holds, for each loop nest, ten words (function, extents, how the work is
shared among threads, size of its block) and then its block of arguments. Only addresses and
scalars change from call to call. Temporaries lie in one workspace; a part of it is used again
when the temporary that it held is dead.
"""

from __future__ import annotations

import ctypes
import math
import struct
from array import array
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import CompileError
from fuser.backends.cpu.fused_kernel import PROTOTYPE, FusedKernelCPU
from fuser.backends.cpu.machine import layout, workers
from fuser.backends.cpu.machine.loader import load_forever
from fuser.base import config, forks
from fuser.calls import native_call
from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.specs import is_counted
from fuser.runtime.launch import BoundGroup, Fresh, Launch, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.cpu.reducing.row_chain import RowChain

HEAD_WORDS = len(layout.FIELDS["HEAD"])
#: Words of a head that say how threads share the work; how many help is the last one.
_SHARED = slice(layout.place("HEAD", "outer_chunk"), layout.place("HEAD", "words"))
#: Temporaries start at multiples of this many bytes.
ALIGNMENT = 64

TEXT = layout.spell_out("""\
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
  %outer = get i64 %p HEAD.outer
  %inner = get i64 %p HEAD.inner
  %helpers = get i64 %p HEAD.helpers
  %words = get i64 %p HEAD.words
  %block = getelementptr i8, ptr %p, i64 HEAD.size
  %following = getelementptr i64, ptr %block, i64 %words
  %alone = icmp eq i64 %helpers, 0
  br i1 %alone, label %plain, label %shared
plain:
  %s0 = call i32 %fn(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  br label %next
shared:
  %ochunk = get i64 %p HEAD.outer_chunk
  %ichunk = get i64 %p HEAD.inner_chunk
  %iparts = get i64 %p HEAD.inner_chunks
  %total = get i64 %p HEAD.chunks
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
""")


@cache
def native() -> Any:
    """The native loop over a table.

    Raises:
        CompileError: the system lets no more code run.
    """
    address = load_forever(TEXT, ("sequence",), quick=True)["sequence"]
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(address)


@cache
def _native() -> Any:
    """The native loop; None where it cannot be."""
    try:
        return native()
    except CompileError:
        return None


_lock = forks.lock()


def _function() -> Any:
    """The native loop, made once; None where it cannot be."""
    if not _native.cache_info().currsize and forks.imports_here():
        return None  # others may hold the lock and wait for that import
    with _lock:
        return _native()


class Table:
    """Where everything lies in the table of a bound launch, and what changes from call to call.

    Attributes:
        words: the table; places of addresses hold offsets from their buffer's start.
        places: (word, buffer name) of each operand.
        scalars: (first word, wanted scalars) of each loop nest that has some.
        moves: (word, expression, bytes): what integer arguments add to an operand's offset.
        heads: first word of each loop nest.
        nests: (kernel, section number, extent) of each loop nest; a chain is one.
        outputs: arrays to allocate.
        temporaries: arrays that live during one call.
        offsets: where each temporary lies in the workspace.
        workspace_bytes: the workspace's size.
    """

    def __init__(self, launch: Launch, *, shared: bool = True) -> None:
        """Lay the table out; `launch` must need no copies.

        Args:
            launch: the bound launch.
            shared: threads may share its work. Else its lengths may be symbolic, and temporaries
                have no places in a workspace.
        """
        self._shared = shared
        self.words: list[int] = []
        self.places: list[tuple[int, str]] = []
        self.scalars: list[tuple[int, Any]] = []
        self.moves: list[tuple[int, Dim, int]] = []
        self.heads: list[int] = []
        self.nests: list[tuple[FusedKernelCPU | RowChain, int, Any]] = []
        temporaries = {f.name: f for f in launch.fresh if f.name.startswith("t")}
        self.outputs = [f for f in launch.fresh if f.name not in temporaries]
        kept = {n for group in launch.groups if group.blocks for n in group.blocks.kept}
        self.temporaries = {n: f for n, f in temporaries.items() if n not in kept}
        placed = self.temporaries if shared else {}
        self.offsets, self.workspace_bytes = _workspace(launch, placed)
        for group in launch.groups:
            assert isinstance(group.kernel, FusedKernelCPU)
            if group.blocks is not None:
                self._add_chain(group, temporaries)
                continue
            for number, section in group.sections:
                self._add(group.kernel, number, section)

    def _add(self, kernel: FusedKernelCPU, number: int, section: Any) -> None:
        """Append one loop nest."""
        if self._shared:
            head = kernel.share(number, section.extent, 1)
        else:
            head = [0, *section.extent[:2], *[0] * 5]
        self.nests.append((kernel, number, section.extent))
        pointers = len(section.operands)
        rest = section.rest
        if isinstance(rest, bytes):
            rest = struct.unpack(f"={len(rest) // 8}q", rest)
        at = len(self.words)
        self.heads.append(at)
        size = pointers + len(rest) + len(section.scalars)
        offsets = [offset for _, offset in section.operands]
        self.words += [*head, size, 0, *offsets, *rest, *[0] * len(section.scalars)]
        first = at + HEAD_WORDS
        self.places += [
            (first + k, name)
            for k, (name, _) in enumerate(section.operands)
            if not is_counted(name)  # they start at address 0
        ]
        self.moves += [(first + k, index, step) for k, index, step in section.moves]
        if section.scalars:
            self.scalars.append((first + pointers + len(rest), section.scalars))
        self.words[at] = kernel.address_of(number, section.extent)

    def _add_chain(self, group: BoundGroup, fresh: Mapping[str, Fresh]) -> None:
        """Append loop nests that run by rows, as one."""
        from fuser.backends.cpu.reducing.row_chain import RowChain  # few calls need it

        assert group.blocks is not None
        sizes = {
            name: math.prod(fresh[name].shape) * fresh[name].dtype.itemsize
            for name in sorted(group.blocks.kept)
        }
        chain = RowChain(group, sizes)
        at = len(self.words)
        first = at + HEAD_WORDS
        self.heads.append(at)
        self.nests.append((chain, 0, None))
        self.words += [*chain.share(0, None, 1), len(chain.words), 0, *chain.words]
        self.places += [(first + place, name) for place, name in chain.places]
        self.scalars += [(first + place, wanted) for place, wanted in chain.scalars]
        self.moves += [(first + place, index, step) for place, index, step in chain.moves]

    @property
    def largest_bytes(self) -> int:
        """The largest memory that one call allocates at once."""
        sizes = [math.prod(entry.shape) * entry.dtype.itemsize for entry in self.outputs]
        return max([self.workspace_bytes, *sizes])

    def share_out(self) -> int:
        """Divide the work among the threads that are allowed now.

        Returns:
            The address of the team's function, or 0 where one thread does all.
        """
        threads = workers.thread_count() if workers.supported() else 1
        if not self._divide(threads):
            return 0
        team = workers.workers()
        if team is None:  # the system lets no more machine code run
            self._divide(1)
            return 0
        team.start(threads - 1)
        return int(team.team_address)

    def _divide(self, threads: int) -> bool:
        """Say how many threads share each loop nest; whether any has more than one."""
        for at, (kernel, number, extent) in zip(self.heads, self.nests, strict=True):
            first, end = at + _SHARED.start, at + _SHARED.stop
            self.words[first:end] = kernel.share(number, extent, threads)[_SHARED]
        return any(self.words[at + _SHARED.stop - 1] for at in self.heads)


class Sequence:
    """A bound launch as one native call."""

    def __init__(self, launch: Launch) -> None:
        """Lay its table out."""
        self._backend = launch.backend
        self._ran = False
        self.table = table = Table(launch)
        self._share_out()
        room = {name: f"workspace+{offset}" for name, offset in table.offsets.items()}
        self._bases = [(at, room.get(name, name), table.words[at]) for at, name in table.places]

    def _share_out(self) -> None:
        """Look at the number of threads again."""
        self._mode = config.MODE_WORD.value
        self._team = self.table.share_out()
        self._template = array("q", self.table.words)

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
        if config.MODE_WORD.value != self._mode:
            self._share_out()
        table = self.table
        words = self._template[:]
        for at, wanted in table.scalars:
            words[at : at + len(wanted)] = array("q", pack_scalars(wanted, numbers))
        for entry in table.outputs:
            if entry.name not in arrays:
                arrays[entry.name] = entry.make(self._backend)
        address = self._backend.address
        bases = {name: address(array) for name, array in arrays.items()}
        if table.workspace_bytes:
            room = self._backend.empty((table.workspace_bytes,), _BYTE)
            start = -(-address(room) // ALIGNMENT) * ALIGNMENT
            bases.update(
                (f"workspace+{offset}", start + offset) for offset in table.offsets.values()
            )
        for at, name, offset in self._bases:
            words[at] = bases[name] + offset
        for at, index, step in table.moves:
            words[at] += dims.evaluate(index, numbers) * step
        if config.is_single_threaded():  # the native loop shares out what the table says
            return self._run_each(words)
        if not self._ran and not self._team and not _native.cache_info().currsize:
            self._ran = True
            return self._run_each(words)
        function = _function()
        if function is None:
            return self._run_each(words)
        return int(function(words.tobytes(), len(table.heads), self._team))

    def _run_each(self, words: array[int]) -> int:
        """Run loop nests one by one: the native loop is made for what is called again."""
        status = 0
        for at in self.table.heads:
            address, outer, inner = words[at : at + 3]
            first, size = at + HEAD_WORDS, words[at + HEAD_WORDS - 2]
            block = words[first : first + size].tobytes()
            status |= PROTOTYPE(address)(block, 0, outer, 0, inner)
        return status


_BYTE = np.dtype(np.uint8)


def _workspace(launch: Launch, temporaries: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Places of temporaries in one workspace, and its size in bytes.

    A temporary lives from the first loop nest that names it to the last; those of a chain run by
    turns. First fit: a place is taken again as soon as it is free and large enough.
    """
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    step = 0
    for group in launch.groups:
        step += 1
        for _, section in group.sections:
            step += group.blocks is None
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
    copies = any(group.copies for group in launch.groups)
    if copies or not native_call.supported() or not workers.supported():
        for group in launch.groups:  # what cannot be compiled is known before anything is written
            assert isinstance(group.kernel, FusedKernelCPU)
            for number, section in group.sections:
                group.kernel.share(number, section.extent, 1)
        return None
    return Sequence(launch)
