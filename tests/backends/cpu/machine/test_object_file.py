"""Object files are linked as LLVM links them, or left to it."""

from __future__ import annotations

import ctypes
import random
import struct

import pytest

from fuser.backends.cpu.machine import arena, loader
from fuser.backends.cpu.machine.object_file import PAGE, ObjectFile, UnknownObjectError

pytestmark = pytest.mark.skipif(not arena.supported(), reason="LLVM links on this platform")

#: Constants, written and zeroed data, an alignment, calls in and out, an address taken.
MODULE = """
declare double @cos(double)
@count = global i64 5, align 64
@sums = internal global [3 x i64] zeroinitializer, align 32
@table = internal constant [4 x i32] [i32 10, i32 20, i32 30, i32 40], align 64
@pointer = global ptr @count

define i64 @counted(i64 %by) {
  %p = load ptr, ptr @pointer
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr @count
  %last = getelementptr [3 x i64], ptr @sums, i64 0, i64 2
  %sum = load i64, ptr %last
  %more = add i64 %sum, %new
  store i64 %more, ptr %last
  ret i64 %more
}
define i32 @entry(i64 %k) {
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %k
  %v = load i32, ptr %p
  ret i32 %v
}
define double @outside(double %x) {
  %y = call double @cos(double %x)
  %z = fmul double %y, 0x3FF3333333333333
  ret double %z
}
define ptr @function() {
  ret ptr @cos
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    """The module as an object file."""
    return loader.compile_object(MODULE)


def test_it_does_what_llvm_makes_of_it(code: bytes) -> None:
    """Both ways of linking give functions with the same results, side by side."""
    names = ("counted", "entry", "outside", "function", "count")
    known = {"cos": loader._address("cos")}
    ways = [loader._placed(code, names, known), loader._linked(code, names, known)]
    for way in ways:
        assert way is not None
        _, (counted, entry, outside, function, count) = way
        integer, number = ctypes.c_int64, ctypes.c_double
        add = ctypes.CFUNCTYPE(integer, integer)(counted)
        assert [add(2), add(3)] == [7, 17]
        assert integer.from_address(count).value == 10
        assert count % 64 == 0
        look = ctypes.CFUNCTYPE(ctypes.c_int32, integer)(entry)
        assert [look(k) for k in range(4)] == [10, 20, 30, 40]
        cosine = ctypes.CFUNCTYPE(number, number)(outside)
        assert cosine(0.0) == 1.2
        assert ctypes.CFUNCTYPE(ctypes.c_void_p)(function)() == known["cos"]


def test_code_and_what_is_written_share_no_page(code: bytes) -> None:
    """Functions lie before `fixed_bytes`, variables behind."""
    file = ObjectFile(code)
    assert file.fixed_bytes % PAGE == file.size_bytes % PAGE == 0
    assert max(file.exports[name] for name in ("counted", "outside")) < file.fixed_bytes
    assert min(file.exports[name] for name in ("count", "pointer")) >= file.fixed_bytes
    assert list(file.externals) == ["cos"]


def test_what_is_not_known_is_refused(code: bytes) -> None:
    """Other relocations, sections, symbols, machines."""
    text = "@own = thread_local global i32 3\ndefine ptr @f() {\n  ret ptr @own\n}"
    with pytest.raises(UnknownObjectError):
        ObjectFile(loader.compile_object(text))
    text = "@other = external global i32\n@p = global ptr @other"
    with pytest.raises(UnknownObjectError, match="elsewhere"):
        ObjectFile(loader.compile_object(text))
    for place, other in ((4, b"\1"), (16, b"\2"), (18, b"\xf3")):
        with pytest.raises(UnknownObjectError, match="machine"):
            ObjectFile(code[:place] + other + code[place + 1 :])
    start = struct.unpack_from("<Q", code, 40)[0]
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, k) for k in range(start, len(code), 64)]
    (at,) = (h[4] for h in headers if h[1] == 4 and headers[h[7]][2] & 4)  # of the code
    damaged = bytearray(code)
    struct.pack_into("<I", damaged, at + 8, 26)
    with pytest.raises(UnknownObjectError, match="kind 26"):
        ObjectFile(bytes(damaged))


def test_damage_is_noticed_or_harmless(code: bytes) -> None:
    """Cut off and flipped at any place: an error of ours, or a file; never anything else."""
    chance = random.Random(5)
    for _ in range(1000):
        damaged = bytearray(code[: chance.randrange(len(code) + 1)] if chance.random() < 0.2
                            else code)  # fmt: skip
        for _ in range(chance.randrange(4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            file = ObjectFile(bytes(damaged))
            file.linked_at(1 << 40, dict.fromkeys(file.externals, 0))
        except UnknownObjectError:
            continue
