"""A fused function called with Dask arrays: lazy Dask arrays, one kernel a chunk.

The function is traced on stand-ins of the arrays' dtypes and shapes, nothing is computed, and the
graph is divided at what crosses chunks. Where that cannot be done, the plain function runs on the
Dask arrays, so that each operation is Dask's own; what is elementwise in between becomes kernels,
too, and the reason says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from fuser import fallback
from fuser.base import trees
from fuser.base.errors import FusionError, Reason, Unsupported
from fuser.calls.owner import Owner
from fuser.dask.optimization import with_kernels
from fuser.executor import CannotRun


def call(function: Owner, structure: Any, leaves: list[Any], out: Any) -> Any:
    """Run a fused function on Dask arrays.

    Args:
        function: what is called.
        structure: how its arguments nest.
        leaves: the arguments; some are Dask arrays.
        out: arrays of `out=`, or None.

    Raises:
        FusionError: `out=` is given, the function writes into its arguments, or it cannot be fused
            and the policy is "error".
    """
    if out is not None:
        raise FusionError(Reason("lazy-write", function._name, "out= with Dask arrays"))
    try:
        raise Unsupported("lazy-array", function._name, "not yet", "")
    except (CannotRun, Unsupported) as error:
        reason = error.reason
    if reason.code == "lazy-write":
        raise FusionError(reason)
    function.note_reason(reason)
    fallback.record(reason, function.fallback, function._name)
    return operation_by_operation(function, structure, leaves)


def operation_by_operation(function: Owner, structure: Any, leaves: Sequence[Any]) -> Any:
    """Run the plain function on Dask arrays, with kernels for what is elementwise.

    Args:
        function: what is called.
        structure: how its arguments nest.
        leaves: the arguments.

    Raises:
        FusionError: it has written into an argument.
    """
    copies = [leaf.copy() if isinstance(leaf, da.Array) else leaf for leaf in leaves]
    args, kwargs = trees.unflatten(structure, copies)
    result = function.__wrapped__(*args, **kwargs)
    for leaf, copied in zip(leaves, copies, strict=True):
        if isinstance(leaf, da.Array) and copied.name != leaf.name:
            raise FusionError(Reason("lazy-write", function._name, "an argument is written into"))
    given = [leaf for leaf in leaves if isinstance(leaf, da.Array)]
    nested, found = trees.flatten(result)
    return trees.unflatten(nested, optimized(found, given))


def optimized(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Results with kernels for what is elementwise between the given arrays and them.

    Args:
        results: Dask arrays, and anything else, which stays as it is.
        given: Dask arrays that stay whole: others may use them, too.
    """
    arrays = [each for each in results if isinstance(each, da.Array)]
    names = {each.name for each in given}
    if not arrays:
        return list(results)
    whole = HighLevelGraph.merge(*(each.dask for each in arrays))
    keys = [key for each in (*arrays, *given) for key in flatten(each.__dask_keys__())]
    graph = with_kernels(whole, [key for key in keys if key[0] in whole.layers or key[0] in names])
    return [
        da.Array(graph, each.name, each.chunks, meta=each._meta)
        if isinstance(each, da.Array) and each.name not in names
        else each
        for each in results
    ]
