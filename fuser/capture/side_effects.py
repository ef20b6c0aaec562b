"""Functions that have effects beside their results, which no graph has: print, sleep, write …"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
import warnings
from types import CodeType
from typing import Any

from fuser.base.errors import Unsupported
from fuser.base.protocols import is_a

#: Functions with an effect that a kernel has not.
EFFECTS = frozenset(map(id, (
    print, input, builtins.open, io.open, warnings.warn, warnings.warn_explicit, time.sleep,
    os.system, os.write, os.mkdir, os.remove, os.unlink, os.rename, os.replace, os.rmdir, os.kill,
)))  # fmt: skip
#: Those that are Python code, by the modules that have them, where these are in use.
_IN_PYTHON = (
    ("logging", "Logger._log"), ("logging", "Logger.handle"), ("subprocess", "Popen.__init__"),
    ("warnings", "warn"), ("warnings", "warn_explicit"), ("os", "makedirs"),
)  # fmt: skip
#: What changes a file.
_WRITING = frozenset("write writelines truncate".split())


def codes_with_effects() -> frozenset[CodeType]:
    """The code of functions in Python that have effects."""
    found = []
    for module, path in _IN_PYTHON:
        value: Any = sys.modules.get(module)
        for name in path.split("."):
            value = getattr(value, name, None)
        found.append(getattr(value, "__code__", None))
    return frozenset(code for code in found if code is not None)


def has_effect(function: Any) -> bool:
    """Whether a function that is no Python code has an effect beside its result."""
    if id(function) in EFFECTS:
        return True
    if function.__name__ not in _WRITING:
        return False
    written = getattr(function, "__self__", None)
    inside = is_a(written, (io.StringIO, io.BytesIO))
    return is_a(written, io.IOBase) and (not inside or written in (sys.stdout, sys.stderr))


def watched_partial(function: Any) -> Any:
    """A `partial` of a built-in function, whose calls no profiler sees."""
    if not has_effect(function.func):
        return function

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Unsupported("side-effect", f"{function.func.__name__}()", "it is called")

    return refuse
