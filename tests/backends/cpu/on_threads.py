"""Calls on one thread and on several, by the slow path and by the native one."""

from collections.abc import Callable
from typing import Any

from tests.settings import settings


def same_parts(function: Callable[..., Any], *arguments: Any, calls: int = 2) -> tuple[Any, ...]:
    """The results of a fused function, which have the same bits whatever the number of threads.

    Args:
        function: fused.
        arguments: of every call.
        calls: for each number of threads: the first ones take the slow path.
    """
    seen = []
    for threads in (1, 3):
        with settings(num_threads=threads):
            for _ in range(calls):
                found = function(*arguments)
                parts = found if isinstance(found, tuple) else (found,)
                seen.append([part.tobytes() for part in parts])
    assert all(each == seen[0] for each in seen)
    return parts
