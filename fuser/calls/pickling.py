"""How fused functions are pickled: by their names, or with the plain function.

A function of a module that other processes import is pickled by its name, as plain functions are.
One of `__main__`, which is another module there (a notebook's, for joblib, loky and dask), has to
be pickled by value where the pickler can do that, as cloudpickle can, and else by its name
(`multiprocessing` has the child import the script). The same pickle serves both: the name of the
plain function leads to the fused one, so pickle would refuse the plain function. A copy of it is
pickled, whose name, `f.by_value`, leads to itself by way of the fused function `f`. Pickle writes
that name; cloudpickle writes the copy by value, as it does with all functions of `__main__`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fuser.base.errors import FunctionNotFoundError
from fuser.base.packages import loaded

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

#: The class of fused functions, which `pickles` hands in.
_kinds: list[Any] = []


def pickles(kind: Any) -> None:
    """Have unpickled functions be of this class."""
    _kinds.append(kind)


def reduced(function: Owner, protocol: int) -> tuple[Any, ...]:
    """What `__reduce_ex__` gives.

    Args:
        function: what is pickled.
        protocol: of the pickle; names with dots need 4, and cloudpickle takes none before.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    if not module or _lookup(module, name) is not function:
        return fused, (function.__wrapped__, function.options)
    plain = type(function.__wrapped__) is FunctionType
    if plain and protocol >= 4 and _goes_along(module):
        return _found_or_fused, (function.by_value, name, function.options)
    return _find, (module, name)


def fused(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """A function, fused.

    Args:
        function: the plain one.
        options: as of `fuser.fuse`.
    """
    return _kinds[0](function, **options)


def named_copy(function: Any, known: Any, name: str) -> FunctionType:
    """A copy of a Python function that pickle finds as an attribute of its fused one.

    Args:
        function: the plain function.
        known: the copy that was made before; it is kept up to date.
        name: of the attribute.
    """
    copied: FunctionType = known
    if known is None:
        copied = FunctionType(
            function.__code__, function.__globals__, function.__name__, None, function.__closure__
        )
    for each in ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__module__"):
        setattr(copied, each, getattr(function, each))
    copied.__annotations__ = function.__annotations__
    copied.__dict__.update(function.__dict__)
    copied.__qualname__ = f"{function.__qualname__}.{name}"
    return copied


def _found_or_fused(copied: Any, name: str, options: Mapping[str, Any]) -> Any:
    """Unpickle a function of `__main__`: the one that is there, if the copy came by its name."""
    there = _lookup(copied.__module__, name)
    if type(there) in _kinds and there._by_value is copied:
        return there
    copied.__qualname__ = name
    made = fused(copied, options)
    made.__qualname__ = name  # a function that names itself has got it too early
    return made


def _find(module: str, name: str) -> Any:
    """Unpickle by reference.

    Raises:
        FunctionNotFoundError: there is no such function here.
    """
    advice = (
        "It was pickled by its name: have the same version of its module on both sides, or define "
        "it in __main__ and pickle with cloudpickle, which takes the code along"
    )
    try:
        importlib.import_module(module)
    except ImportError as error:
        found = f"{module} cannot be imported here ({error})"
        raise FunctionNotFoundError(f"fused function {module}.{name}: {found}. {advice}") from error
    there = _lookup(module, name)
    if type(there) in _kinds:
        return there
    found = f"{module} has no {name}"
    if there is not None:
        found = f"its type is {type(there).__name__} here"
    raise FunctionNotFoundError(f"fused function {module}.{name}: {found}. {advice}")


def _goes_along(module: str) -> bool:
    """Whether cloudpickle takes functions of a module along, and does not name them."""
    known = loaded("cloudpickle")
    registered = () if known is None else known.list_registry_pickle_by_value()
    parts = module.split(".")
    packages = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return module == "__main__" or not packages.isdisjoint(registered)


def _lookup(module: str, name: str) -> Any:
    """The object called `module.name`, or None."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
