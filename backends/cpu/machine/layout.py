"""Tables that Python writes and the native dispatcher reads, and the short spelling of its text.

A table is 8-byte words with names. The dispatcher's text names them too (`TABLE.nargs` is an
offset in bytes), as it does fields of Python's and NumPy's objects (`ARRAY.data`) and numbers of
this module (`LAYOUT.TUPLE`), so that both sides agree. Short forms stand for the instructions that
memory, rows of tables and loops take:

    %x = get i64 %p 16           load from p + 16 bytes; an offset may be a field's name
    put i64 %x %p 16             store to p + 16 bytes
    %x = at i64 %list %k         load the word number k
    set i64 %x %list %k          store it
    %x = row LINE %list %k       where the row number k of a list of such rows is
    for %k below %n else done    what follows, for k from 0; after the last one at the label `done`
    next %k                      its end; from within, `%k.next` is the label that goes on
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Sequence

from fuser.backends.cpu.machine.arrays import OFFSETS

#: Names of each table's words, in order.
FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in {
        # one a fused function
        "CONTEXT": "slow vectorcall mode expected count tables hits running api plain_count plains "
        "queue",
        # where loop nests of a loop wait: who gathers, words that are used and that there are
        "QUEUE": "owner used nests room buffer",
        # loop nests that run by bands of rows; then each: its function and arguments, its rows,
        # iterations of a row and in all, the other extent, whether rows are of the inner loop,
        # and by how many rows it begins later and ends earlier
        "BATCH": "launches height bands tile tiles",
        "LAUNCHED": "kernel block rows scale length other inner low high",
        # one a process: types, functions of Python's and NumPy's C API, the team, the pool
        "API": "ndarray true tuple_items incref decref new_array to_scalar new_tuple "
        "get_item get_attribute clear_error compare_text to_integer release acquire set_handler "
        "capsule no_memory team malloc free pool_malloc pool_free pooled_bytes "
        "vectorcall dict_next text none new_scalar missed error_occurred from_integer "
        # where an array in a device's memory keeps its fields, and where a pointer to such memory
        # does; types; functions of the library
        "device_dtype device_lengths device_strides device_data device_address device_number "
        "device_pointer device_array device_current device_stream device_capturing device_alloc "
        "device_new device_context device_launch",
        # one a way to serve calls
        "TABLE": "nargs names name_list records record_list span guards guard_list conditions "
        "steps step_list ranges range_list work_factor work_place words template lines line_list "
        "scalars scalar_list overlaps overlap_list temporaries temporary_list outputs output_list "
        "operands operand_list nests flags limit patience brief scratch handed unpacks "
        "unpack_list given held leaves leaf_list assembled prologue numbers number_list computed "
        "computed_first callee calls left launches launch_list device room counters",
        # an argument: how it is compared
        "RECORD": "kind slot object expected rank axes flags type",
        # a name that the function reads: how, where, its name, the object
        "GUARD": "kind scope name expected",
        # an expression over lengths: a sum of rows, each a factor and two places, and rounded down
        # where it is divided by a third one
        "STEP": "place more factor left right divisor",
        # what a factor and an expression are multiplied to: a size in bytes
        "SCALED": "factor place",
        # a word of the template that depends on lengths
        "LINE": "factor place word",
        # an expression and where it must lie: from `low`, not further than `width`
        "RANGE": "place low width",
        # a run-time scalar
        "SCALAR": "place record source target low high",
        # the array of out= and an argument that it must not overlap; how far each reaches; whether
        # they may be at the same address, and reach alike
        "OVERLAP": "written read same low_w low_r factor_w place_w factor_r place_r",
        # an array to allocate, or to take from out=
        "OUTPUT": "descr rank dims strides codes given pooled generic",
        # a word of the template: an address and another word, which is how far from there
        "OPERAND": "place base within",
        # a tuple, list or dict whose items become arguments: where it is, its type and length,
        # the keys of a dict, where its items are put
        "UNPACK": "kind slot type length keys place",
        # how a loop nest is run, before its block of arguments: function, outer iterations, length
        # of the inner loop, how threads share these, and words of the block
        "HEAD": "kernel outer inner outer_chunk inner_chunk inner_chunks chunks helpers words none",
        # a kernel on a device: its handle, how it is launched, the word where its block of
        # arguments begins, and a word of the block with what it holds in this launch
        "LAUNCH": "handle blocks threads shared block phase_at phase",
        # what a result is put together from: an output, an argument, an object
        "LEAF": "kind index",
    }.items()
}
#: Kinds of arguments: a C-contiguous array, a strided vector, an array of exactly these lengths
#: and strides, an array of this dtype and rank, a Python number, this very object, a NumPy scalar,
#: an integer that lengths or offsets depend on, an array in a device's memory of exactly these
#: lengths and strides, behind which its axes have the device's number and a mask of addresses.
CONTIGUOUS_ARRAY, STRIDED_VECTOR, EXACT_ARRAY, ANY_ARRAY, NUMBER, OBJECT = range(6)
GENERIC, INTEGER, DEVICE_ARRAY = 6, 7, 8
#: Where an object is that is no argument, but captured.
CAPTURED = -1
#: Kinds of containers.
OF_TUPLE, OF_LIST, OF_DICT = range(3)
#: Where a result, or what it is put together from, is.
MADE, GIVEN, CONSTANT = range(3)
#: Flags of array structs.
IS_CONTIGUOUS, IS_WRITEABLE = 0x1, 0x400
#: Python types of run-time scalars, and what they become.
FROM_FLOAT, FROM_INT, FROM_BOOL, FROM_LENGTH = range(4)
TO_SINGLE, TO_DOUBLE, TO_INTEGER, TO_HALF = range(4)
#: Where a name is looked up.
IN_DICT, IN_CELL, IN_OBJECT = range(3)
#: Other guards: a word at an address; one that stands for the next rows while it is as it was; and
#: after those, which found all else unchanged, what it is from now on.
WORD, SKIPPING, NOTING = 3, 4, 5
#: Flags of a table: results in a tuple; a status means that Python has to look; the GIL is
#: released whatever the lengths; results are more than one output.
TUPLE, STATUS, LONG, COMPOSED = 1, 2, 4, 8

#: Bounds on what the dispatcher holds in its fixed places.
MOST_BASES, MOST_SYMBOLS, MOST_RANK, MOST_WORDS, MOST_OUTPUTS = 128, 64, 16, 8192, 32
MOST_ARGUMENTS, MOST_LEAVES = 256, 64
#: Lengths of arrays and strides of vectors that a table for many lengths serves: see
#: `layout_matches`; lengths of 0 and 1 have tables of their own.
LEAST_LENGTH, MOST_STRIDE, STRIDE_SPAN = 2, 1 << 31, 1 << 32


def words(table: str, **values: int) -> list[int]:
    """One table's words; those that are not given are 0."""
    unknown = set(values) - set(FIELDS[table])
    assert not unknown, unknown
    return [values.get(name, 0) for name in FIELDS[table]]


