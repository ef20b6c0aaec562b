"""What a task does apart from the keys of what it needs: equal for tasks that do the same.

Dask's keys have digests of data in them. Tasks of another block, or of the same program for other
data, have the same form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from dask._task_spec import Alias, GraphNode, Task, TaskRef, _execute_subgraph
from dask.base import tokenize

#: How objects are hashed that are equal to nothing but themselves.
_OF_IDENTITY: tuple[Any, ...] = (object.__hash__, type.__hash__)


def form(part: Any, needs: dict[Any, str], told: Callable[[Any], Any]) -> Any:
    """What a task does.

    Args:
        part: a task, or an argument of one.
        needs: takes the keys that it needs, in the order in which they are met.
        told: what stands for a function or a constant.
    """
    if isinstance(part, (TaskRef, Alias)):
        key = part.key if isinstance(part, TaskRef) else part.target
        return "needs", needs.setdefault(key, f"{len(needs)}")
    if isinstance(part, Task) and part.func is _execute_subgraph:
        return _of_parts(part, needs, told)
    if isinstance(part, Task):
        named = tuple((key, form(part.kwargs[key], needs, told)) for key in sorted(part.kwargs))
        return told(part.func), tuple(form(each, needs, told) for each in part.args), named
    if isinstance(part, GraphNode):
        return "data", told(part.value if hasattr(part, "value") else part)
    if isinstance(part, (tuple, list)):
        return type(part), tuple(form(each, needs, told) for each in part)
    return told(part)


def _of_parts(task: Task, needs: dict[Any, str], told: Callable[[Any], Any]) -> Any:
    """What a task does that is a small graph of tasks."""
    parts, wanted, inside, *given = task.args
    known = {key: form(each, needs, told) for key, each in zip(inside, given, strict=True)}
    made: list[Any] = []
    stack = [wanted]
    while stack:
        key = stack[-1]
        own: dict[Any, str] = {}
        found = None if key in known else form(parts[key], own, told)
        missing = [each for each in own if each not in known]
        if missing:
            stack += reversed(missing)
            continue
        if key not in known:
            known[key] = "made", len(made)
            made.append((found, tuple(known[each] for each in own)))
        stack.pop()
    return "parts", tuple(made), known[wanted]


def needs_of(part: Any) -> list[Any]:
    """The keys that a task needs, in the order of its arguments.

    Args:
        part: a task.
    """
    found: dict[Any, str] = {}
    form(part, found, id)
    return list(found)


def by_identity(value: Any) -> Any:
    """What stands for a function or a constant of tasks that are alive.

    Args:
        value: any object.
    """
    if isinstance(value, slice):
        return "slice", *map(by_identity, (value.start, value.stop, value.step))
    if type(value) is float:
        return float, value.hex()
    return (type(value), value) if value is None or type(value) in (bool, int, str) else id(value)


def by_value(value: Any) -> Any:
    """What stands for a function or a constant as long as it is kept: equal ones are one.

    Args:
        value: any object.
    """
    if type(value) is functools.partial:
        named = tuple((key, by_value(value.keywords[key])) for key in sorted(value.keywords))
        return "partial", by_value(value.func), tuple(map(by_value, value.args)), named
    if type(value).__name__ == "Compose":  # of toolz
        return "composed", by_value(value.first), tuple(map(by_value, value.funcs))
    if value is None or type(value) in (bool, int, str) or isinstance(value, np.dtype):
        return type(value), value
    if type(value) is float:
        return float, value.hex()
    if type(value) in (tuple, list):
        return type(value), tuple(map(by_value, value))
    if isinstance(value, slice):
        return "slice", *map(by_value, (value.start, value.stop, value.step))
    if callable(value) and type(value).__hash__ in _OF_IDENTITY:
        return value
    return "token", tokenize(value)
