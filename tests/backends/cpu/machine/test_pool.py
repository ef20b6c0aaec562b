"""The output pool: arrays own their data, and memory comes back and is given out again."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.machine import pool
from tests.children import said
from tests.settings import settings

FOUND = pool.pool()
pytestmark = pytest.mark.skipif(FOUND is None, reason="the output pool exists on Linux only")
SIZE = 1 << 18


@pytest.fixture
def fresh_pool() -> pool.OutputPool:
    """The process's pool with nothing waiting in it."""
    found = pool.pool()
    assert found is not None
    found.limit(pool.default_limit())
    found.trim()
    return found


def _array(length: int = SIZE) -> np.ndarray:
    return pool.empty((length,), np.dtype(np.float64))


def test_memory_of_a_dead_array_is_given_out_again(fresh_pool: pool.OutputPool) -> None:
    """A second array of the same size lies where the first lay."""
    first = _array()
    place = first.ctypes.data
    assert first.flags.owndata
    assert first.base is None
    del first
    assert fresh_pool.held_bytes >= SIZE * 8
    reused = fresh_pool.reused
    assert _array().ctypes.data == place
    assert fresh_pool.reused == reused + 1


def test_blocks_begin_pages(fresh_pool: pool.OutputPool) -> None:
    """For streaming stores, and for loads that are not taken for stores; 2 MiB for large blocks."""
    assert _array().ctypes.data % 4096 == 0
    assert _array(SIZE + 8192 * 3).ctypes.data % 4096 == 0
    assert _array(1 << 20).ctypes.data % (2 << 20) == 0


def test_views_keep_memory_alive(fresh_pool: pool.OutputPool) -> None:
    """A block comes back when the last view of it is gone."""
    whole = _array()
    part = whole[10:20]
    del whole
    assert fresh_pool.held_bytes == 0
    part[:] = 1
    del part
    assert fresh_pool.held_bytes > 0


def test_resize_and_pickle_work_as_ever(fresh_pool: pool.OutputPool) -> None:
    """The pool is a memory handler, not a base object."""
    array = _array()
    array[:] = np.arange(SIZE)
    array.resize(2 * SIZE, refcheck=False)
    assert array[SIZE - 1] == SIZE - 1
    array.resize(10, refcheck=False)
    assert pickle.loads(pickle.dumps(array)).tolist() == list(range(10))


def test_the_limit_is_kept(fresh_pool: pool.OutputPool) -> None:
    """No more bytes wait than allowed; trimming gives all of them back."""
    fresh_pool.limit(3 * SIZE * 8)
    arrays = [_array() for _ in range(8)]
    del arrays
    assert 0 < fresh_pool.held_bytes <= 3 * SIZE * 8
    fresh_pool.trim()
    assert fresh_pool.held_bytes == 0
    fresh_pool.limit(0)
    array = _array()
    del array
    assert fresh_pool.held_bytes == 0


def test_clearing_caches_empties_the_pool(fresh_pool: pool.OutputPool) -> None:
    """What waits goes back to the system, even if the pool has been switched off meanwhile."""
    for switched in (True, False):
        array = fuser.fuse(np.negative)(np.ones(SIZE))
        del array
        assert fresh_pool.held_bytes >= SIZE * 8
        with settings(pool=switched):
            fuser.clear_caches()
        assert fresh_pool.held_bytes == 0


