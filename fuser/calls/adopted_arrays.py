"""Arguments that are other libraries' arrays on a device: adopted, and results handed back.

Such an array is looked at as one of the backend's, which shares its memory; it is kept until the
kernels that read it have run. Known calls adopt and launch in one generated line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from fuser.backend import backend_of, get_backend
from fuser.base import trees
from fuser.base.call_keys import READY_LIMIT, exact_key
from fuser.base.packages import ARRAYS, root
from fuser.base.protocols import has, module_of


def call(function: Any, structure: Any, leaves: list[Any], taken: list[Any], out: Any) -> Any:
    """Run a call with what was adopted in place of its arguments.

    Args:
        function: the fused one.
        structure: how its arguments nest.
        leaves: the arguments.
        taken: likewise, with the backend's arrays in place of other libraries'.
        out: arrays of `out=`, or None.
    """
    args, kwargs = trees.unflatten(structure, taken)
    try:
        result = function(*args, **kwargs) if out is None else function(*args, **kwargs, out=out)
    finally:
        adopted = [own for leaf, own in zip(leaves, taken, strict=True) if own is not leaf]
        get_backend(backend_of(adopted)).hold(adopted)
    give = giver(leaves, taken) if function.results == "arguments" else None
    if not kwargs and out is None and len(args) == len(leaves):
        _shorten(function, leaves, taken, give)
    return result if give is None or out is not None else give(result)


def _shorten(
    function: Any, leaves: list[Any], taken: list[Any], give: Callable[[Any], Any] | None
) -> None:
    """Have later calls like this one take a short way, if calls with what was adopted do."""
    key = exact_key(tuple(taken))
    adopting = None if key is None else getattr(function._ready.get(key), "adopting", None)
    if adopting is None:
        return
    known = ("adopted", key, tuple(map(type, leaves)))
    if known not in function._ready or not function._ready[known].holds():
        if len(function._ready) >= READY_LIMIT:
            return
        if (made := adopting(leaves, taken, give)) is None:
            return
        function._ready[known] = made
    function._latest = function._ready[known]


def giver(leaves: Sequence[Any], taken: Sequence[Any]) -> Callable[[Any], Any] | None:
    """What gives a call's results as arrays of the library that its first adopted argument is of.

    None where that library has no `from_dlpack`.

    Args:
        leaves: the arguments.
        taken: likewise, with the backend's arrays in place of other libraries'.
    """
    leaf, own = next(pair for pair in zip(leaves, taken, strict=True) if pair[0] is not pair[1])
    if has(leaf, "__array_namespace__"):
        library = leaf.__array_namespace__()
    else:
        library = sys.modules.get(root(module_of(type(leaf))))
    take = getattr(library, "from_dlpack", None)
    if take is None:
        return None
    kind = type(own)

    def one(value: Any) -> Any:
        return take(value) if type(value) is kind else value

    def give(result: Any) -> Any:
        if type(result) is kind:
            return take(result)
        structure, values = trees.flatten(result)
        return trees.unflatten(structure, list(map(one, values)))

    return give


def takers(leaves: Sequence[Any], taken: Sequence[Any]) -> dict[int, tuple[type, Any]]:
    """By its place, of each adopted argument its class, and what adopts it.

    Args:
        leaves: the arguments.
        taken: likewise, with the backend's arrays in place of other libraries'.
    """
    found: dict[int, tuple[type, Any]] = {}
    for place, (leaf, own) in enumerate(zip(leaves, taken, strict=True)):
        if own is not leaf:
            backend = get_backend(ARRAYS[root(module_of(type(own)))])
            found[place] = type(leaf), backend.adopter(leaf)
    return found
