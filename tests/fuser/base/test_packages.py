"""What is known of packages."""

import numpy as np

import fuser
from fuser.base import packages
from fuser.ir import opaque_calls
from fuser.suites.registry import resolve
from tests.tree import ROOT


def test_root_of_modules_and_namespaces() -> None:
    """A module's name, or the globals of a function."""
    assert packages.root(np.linalg.__name__) == "numpy"
    assert packages.root(vars(np.linalg)) == "numpy"
    assert packages.root({}) not in packages.STABLE


def test_functions_that_are_timed_are_users_code() -> None:
    """A workload is traced as a user's function is: its loops are seen, its names guarded."""
    work = resolve("jacobi_1d")
    assert packages.root(work.function.__module__) == packages.WORKLOADS
    assert packages.WORKLOADS not in packages.UNCHANGED | packages.UNWATCHED
    assert packages.root("fuser.suites.registry") == "fuser"
    fused = fuser.fuse(work.function)
    assert len(fused.explain(*work.inputs(64, "float64", 0)).loops) == 1


def test_what_is_not_copied_is_what_is_stable_and_more() -> None:
    """Arrays' packages are in every list that leaves their objects alone."""
    arrays = set(packages.ARRAYS)
    for known in (packages.STABLE, packages.UNCOPIED, packages.UNCHANGED):
        assert arrays < known
    assert packages.STABLE < packages.UNCOPIED


def test_functions_of_listed_modules_are_found() -> None:
    """Each module of NumPy's is imported, and a function of it has its name."""
    for module in packages.NUMPY_MODULES:
        assert packages.root(module) == "numpy"
    assert opaque_calls.resolve("numpy.linalg.norm") is np.linalg.norm


def test_lists_of_packages_are_in_one_file() -> None:
    """No other file of the core has NumPy and CuPy in one literal of names."""
    found = set()
    for path in (ROOT / "fuser").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words = set(line.replace('"', " ").replace(",", " ").replace("(", " ").split())
            if {"numpy", "cupy"} <= words and ("frozenset" in line or " in (" in line):
                found.add(path.name)
    assert found <= {"packages.py"}
