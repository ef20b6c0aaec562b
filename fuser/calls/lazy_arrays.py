"""Arguments that are computed later: whoever knows them runs the call, found by their package.

Nothing is imported for a call without them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fuser.base.protocols import mro_of

#: Module and name of the class of such arrays, and of ours that runs calls with them.
KINDS = {"dask.array.core": ("Array", "fuser.dask.arrays")}


def caller(leaves: Sequence[Any], what: str = "call") -> Callable[..., Any] | None:
    """What runs a call with these arguments: of function, structure, arguments and `out=`.

    Args:
        leaves: the arguments.
        what: "call", or "explained": what a call is, of function, structure and arguments.

    Returns:
        None where no argument is such an array.
    """
    for module, (name, ours) in KINDS.items():
        known = sys.modules.get(module)
        if known is None:
            continue
        kind = getattr(known, name, None)
        if any(each is kind for leaf in leaves for each in mro_of(leaf)):
            found: Callable[..., Any] = getattr(importlib.import_module(ours), what)
            return found
    return None
