"""Arguments that are no arrays, but are computed later or have labels, found by their package.

Whoever knows them runs the call; nothing is imported for a call without them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.base.packages import LAZY, root
from fuser.base.protocols import module_of, mro_of

#: Our module that runs calls with arrays that are computed later.
OURS = "fuser.dask.arrays"
#: Classes of values with labels, or of a library that computes in its own way, by package.
LABELLED = {
    "pandas": ("Series", "DataFrame"), "xarray": ("DataArray", "Dataset"), "torch": ("Tensor",),
}  # fmt: skip


def caller(leaves: Sequence[Any], what: str = "call") -> Callable[..., Any] | None:
    """What runs a call with these arguments: of function, structure, arguments and `out=`.

    Args:
        leaves: the arguments.
        what: "call", or "explained": what a call is, of function, structure and arguments.

    Returns:
        None where no argument is such an array.
    """
    for module, name in LAZY.items():
        known = sys.modules.get(module)
        if known is None:
            continue
        kind = getattr(known, name, None)
        if any(each is kind for leaf in leaves for each in mro_of(leaf)):
            found: Callable[..., Any] = getattr(importlib.import_module(OURS), what)
            return found
    return None


def is_labelled(leaf: Any) -> bool:
    """Whether an argument has labels, or is a tensor; none of its code runs.

    Args:
        leaf: any argument.
    """
    for kind in mro_of(leaf):
        names = LABELLED.get(root(module_of(kind)))
        if names is not None and kind.__name__ in names:
            return True
    return False


def is_of_labels(function: Callable[..., Any]) -> bool:
    """Whether a function is of a package of values with labels: it works on these, not on arrays.

    Args:
        function: that may be called with some.
    """
    return root(str(getattr(function, "__module__", ""))) in LABELLED


def is_buffer(leaf: Any) -> bool:
    """Whether an argument is memory that NumPy's functions read as an array, and no array.

    Args:
        leaf: any argument.
    """
    kind = type(leaf)
    known = kind is memoryview or kind is bytearray
    return known or (module_of(kind) in ("array", "mmap") and kind.__name__ in ("array", "mmap"))


def is_mapped(leaf: Any) -> bool:
    """Whether an argument is a memory-mapped array, and of no class derived from these.

    Args:
        leaf: any argument.
    """
    return type(leaf) is np.memmap


def is_wrapped(leaf: Any) -> bool:
    """Whether an argument holds an array, but is no plain one.

    Args:
        leaf: any argument.
    """
    return is_labelled(leaf) or is_mapped(leaf) or is_buffer(leaf)
