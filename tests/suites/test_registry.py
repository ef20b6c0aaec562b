"""The registry: every workload once, importing it costs nothing."""

from pathlib import Path

import pytest

from fuser.suites import families
from fuser.suites.registry import FAMILIES, UnknownWorkloadError, resolve, workloads
from tests.children import said
from tests.suites.cheats import DOUBLE


def test_every_family_file_is_listed() -> None:
    """A module that is not in FAMILIES would never be measured."""
    files = {path.stem for path in Path(families.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == set(FAMILIES)


def test_there_is_enough_to_measure() -> None:
    """At least 60 workloads, two that must be refused, three on real data."""
    every = workloads().values()
    assert len(every) >= 60
    assert sum(each.must_refuse for each in every) == 1
    assert sum(not each.synthetic for each in every) == 3


def test_importing_the_registry_imports_no_family() -> None:
    """The registry is filled when it is asked for, not by import side effects."""
    code = (
        "import sys, fuser.suites.registry; "
        "print([m for m in sys.modules if m.startswith('fuser.suites.families')])"
    )
    assert said("-c", code).strip() == "[]"


def test_resolve_finds_names_and_modules() -> None:
    """Ours by name, others by `module:attribute`; anything else says what to do."""
    assert resolve("axpy").name == "axpy"
    assert resolve("tests.suites.cheats:DOUBLE") is DOUBLE
    with pytest.raises(UnknownWorkloadError, match="--list"):
        resolve("nosuch")
    with pytest.raises(UnknownWorkloadError, match="no Workload"):
        resolve("tests.suites.cheats:double")