def test_many_sizes_never_hold_more_than_the_slots(fresh_pool: pool.OutputPool) -> None:
    """Two hundred different sizes leave at most 64 blocks, and all of them can be trimmed."""
    for step in range(200):
        array = pool.empty((SIZE + step * 8192,), np.dtype(np.uint8).newbyteorder("="))
        wide = pool.empty((SIZE // 2 + step * 8192,), np.dtype(np.float64))
        wide[-1] = 1
        del array, wide
    fresh_pool.trim()
    assert fresh_pool.held_bytes == 0


def test_small_arrays_and_a_pool_switched_off_use_numpy(fresh_pool: pool.OutputPool) -> None:
    """Below the threshold, and with pool=False, nothing comes from the pool."""
    small = pool.empty((8,), np.dtype(np.float32))
    del small
    with settings(pool=False):
        array = _array()
        del array
    assert fresh_pool.held_bytes == 0


def test_blocks_that_wait_are_lent_to_the_kernel(fresh_pool: pool.OutputPool) -> None:
    """A large block is marked as free to take when another one comes back; it serves all the same.

    `LazyFree` of the process is what the kernel counts of such pages.
    """
    arrays = [_array(1 << 20), _array(1 << 20)]  # 8 MiB each
    for array in arrays:
        array[:] = 1
    before = _lazy_bytes()
    del array
    arrays.pop()
    assert _lazy_bytes() - before < 1 << 20
    arrays.pop()
    assert _lazy_bytes() - before >= 4 << 20
    reused = fresh_pool.reused
    first, second = _array(1 << 20), _array(1 << 20)
    assert fresh_pool.reused == reused + 2
    first[:], second[:] = 2, 3
    assert (first == 2).all()
    assert (second == 3).all()


def _lazy_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("LazyFree:"):
            return int(line.split()[1]) << 10
    pytest.skip("this kernel does not count pages that it may take")


def test_refused_memory_empties_the_pool_first() -> None:
    """Where the address space is used up by waiting blocks, a result still gets its memory."""
    code = (
        "import resource, numpy as np\n"
        "from fuser.backends.cpu.machine import pool\n"
        "made = pool.pool()\n"
        "made.limit(1 << 30)\n"
        "small = pool.empty((1,), np.dtype('f8'))\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "most = used + (200 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "array = pool.empty((120 << 20,), np.dtype('u1'))\n"
        "del array\n"
        "held = made.held_bytes\n"
        "other = pool.empty((130 << 20,), np.dtype('u1'))\n"
        "other[::4096] = 1\n"
        "print(held > 100 << 20, made.held_bytes)\n"
        "del other\n"
        "try:\n"
        "    pool.empty((1 << 31,), np.dtype('u1'))\n"
        "except MemoryError:\n"
        "    print('refused')\n"
    )
    assert said("-c", code).split() == ["True", "0", "refused"]


def test_numpys_own_arrays_empty_the_pool_where_memory_is_refused() -> None:
    """Where waiting blocks are in the way of an array of NumPy's, under a limit set later."""
    code = (
        "import resource, numpy as np\n"
        "from fuser.backends.cpu.machine import pool\n"
        "made = pool.pool()\n"
        "made.limit(1 << 30)\n"
        "grown = [np.ones(1 << 24, np.uint8), pool.empty((1 << 24,), np.dtype('u1'))]\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.RLIM_INFINITY))\n"
        "ways = [lambda n: np.empty(n, np.uint8), lambda n: np.zeros(n, np.uint8)]\n"
        "ways += 2 * [lambda n: grown.pop().resize(n, refcheck=False)]\n"
        "for way in ways:\n"
        "    array = pool.empty((120 << 20,), np.dtype('u1'))\n"
        "    del array\n"
        "    held = made.held_bytes\n"
        "    way(130 << 20)\n"
        "    print(held > 100 << 20)\n"
        "    made.trim()\n"
        "try:\n"
        "    np.empty(1 << 31)\n"
        "except MemoryError:\n"
        "    print('refused')\n"
    )
    assert said("-c", code).split() == [*["True"] * 4, "refused"]


def test_a_control_groups_limit_is_the_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of what it allows waits for reuse at most."""
    monkeypatch.setattr(pool.processors, "memory_limit", lambda: 64 << 20)
    assert pool.default_limit() == 8 << 20
    monkeypatch.setattr(pool.processors, "memory_limit", lambda: None)
    assert pool.default_limit() > 8 << 20


def test_a_limit_of_address_space_is_the_pools() -> None:
    """Else NumPy would run out of what waits here."""
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))\n"
        "from fuser.backends.cpu.machine import pool\n"
        "print(pool.default_limit())\n"
    )
    assert int(said("-c", code)) == 128 << 20
