"""Bound launches with prepared arguments: what is allocated, packed and given to kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fuser.backends.gpu.sequence import make
from fuser.runtime.launch import BoundGroup, BoundSection, Fresh, Launch


class _Kernel:
    """Keeps what it is launched with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def prepare(self, *_: Any) -> None:
        """It may raise, say: it is launched by itself."""

    def launch(self, section: int, block: bytes, extent: Any) -> int:
        self.seen.append((section, block, extent))
        return 0


def test_addresses_and_scalars_are_put_beside_what_is_prepared() -> None:
    """Outputs are allocated; offsets are added; nothing is prepared where copies are needed."""
    kernel: Any = _Kernel()
    fake: Any = SimpleNamespace(
        empty=np.empty,
        device=SimpleNamespace(number=lambda: 0, stream=lambda number: 0),
        addresses=lambda arrays, number: {k: a.ctypes.data for k, a in arrays.items()},
        pack=lambda pointers, rest: np.array(pointers, np.uint64).tobytes() + rest,
    )
    section = BoundSection(
        (("x0", 8), ("o0", 0), ("positions(n0)", 16)),
        b"restrest",
        (("s0", np.dtype(np.float64)),),
        "extent",
    )
    group = BoundGroup(kernel, ((0, section),), ())
    launch = Launch(fake, [group], [Fresh("o0", (3,), np.dtype(np.float64), None)])
    arrays: dict[str, Any] = {"x0": np.ones(3)}
    sequence = make(launch)
    assert sequence is not None
    assert sequence.run(arrays, {"s0": 2.0}) == 0
    (number, block, extent) = kernel.seen[0]
    words = np.frombuffer(block, np.uint64)
    assert (number, extent, len(block)) == (0, "extent", 40)
    assert words[0] == arrays["x0"].ctypes.data + 8
    assert words[1] == arrays["o0"].ctypes.data
    assert words[2] == 16  # positions have no memory
    assert block[24:32] == b"restrest"
    assert np.frombuffer(block[32:], np.float64)[0] == 2.0
    launch.groups[0] = BoundGroup(kernel, ((0, section),), (("c0", "x0", ()),))
    assert make(launch) is None
