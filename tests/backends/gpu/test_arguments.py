"""Blocks of arguments: written in place, copied by a launch, one for each launch under way."""

from __future__ import annotations

import ctypes
import struct

from fuser.backends.gpu.arguments import Arguments, Prepared


def test_the_driver_finds_the_block_through_its_list() -> None:
    """An array of one address, which is the block's."""
    arguments = Arguments(struct.pack("=2Q", 7, 9))
    address = ctypes.c_void_p.from_address(arguments.list_address).value
    assert address == arguments.address
    assert ctypes.string_at(arguments.address, 16) == struct.pack("=2Q", 7, 9)


def test_a_prepared_launch_writes_addresses_and_scalars() -> None:
    """Around what was laid out; a launch inside of a launch has a block of its own."""
    seen: list[tuple[int, ...]] = []
    blocks: set[int] = set()

    def function(grid: int, block: int, shared: int, stream: int, arguments: Arguments) -> None:
        words = struct.unpack("=5Q", ctypes.string_at(arguments.address, 40))
        seen.append((grid, block, shared, stream, *words))
        blocks.add(arguments.address)
        if len(seen) == 2:
            prepared.enqueue(4, [13, 50, 60], struct.pack("=Q", 70))

    rest = struct.pack("=Q", 5)
    prepared = Prepared(function, (1, 2, 3), 1, 2, rest, 1)
    prepared.enqueue(0, [11, 20, 30], struct.pack("=Q", 40))
    prepared.enqueue(9, [12, 21, 31], struct.pack("=Q", 41))
    assert seen == [
        (1, 2, 3, 0, 11, 20, 30, 5, 40), (1, 2, 3, 9, 12, 21, 31, 5, 41),
        (1, 2, 3, 4, 13, 50, 60, 5, 70),
    ]  # fmt: skip
    assert len(blocks) == 2


def test_phases_are_launches_with_their_numbers() -> None:
    """The last word before the operands tells a kernel which of its launches it is."""
    seen: list[tuple[int, ...]] = []

    def function(grid: int, block: int, shared: int, stream: int, arguments: Arguments) -> None:
        seen.append(struct.unpack("=3Q", ctypes.string_at(arguments.address, 24)))

    prepared = Prepared(function, (1, 2, 3), 2, 1, b"", 0, phases=3)
    for _ in range(2):
        prepared.enqueue(0, [77, 0, 20], b"")
    assert seen == [(77, 0, 20), (77, 1, 20), (77, 2, 20)] * 2
