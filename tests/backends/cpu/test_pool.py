"""The output pool: arrays own their data, and memory comes back and is given out again."""

import pickle

import numpy as np
import pytest

from fuser import config
from fuser.backends.cpu import pool

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


def test_blocks_are_aligned_for_streaming_stores(fresh_pool: pool.OutputPool) -> None:
    """64 bytes always, 2 MiB for large blocks."""
    assert _array().ctypes.data % 64 == 0
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
    before = config.change(pool=False)
    try:
        array = _array()
        del array
    finally:
        config.restore(before)
    assert fresh_pool.held_bytes == 0
