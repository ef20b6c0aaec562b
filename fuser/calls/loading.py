"""The modules that every first call needs, loaded when a function is fused.

A program that fuses a function means to call it, and its first call is the one that a user waits
for: with these modules there it has only its own work to do. `import fuser` alone loads none of
them, and the code generator's library itself is loaded by the first call that needs it.
"""

from __future__ import annotations

import gc
import importlib

from fuser.backend import chosen_name, get_backend
from fuser.base import forks

MODULES = (
    "fuser.calls.trace_cache",
    "fuser.capture.namespace",
    "fuser.programs.partition",
    "fuser.runtime.launch",
)
"""What calls, tracing and planning import while they run: it would slow `import fuser`."""
DEFAULT_BACKEND = "cpu"
"""Whose modules are loaded where nobody names a backend: which one serves a call is known from its
arrays."""

_LONGEST_S = 1.0
"""A fork waits for so long that modules are there: a child finds their locks taken else."""

_loaded: set[str] = set()
_loading = forks.lock()
forks.wait_for(lambda: _loading.release if _loading.acquire(timeout=_LONGEST_S) else None)


def load(backend: str | None) -> None:
    """Load what first calls need, once for each backend.

    Args:
        backend: the one that a function was fused for; None for the one that the settings name.

    Raises:
        BackendError: there is no backend of that name.
    """
    name = backend or chosen_name() or DEFAULT_BACKEND
    if name in _loaded or forks.imports_here():  # a signal handler meets modules that are not whole
        return
    with _loading:
        collects = gc.isenabled()
        gc.disable()  # none of it is garbage, and to look for some takes a quarter of the time
        try:
            for module in MODULES:
                importlib.import_module(module)
            get_backend(name).load()
        finally:
            if collects:
                gc.enable()
        _loaded.add(name)