def place(table: str, field: str) -> int:
    """A word's number in its table."""
    return FIELDS[table].index(field)


def array(rows: Sequence[Sequence[int]]) -> ctypes.Array[ctypes.c_int64]:
    """Rows of words one after another in native memory."""
    flat = list(itertools.chain.from_iterable(rows))
    return (ctypes.c_int64 * max(1, len(flat)))(*flat)


def address(table: ctypes.Array[ctypes.c_int64]) -> int:
    """Where a table lies."""
    return ctypes.addressof(table)


_FIELD = re.compile(r"\b([A-Z]+)\.(\w+)\b")
#: What each short form counts its offset in.
_UNITS = {"get": "i8", "put": "i8", "at": "i64", "set": "i64"}


def _offset(found: re.Match[str]) -> str:
    """`TABLE.nargs` as bytes; `TABLE.size` is the table's own; `LAYOUT.TUPLE` as a number."""
    table, field = found[1], found[2]
    if table == "LAYOUT":
        return str(globals()[field])
    if table in OFFSETS:
        return str(OFFSETS[table][field])
    if field == "size":
        return str(8 * len(FIELDS[table]))
    return str(8 * place(table, field))


def spell_out(text: str) -> str:
    """LLVM IR of a text with short forms."""
    lines: list[str] = []
    block = ""
    for number, raw in enumerate(text.splitlines()):
        line = _FIELD.sub(_offset, raw) if "." in raw else raw
        if line.endswith(":") and line[:1].strip():
            block = line[:-1]
        match line.split():
            case ["for", k, "below", end, "else", after]:
                lines += _begun(k[1:], end, after, block)
                block = f"{k[1:]}.body"
            case ["next", k]:
                ended = lines[-1].lstrip().startswith(("br ", "ret ")) or lines[-1].endswith(" ]")
                lines += _ended(k[1:])[ended:]
            case [to, "=", "row", table, base, at]:
                size = 8 * len(FIELDS[table])
                lines.append(f"  %m{number} = mul i64 {at}, {size}")
                lines.append(f"  {to} = getelementptr i8, ptr {base}, i64 %m{number}")
            case [to, "=", "get" | "at" as how, kind, base, at]:
                lines.append(_address(number, how, base, at))
                lines.append(f"  {to} = load {kind}, ptr %m{number}")
            case ["put" | "set" as how, kind, value, base, at]:
                lines.append(_address(number, how, base, at))
                lines.append(f"  store {kind} {value}, ptr %m{number}")
            case _:
                lines.append(line)
    return "\n".join(lines) + "\n"


def _address(number: int, how: str, base: str, at: str) -> str:
    """The line that computes the address of a word."""
    return f"  %m{number} = getelementptr {_UNITS[how]}, ptr {base}, i64 {at}"


def _begun(k: str, end: str, after: str, block: str) -> list[str]:
    """The head of a loop that follows a block."""
    return [
        f"  br label %{k}.loop", f"{k}.loop:",
        f"  %{k} = phi i64 [ 0, %{block} ], [ %{k}.1, %{k}.next ]",
        f"  %{k}.some = icmp ult i64 %{k}, {end}",
        f"  br i1 %{k}.some, label %{k}.body, label %{after}", f"{k}.body:",
    ]  # fmt: skip


def _ended(k: str) -> list[str]:
    """The end of a loop, and the way there from the last of its blocks."""
    return [
        f"  br label %{k}.next", f"{k}.next:", f"  %{k}.1 = add i64 %{k}, 1",
        f"  br label %{k}.loop",
    ]  # fmt: skip
