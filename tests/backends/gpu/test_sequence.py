"""Bound launches with prepared arguments: what is allocated, packed and given to kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fuser.backends.gpu.geometry import LaunchPlan
from fuser.backends.gpu.sequence import make
from fuser.backends.gpu.variants import NARROW
from fuser.runtime.launch import BoundGroup, BoundSection, Fresh, Launch


class _Kernel:
    """Keeps what it is launched with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def flags(self, section: int) -> bool:
        """It may raise."""
        return True

    def flag(self, section: int) -> Any:
        """Nothing was noted."""
        return 99, lambda: 0

    def reduces(self, section: int) -> bool:
        """It has scratch memory, and several launches."""
        return True

    def prepare(self, section: int, operands: int, rest: bytes, scalars: int, extent: Any) -> Any:
        """Keep all of it."""
        note = lambda stream, words, packed: self.seen.append((words, packed))  # noqa: E731
        self.prepared = (section, operands, rest, scalars, extent)
        return SimpleNamespace(enqueue=note)


def test_addresses_and_scalars_are_put_beside_what_is_prepared() -> None:
    """Outputs are allocated; all else is one piece of memory; nothing where copies are needed."""
    kernel: Any = _Kernel()
    here = [0]
    fake: Any = SimpleNamespace(
        array_module=np, elsewhere=lambda arrays: None,
        device=SimpleNamespace(number=lambda: here[0], stream=lambda number: 0,
                               scratch=lambda size, stream: (size * 1000, None),
                               counters=lambda count, stream, number: count),
        addresses=lambda arrays, number: {k: a.ctypes.data for k, a in arrays.items()},
    )  # fmt: skip
    plan = LaunchPlan(NARROW, 1, b"", phases=2, scratch_bytes=300, counters=5)
    section = BoundSection(
        (("x0", 8), ("t0", 4), ("o0", 0), ("positions(n0)", 16)),
        b"restrest",
        (("s0", np.dtype(np.float64)),),
        plan,
    )
    group = BoundGroup(kernel, ((0, section),), ())
    kind = np.dtype(np.float64)
    launch = Launch(fake, [group], [Fresh("t0", (5,), kind, None), Fresh("o0", (3,), kind, None)])
    arrays: dict[str, Any] = {"x0": np.ones(3)}
    sequence = make(launch)
    assert sequence is not None
    assert sequence.run(arrays, {"s0": 2.0}) == 0
    assert kernel.prepared == (0, 4, b"restrest", 1, plan)
    assert sequence.scratch_bytes == 256 + 512  # whole multiples of 256
    (words, packed) = kernel.seen[0]
    began = 768_000
    assert words[:4] == [99, began + 256, 5, 0]  # flag, scratch memory, counters, the first launch
    x0, o0 = (arrays[name].ctypes.data for name in ("x0", "o0"))
    assert words[4:] == [x0 + 8, began + 4, o0, 16]  # positions have no memory
    assert np.frombuffer(packed, np.float64)[0] == 2.0
    here[0] = 1
    assert sequence.run({"x0": np.ones(3)}, {"s0": 2.0}) != 0, "bound for another device"
    assert len(kernel.seen) == 1
    launch.groups[0] = BoundGroup(kernel, ((0, section),), (("c0", "x0", ()),))
    assert make(launch) is None
