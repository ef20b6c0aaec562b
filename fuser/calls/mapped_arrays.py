"""Memory-mapped arrays: files that are read as arrays, without a copy.

`np.memmap` is a subclass that adds a file to an array. Most results of its operations are plain
arrays, but slices, copies and some others are of the subclass again. So the first call of a kind is
NumPy's; where no result of it was mapped, kernels serve the later ones, on the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import fallback
from fuser.backend import chosen
from fuser.base import budget, trees
from fuser.base.errors import Reason, Unsupported
from fuser.executor import CannotRun

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

#: Under which a specialisation remembers whether no result was mapped.
_PLAIN = "memmap"


def is_mapped(leaf: Any) -> bool:
    """Whether an argument is a memory-mapped array, and of no class derived from these.

    Args:
        leaf: any argument.
    """
    return type(leaf) is np.memmap


def call(function: Owner, structure: Any, leaves: list[Any]) -> Any:
    """Run a function with memory-mapped arguments.

    Args:
        function: the fused one.
        structure: how its arguments nest.
        leaves: the arguments.

    Raises:
        FusionError: it cannot be fused, and the policy is "error".
    """
    args, kwargs = trees.unflatten(structure, leaves)
    values = [leaf.view(np.ndarray) if is_mapped(leaf) else leaf for leaf in leaves]
    try:
        with chosen(function.backend), budget.limited(function._name):
            tried = function._find_call(structure, values).specialisation.tried
    except (CannotRun, Unsupported) as error:
        reason = error.reason
    else:
        if _PLAIN not in tried:
            result = function.__wrapped__(*args, **kwargs)
            tried[_PLAIN] = not any(isinstance(each, np.memmap) for each in _leaves(result))
            return result
        if tried[_PLAIN]:
            given = trees.unflatten(structure, values)
            return _as_function(function)(*given[0], **given[1])
        reason = Reason("unsupported-array", function._name, "a result that is memory-mapped")
    function.note_reason(reason)
    fallback.record(reason, function.fallback, function._name)
    return function.__wrapped__(*args, **kwargs)


def _as_function(function: Any) -> Any:
    """A fused function as something that is called."""
    return function


def _leaves(result: Any) -> list[Any]:
    """The values of a result."""
    return trees.flatten(result)[1]
