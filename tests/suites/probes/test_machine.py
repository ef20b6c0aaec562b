"""Facts about the machine: readable everywhere, never a path or a user's name."""

import os

from fuser.suites.probes import machine


def test_the_machine_is_described() -> None:
    """A processor, its cores, memory and the load are known on any POSIX machine."""
    found = machine.describe_machine()
    assert found.cpu
    assert found.cores_logical == os.cpu_count()
    assert found.memory_bytes > 1 << 28
    assert len(found.load_average) == 3
    assert 1 <= machine.usable_cores() <= found.cores_logical


def test_cache_sizes_grow_by_level() -> None:
    """Where the system shows them."""
    sizes = list(machine.cache_sizes().values())
    assert sizes == sorted(sizes)


def test_versions_and_commit() -> None:
    """Python and NumPy have versions; the commit is a hash or unknown."""
    versions = machine.package_versions()
    assert {"python", "numpy", "fuser"} <= versions.keys()
    commit, dirty = machine.checkout_state()
    assert commit is None or (len(commit) == 40 and isinstance(dirty, bool))


def test_the_command_has_no_folder() -> None:
    """Only the program's name and its arguments."""
    assert "/" not in machine.command_line()[0]
