"""Fuse NumPy and CuPy array code into single kernels."""

import os
from _thread import get_ident
from importlib import import_module
from typing import TYPE_CHECKING, Any

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if os.path.isdir(f"{_CHECKOUT}/backends") and os.path.isfile(f"{_CHECKOUT}/pyproject.toml"):
    __path__.append(_CHECKOUT)  # `import fuser.backends` then works without installing

if TYPE_CHECKING:
    from fuser import functional
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
    from fuser.control import (
        can_fuse_on_cpu,
        can_fuse_on_gpu,
        clear_caches,
        debug_num_cached_kernel_specs,
        n_compiled_kernels,
        override_can_fuse_on_cpu,
        override_can_fuse_on_gpu,
        set_num_threads,
        show_config,
        stats,
    )
    from fuser.explain.explanation import Explanation
    from fuser.interface import (
        debug_get_fused_kernel_code,
        debug_launch_graph,
        fuse,
        fusion_candidates,
        generate_code,
        register_fusion,
        run_fusion,
        trace,
    )
    from fuser.ir.graph import Graph
    from fuser.ir.graph_text import parse
    from fuser.traffic.ledger import Ledger

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
]


#: Where each public name is. All of these are imported when the first is asked for, so that
#: `import fuser` costs nothing where nothing is fused.
_PLACES = {
    "fuser.backend": "available_backends register_backend",
    "fuser.base.errors": """
        ArgumentError BackendError ConfigurationError DtypeError FallbackWarning
        FuserError FusionError GraphError Reason ShapeError
    """,
    "fuser.base.timeline": "profile",
    "fuser.calls.fused_function": "FusedFunction",
    "fuser.control": """
        can_fuse_on_cpu can_fuse_on_gpu clear_caches debug_num_cached_kernel_specs
        n_compiled_kernels override_can_fuse_on_cpu override_can_fuse_on_gpu
        set_num_threads show_config stats
    """,
    "fuser.interface": """
        debug_get_fused_kernel_code debug_launch_graph fuse fusion_candidates
        generate_code register_fusion run_fusion trace
    """,
    "fuser.ir.graph": "Graph",
}
_NAMES = frozenset(" ".join(_PLACES.values()).split())
#: What no call of a fused function needs: each is imported when it is asked for itself.
_SELDOM = {
    "Explanation": "fuser.explain.explanation",
    "Ledger": "fuser.traffic.ledger",
    "parse": "fuser.ir.graph_text",
    "functional": "fuser.functional",
}
#: Threads that import them. A signal handler that interrupts its own thread there finds modules
#: that are not whole: it gets an AttributeError, as of any module that is being imported.
_importing: set[int] = set()


def __getattr__(name: str) -> Any:
    """Import the public names when one is asked for."""
    here = get_ident()
    if name in _SELDOM:
        found = import_module(_SELDOM[name])
        globals()[name] = found if name == "functional" else getattr(found, name)
    elif name in _NAMES and here not in _importing:
        _importing.add(here)
        try:
            for module, names in _PLACES.items():
                found = import_module(module)
                globals().update({each: getattr(found, each) for each in names.split()})
        finally:
            _importing.discard(here)
    else:
        raise AttributeError(f"module 'fuser' has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
