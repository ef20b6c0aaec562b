"""What the dispatcher does after a match: memory, kernels, results."""


import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry
from fuser.backends.cpu.machine import loader, pool
from tests.settings import settings


def test_the_text_holds_no_address() -> None:
    """Every number in it is an offset, a mask or a size."""
    import re

    numbers = [int(n) for n in re.findall(r"\bi64 (\d+)", entry.TEXT)]
    assert max(n for n in numbers if n != (1 << 63) - 1) <= 1 << 31
    loader.parse(entry.TEXT)


def test_temporaries_of_all_sizes_find_room() -> None:
    """On the stack, from the C library, from the pool."""
    function = fuser.fuse(lambda x: np.sqrt(x * x + 1) - x, mode="unfused")
    for n in (1, 500, 3000, 40_000, 400_000):
        x = np.linspace(-2, 2, n)
        for _ in range(4):
            assert np.array_equal(function(x), function.__wrapped__(x))
    assert function._native.hits >= 10


@pytest.mark.skipif(pool.pool() is None, reason="no pool on this platform")
def test_large_results_come_from_the_pool_while_it_is_on() -> None:
    """Their memory returns to it; switched off, it is left alone."""
    function = fuser.fuse(lambda x: x + 0.5)
    x = np.ones(1 << 19)
    for _ in range(3):
        function(x)
    found = pool.pool()
    assert found is not None
    before = found.reused
    hits = function._native.hits
    for _ in range(5):
        assert function(x)[0] == 1.5
    assert found.reused >= before + 4
    assert function._native.hits == hits + 5
    with settings(pool=False):
        function(x)
        before = found.reused
        for _ in range(3):
            function(x)
        assert found.reused == before
    found.trim()


def test_a_status_starts_the_call_anew() -> None:
    """Python raises what NumPy raises, and later calls are served natively again."""
    function = fuser.fuse(lambda a, b: a**b)
    a = np.arange(1, 5)
    for _ in range(3):
        function(a, a)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            function(a, -a)
    hits = function._native.hits
    assert function(a, a).tolist() == [1, 4, 27, 256]
    assert function._native.hits == hits + 1
