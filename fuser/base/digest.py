"""SHA-256 without the library of cryptography that `hashlib` loads.

The interpreter has the algorithm in a small module of its own, under a name that depends on its
version; `random` uses its neighbour for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any


@cache
def _sha256() -> Callable[[bytes], Any]:
    """The algorithm, from the lightest module that has it."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            found: Callable[[bytes], Any] = import_module(name).sha256
        except (ImportError, AttributeError):
            continue
        return found
    raise ImportError("this interpreter has no SHA-256")


def load() -> None:
    """Import the algorithm if that can be; else the first hash does, or says that it cannot."""
    with suppress(ImportError):
        _sha256()


def sha256(content: bytes) -> Any:
    """A hash of some bytes, as `hashlib.sha256` makes it."""
    return _sha256()(content)
