"""Every workload by name. Looking one up imports the families; importing this does not."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from fuser.base.near import near_it
from fuser.suites.workload import Workload

FAMILIES = (
    "elementwise",
    "activations",
    "transcendental",
    "comparisons",
    "complex_numbers",
    "layouts",
    "stencils",
    "reductions",
    "normalisations",
    "pairs",
    "optimisers",
    "overhead",
    "real_data",
    "mixed",
    "time_loops",
    "recurrences",
    "solvers",
    "element_loops",
    "scans",
    "products",
    "must_refuse",
)
"""Modules of `fuser.suites.families`, in the order in which results are listed."""
PROGRAM_FAMILIES = FAMILIES[FAMILIES.index("time_loops") : FAMILIES.index("must_refuse")]
"""Those of whole programs: loops, decisions and library calls around the kernels."""


LIST = "`fuser-bench run --list` shows them all"


class UnknownWorkloadError(ValueError):
    """A name that no workload has; the message lists what is near or where to look."""


@cache
def workloads() -> Mapping[str, Workload]:
    """Return every workload by name, in the order of the families."""
    found: dict[str, Workload] = {}
    for family in FAMILIES:
        for workload in import_module(f"fuser.suites.families.{family}").WORKLOADS:
            if workload.name in found:
                raise ValueError(f"two workloads are called {workload.name!r}")
            found[workload.name] = workload
    return found


@cache
def program_workloads() -> Mapping[str, Workload]:
    """Return the workloads that are whole programs by name, in the order of the families."""
    modules = [import_module(f"fuser.suites.families.{each}") for each in PROGRAM_FAMILIES]
    return {each.name: each for module in modules for each in module.WORKLOADS}


def resolve(spec: str) -> Workload:
    """Return the workload of a name, or of `module:attribute` for one declared elsewhere.

    Raises:
        UnknownWorkloadError: there is none; the message says what to do.
    """
    if ":" in spec:
        module, _, attribute = spec.partition(":")
        try:
            found = getattr(import_module(module), attribute, None)
        except Exception as error:  # a person's module may raise anything
            text = f"{spec}: importing {module} raised {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError) and error.name == module:
                here = sorted(each.stem for each in Path.cwd().glob("*.py"))
                text += f"; in this folder {near_it(module, here)}"
            raise UnknownWorkloadError(text) from error
        if not isinstance(found, Workload):
            there = [name for name, each in vars(import_module(module)).items()
                     if isinstance(each, Workload)]  # fmt: skip
            near = near_it(attribute, there)
            raise UnknownWorkloadError(f"{spec}: no Workload of that name in the module; {near}")
        return found
    if spec not in workloads():
        raise UnknownWorkloadError(f"{spec}: no such workload; {near_it(spec, workloads(), LIST)}")
    return workloads()[spec]
