"""Fuse NumPy and CuPy array code into single kernels."""

# ruff: noqa: E402 - the checkout joins the path before anything else is imported

import os
from typing import TYPE_CHECKING, Any

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if os.path.isdir(f"{_CHECKOUT}/backends") and os.path.isfile(f"{_CHECKOUT}/pyproject.toml"):
    __path__.append(_CHECKOUT)  # `import fuser.backends` then works without installing

from fuser.backend import available_backends, register_backend
from fuser.base.errors import (
    ArgumentError,
    BackendError,
    ConfigurationError,
    DtypeError,
    FallbackWarning,
    FuserError,
    FusionError,
    GraphError,
    Reason,
    ShapeError,
)
from fuser.base.timeline import profile
from fuser.calls.fused_function import FusedFunction
from fuser.interface import fuse
from fuser.ir.graph import Graph

if TYPE_CHECKING:
    from fuser import functional
    from fuser.control import (
        can_fuse_on_cpu,
        can_fuse_on_gpu,
        clear_caches,
        debug_num_cached_kernel_specs,
        get_num_threads,
        n_compiled_kernels,
        override_can_fuse_on_cpu,
        override_can_fuse_on_gpu,
        set_num_threads,
        show_config,
        stats,
    )
    from fuser.explain.explanation import Explanation
    from fuser.graph_interface import (
        debug_get_fused_kernel_code,
        debug_launch_graph,
        fusion_candidates,
        generate_code,
        register_fusion,
        run_fusion,
        trace,
    )
    from fuser.ir.graph_text import parse
    from fuser.traffic.ledger import Ledger
    from fuser.tuner import Tuning, tune

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "BackendError",
    "ConfigurationError",
    "DtypeError",
    "Explanation",
    "FallbackWarning",
    "FusedFunction",
    "FuserError",
    "FusionError",
    "Graph",
    "GraphError",
    "Ledger",
    "Reason",
    "ShapeError",
    "Tuning",
    "available_backends",
    "can_fuse_on_cpu",
    "can_fuse_on_gpu",
    "clear_caches",
    "debug_get_fused_kernel_code",
    "debug_launch_graph",
    "debug_num_cached_kernel_specs",
    "functional",
    "fuse",
    "fusion_candidates",
    "generate_code",
    "get_num_threads",
    "n_compiled_kernels",
    "override_can_fuse_on_cpu",
    "override_can_fuse_on_gpu",
    "parse",
    "profile",
    "register_backend",
    "register_fusion",
    "run_fusion",
    "set_num_threads",
    "show_config",
    "stats",
    "trace",
    "tune",
]


_LATER = {
    "control": "can_fuse_on_cpu can_fuse_on_gpu clear_caches debug_num_cached_kernel_specs "
    "get_num_threads n_compiled_kernels override_can_fuse_on_cpu override_can_fuse_on_gpu "
    "set_num_threads show_config stats",
    "explain.explanation": "Explanation Ledger",
    "graph_interface": "debug_get_fused_kernel_code debug_launch_graph fusion_candidates "
    "generate_code register_fusion run_fusion trace",
    "ir.graph_text": "parse",
    "tuner": "Tuning tune",
}
"""Files of names that are not needed to call a fused function: imported when they are asked for."""
_MODULES = ("dask", "functional")  # the first imports Dask


def __getattr__(name: str) -> Any:
    """Import what has a name that is not needed to call a fused function."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"fuser.{name}")
    for file, names in _LATER.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(f"fuser.{file}"), name)
            return found
    raise AttributeError(f"module 'fuser' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What the module has, and what it would import."""
    return sorted({*globals(), *__all__, *_MODULES})
