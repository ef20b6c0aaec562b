"""The modules that every first call needs, loaded when a function is fused.

A program that fuses a function means to call it, and its first call is the one that a user waits
for: with these modules there it has only its own work to do. `import fuser` alone loads none of
them, and the code generator's library itself is loaded by the first call that needs it.
"""

from __future__ import annotations

import importlib

from fuser.backend import chosen_name, get_backend

MODULES = (
    "fuser.tracing.extern_tracing",
    "fuser.tracing.namespace",
    "fuser.partitioning.partition",
)
"""What tracing and planning import while they run: in their own text the imports would go round,
or would slow `import fuser`."""
DEFAULT_BACKEND = "cpu"
"""Whose modules are loaded where nobody names a backend: which one serves a call is known from its
arrays."""

_loaded: set[str] = set()


def load(backend: str | None) -> None:
    """Load what first calls need, once for each backend.

    Args:
        backend: the one that a function was fused for; None for the one that the settings name.

    Raises:
        BackendError: there is no backend of that name.
    """
    name = backend or chosen_name() or DEFAULT_BACKEND
    if name in _loaded:
        return
    for module in MODULES:
        importlib.import_module(module)
    get_backend(name).load()
    _loaded.add(name)
