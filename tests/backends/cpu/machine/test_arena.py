"""Memory for code: pages come back, neighbours join, children have copies of their own."""

from __future__ import annotations

import ctypes
import os
from itertools import pairwise

import pytest

from fuser.backends.cpu.machine import arena
from fuser.backends.cpu.machine.arena import Arena, Block
from fuser.backends.cpu.machine.object_file import PAGE
from tests.children import said
from tests.threads import on_threads

pytestmark = pytest.mark.skipif(not arena.supported(), reason="LLVM links on this platform")


def returning(value: int) -> bytes:
    """A function that returns a number below 64 Ki: mov eax, value; ret; or movz w0, value; ret."""
    if os.uname().machine == "aarch64":
        words = 0x52800000 | value << 5, 0xD65F03C0
        code = b"".join(word.to_bytes(4, "little") for word in words)
    else:
        code = b"\xb8" + value.to_bytes(4, "little") + b"\xc3"
    return code.ljust(PAGE, b"\0")


def call(block: Block) -> int:
    """Run the code at a block's beginning."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(block.address)())


def mappings() -> int:
    """How many mappings this process has."""
    with open("/proc/self/maps") as lines:
        return sum(1 for _ in lines)


def test_code_runs_and_is_not_writable() -> None:
    """Data of the same block, on later pages, is writable."""
    block = Arena(1 << 20).take(PAGE + 1)
    assert block.size_bytes == 2 * PAGE
    block.fill(returning(7) + bytes(PAGE), PAGE)
    assert call(block) == 7
    ctypes.c_int.from_address(block.address + PAGE).value = 8
    with open("/proc/self/maps") as lines:
        spans = [line.split()[:2] for line in lines]
    for span, allowed in spans:
        first, last = (int(part, 16) for part in span.split("-"))
        if first <= block.address < last:
            assert allowed.startswith("r-x")


def test_pages_are_given_out_again_and_joined() -> None:
    """Whatever the order in which blocks go, the hole that is left is one."""
    memory = Arena(64 * PAGE)
    blocks = [memory.take(k % 3 * PAGE + 1) for k in range(32)]
    spans = sorted((block.address, block.size_bytes) for block in blocks)
    assert all(sum(one) <= two[0] for one, two in pairwise(spans))
    assert memory.free_bytes == 64 * PAGE - sum(size for _, size in spans)
    first = spans[0][0]
    while blocks:
        del blocks[len(blocks) // 2]
    assert memory.free_bytes == 64 * PAGE
    whole = memory.take(64 * PAGE)
    assert whole.address == first
    assert memory.take(PAGE).address != first


def test_what_is_larger_than_a_piece_has_its_own() -> None:
    """And what the system cannot give is an error."""
    memory = Arena(PAGE)
    assert memory.take(10 * PAGE).size_bytes == 10 * PAGE
    with pytest.raises(OSError, match="memory"):
        memory.take(1 << 60)


def test_thousands_of_blocks_are_few_mappings() -> None:
    """Written in turn and given back here and there, they stay one mapping of code."""
    memory, before = Arena(), mappings()
    blocks = []
    for number in range(3000):
        block = memory.take(PAGE)
        block.fill(returning(number), PAGE)
        blocks.append(block)
        if number % 3 == 2:
            del blocks[number // 2 % len(blocks)]
    assert mappings() - before < 8
    assert call(blocks[-1]) == 2999


def test_many_threads_at_once() -> None:
    """Nobody gets another's pages."""
    memory, wrong = Arena(), []

    def work(number: int) -> None:
        for k in range(200):
            block = memory.take(PAGE)
            block.fill(returning(1000 * number + k), PAGE)
            if call(block) != 1000 * number + k:
                wrong.append(number)

    on_threads(work, 4)
    assert not wrong


CHILD = """
import ctypes, os
from fuser.backends.cpu.machine.arena import Arena, PAGE
from tests.backends.cpu.machine.test_arena import returning

def block(value):
    found = memory.take(PAGE)
    found.fill(returning(value), PAGE)
    return found

def call(block):
    return ctypes.CFUNCTYPE(ctypes.c_int)(block.address)()

memory = Arena(1 << 20)
kept, passing = block(1), block(1)
go = os.pipe()
child = os.fork()
new = block(2 if child else 3)  # at the same address in both
if child:
    address = passing.address
    del passing
    again = block(4)
    assert again.address == address
    os.write(go[1], b"!")
    status = os.waitpid(child, 0)[1]
    assert (call(kept), call(new), call(again), status) == (1, 2, 4, 0)
else:
    os.read(go[0], 1)
    os._exit((call(kept), call(passing), call(new)) != (1, 1, 3))
"""


def test_parent_and_child_write_over_nothing_of_each_other() -> None:
    """After a fork both take the same pages, and free what the other still runs."""
    said("-c", CHILD)
