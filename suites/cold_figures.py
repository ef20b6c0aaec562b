"""First calls in a process that has nothing yet: what is imported, compiled, kept on disk.

Each is a figure of `fuser.suites.cold`, which says what its process does; none is among the
workloads that are listed.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fuser.suites.cold import LENGTHS, chain, gelu
from fuser.suites.workload import Workload, uniforms

FAMILY = "first calls"
ELEMENTS = 1024


def _figure(name: str, title: str, function: Callable[..., Any] = gelu) -> Workload:
    return Workload(
        name, FAMILY, title, function, uniforms((-1.0, 1.0), (-1.0, 1.0)), dtypes=("float32",)
    )


WORKLOADS = (
    _figure("import_fuser", "importing fuser where NumPy is there"),
    _figure("first_fuse", "the first fuse() of a process, which loads what first calls need"),
    _figure("gelu_cold", "the first call of gelu, with nothing kept"),
    _figure("chain_400_cold", "the first call of 400 operations, with nothing kept", chain(400)),
    _figure("import_and_gelu_from_disk", "import, fuse() and call, with machine code on disk"),
    *(
        _figure(f"chain_{count}", f"{count} operations, after a first call", chain(count))
        for count in LENGTHS
    ),
)
AIMS: Mapping[str, float] = MappingProxyType({
    "first_fuse": 0.03, "gelu_cold": 0.03, "chain_400_cold": 0.2, "import_and_gelu_from_disk": 0.1,
})
"""The most seconds that each may take, on a machine where importing NumPy takes 0.1 s."""

globals().update({each.name: each for each in WORKLOADS})


def spec(workload: Workload) -> str:
    """Return the name by which worker processes find one of these."""
    return f"{__name__}:{workload.name}"
