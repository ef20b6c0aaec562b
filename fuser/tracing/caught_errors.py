"""Errors that a traced function catches, and so goes its way by what arrays do not raise.

One that depends on lengths means another way with other lengths. What a trace refuses is no error
of NumPy's at all: a function that catches everything would take it for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fuser.base.errors import Unsupported
from fuser.base.packages import root


def noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a stand-in; after an error of it, a trace that goes on is given up.

    Only those of NumPy's own dtypes, `UFuncTypeError`, are the same for all such arrays.
    """

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except (ValueError, IndexError, TypeError) as error:
            own = isinstance(error, TypeError) and type(error) is not TypeError
            if self.tracing.failed is None and not own:
                found = f"it catches {type(error).__name__}"
                self.tracing.failed = Unsupported("control-flow", "except", found)
            raise

    return run


def check_refusals(refused: Sequence[Unsupported]) -> None:
    """Give a trace up whose function has caught what was refused.

    Args:
        refused: what was refused while it ran.

    Raises:
        Unsupported: the first that code outside of this package has caught.
    """
    for place, reached in enumerate([error.__traceback__ for error in refused]):
        if reached is None:
            continue
        frame = reached.tb_frame  # the outermost is the one that caught it
        ours = root(frame.f_globals) == "fuser"
        if not ours or frame.f_code.co_name.startswith("__"):  # which C code called
            raise refused[place]  # and in no variable, which would keep the frame
