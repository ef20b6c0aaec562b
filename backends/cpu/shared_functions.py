"""Functions that all kernels share: each is compiled once a process.

That is when the first kernel that calls one is loaded; kernels declare it as they do a function of
the C library, and are compiled sooner for not having it in their own text.
"""

from __future__ import annotations

from functools import cache

from fuser import forks
from fuser.backends.cpu.body import Features

#: `fuser_pack_<bytes>` of `packing.py`, and `fuser_huge_<function>` of `elementary/huge.py`.
PACK, HUGE = "fuser_pack_", "fuser_huge_"
_lock = forks.lock()


def module_text(name: str, features: Features) -> str | None:
    """The module that defines one of the functions; None for other symbols."""
    if name.startswith(PACK):
        from fuser.backends.cpu import packing  # most kernels need none

        return packing.module_text(int(name.removeprefix(PACK)), features)
    if name.startswith(HUGE):
        from fuser.backends.cpu.elementary import trigonometric

        return trigonometric.huge_module_text(name.removeprefix(HUGE), features)
    return None


def address_of(name: str) -> int | None:
    """The address of one of the functions; None for other symbols."""
    if not name.startswith((PACK, HUGE)):
        return None
    with _lock:
        return _address(name)


@cache
def _address(name: str) -> int:
    """Compile and load one of the functions for this processor."""
    from fuser.backends.cpu.machine.native import load_forever
    from fuser.backends.cpu.machine.target import host_features

    text = module_text(name, host_features())
    assert text is not None
    return load_forever(text, (name,))[name]
