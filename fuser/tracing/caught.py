"""Errors that depend on lengths: a function that catches one goes its way by the lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fuser.errors import Unsupported


def noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a stand-in; after an error of it, a trace that goes on is given up."""

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except (ValueError, IndexError) as error:
            if self.tracing.failed is None:
                found = f"it catches {type(error).__name__}"
                self.tracing.failed = Unsupported("control-flow", "except", found)
            raise

    return run
