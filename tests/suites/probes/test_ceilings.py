"""Memory speed: sizes follow the caches, bytes are those that the passes move."""

import numpy as np
import pytest

from fuser.reports.ceilings import working_set_class
from fuser.suites.probes import ceilings


def test_working_sets_are_in_every_class() -> None:
    """Half of a core's cache, two in the shared one, four times that one, and bounded."""
    caches = {"L2": 1 << 20, "L3": 8 << 20}
    assert ceilings.working_sets(caches) == [512 << 10, 1280 << 10, 2 << 20, 32 << 20]
    classes = [working_set_class(each, caches) for each in ceilings.working_sets(caches)]
    assert classes == ["L2", "L3", "L3", "memory"]
    assert ceilings.working_sets({})[-1] <= ceilings.MOST_BYTES
    assert ceilings.working_sets({"L3": 1 << 30})[-1] == ceilings.MOST_BYTES
    assert ceilings.working_sets({"L2": 1 << 20, "L3": 1 << 20}) == [512 << 10, 4 << 20]


@pytest.mark.parametrize("fused", [False, True])
def test_every_pass_counts_its_bytes(fused: bool) -> None:
    """NumPy's triad moves five arrays in two passes, a fused one three; read moves one."""
    caches = {"L2": 64 << 10, "L3": 1 << 20}
    found = list(ceilings.measure(caches, 2, process=4, samples=2, fused=fused))
    kinds = {
        (each["by"], each["name"], each["threads"],
         working_set_class(each["working_set_bytes"], caches))
        for each in found
    }
    assert kinds == {
        (by, name, threads, level)
        for by in (("numpy", "fuser") if fused else ("numpy",))
        for name in ("copy", "triad", "read")
        for threads, level in ((1, "L2"), (1, "L3"), (2, "L3"), (1, "memory"), (2, "memory"))
    }
    shares = {"copy": (2, 2), "read": (1, 1)}
    for each in found:
        triad = (3, 3 if each["by"] == "fuser" else 5)
        arrays, moved = shares.get(each["name"], triad)
        assert each["bytes_moved"] * arrays == each["working_set_bytes"] * moved
        assert len(each["seconds"]) == 2
        assert each["process"] == 4


def test_fused_passes_do_what_they_say() -> None:
    """Copy, b + 3 c, and the largest element, as kernels."""
    copy, triad, read = ceilings.fused_passes()
    a, b, c = np.zeros(50, np.float32), np.arange(50, dtype=np.float32), np.ones(50, np.float32)
    copy.run(a, b)
    assert np.array_equal(a, b)
    triad.run(a, b, c)
    assert np.array_equal(a, b + 3)
    assert read.run(b) == 49
