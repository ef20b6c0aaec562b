"""Functions that all kernels share: each is compiled once a process.

That is when the first kernel that calls one is loaded; kernels declare it as they do a function of
the C library, and are compiled sooner for not having it in their own text. The files that spell
calls of such functions spell the functions too, and register that here when they are imported: so
whoever has a kernel's text can have its functions, and most kernels load none of these files.
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.backends.cpu.body import Features

#: `fuser_pack_<bytes>` of `packing.py`, `fuser_huge_<function>` of `elementary/huge.py`, and
#: `fuser_rows_<kind>` of `vector_loop.py`.
PREFIXES = PACK, HUGE, ROWS = "fuser_pack_", "fuser_huge_", "fuser_rows_"
_writers: dict[str, Callable[[str, Features], str]] = {}


def register(prefix: str, write: Callable[[str, Features], str]) -> None:
    """Have the functions whose names begin so written by `write(rest of the name, features)`."""
    assert prefix in PREFIXES
    _writers[prefix] = write


def module_text(name: str, features: Features) -> str | None:
    """The module that defines one of the functions; None for other symbols."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return _writers[prefix](name.removeprefix(prefix), features)
    return None
