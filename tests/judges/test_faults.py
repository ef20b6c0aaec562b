"""Where the n-th call of the C library fails: no crash, no hang, results or exceptions, then right.

`python -m tests.judges.faults --all` tries every call; here is a fixed sample.
"""

from pathlib import Path

import pytest

from tests.judges.faults import FOREVER, Fault, Outcome, build, run
from tests.requirements import require

SAMPLE = (
    Fault("mmap", 1), Fault("mmap", 3), Fault("mmap", 8), Fault("mmap", 1, FOREVER),
    Fault("mprotect", 1), Fault("mprotect", 6), Fault("mprotect", 1, FOREVER),
    Fault("mprotect", 7, FOREVER),
    Fault("malloc", 1), Fault("malloc", 6), Fault("malloc", 1, FOREVER),
    Fault("write", 1), Fault("write", 4), Fault("write", 1, FOREVER),
    Fault("fork", 1), Fault("pthread_create", 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes calls fail."""
    require("cxx")
    found = build(tmp_path_factory.mktemp("faults"))
    if found is None:
        pytest.skip("LD_PRELOAD is Linux's")
    return found


def test_nothing_fails_unasked(library: Path) -> None:
    """Without a fault all is right, and the calls of the sample are made."""
    found = run(library, Fault("mmap"))
    assert found == Outcome("", found.counts, [])
    assert all(found.counts[fault.call] > 0 for fault in SAMPLE)


@pytest.mark.parametrize("fault", SAMPLE, ids=str)
def test_a_failing_call_is_survived(library: Path, fault: Fault) -> None:
    """Results or exceptions that say what could not be had; afterwards the same calls are right."""
    assert not run(library, fault).wrong
