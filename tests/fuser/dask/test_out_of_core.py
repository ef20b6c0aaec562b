"""Four times a worker's memory, from Zarr to Zarr: a cluster of two processes with a limit each.

It writes 3 GB and takes a minute, so that only `tox -e dask` runs it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

SCRIPT = '''
import sys

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster

import fuser

LIMIT = 400 << 20
ROWS, COLUMNS, STEP = 4 * LIMIT // (8 * 2048), 2048, 512


@fuser.fuse
def gelu(x):
    return 0.5 * x * (1 + np.tanh(x + 0.044715 * x * x * x))


@fuser.fuse
def standardise(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def made(name):
    return zarr.create_array(sys.argv[1] + name, shape=(ROWS, COLUMNS), chunks=(STEP, COLUMNS),
                             dtype="f8", compressors=None, overwrite=True)


def largest():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main():
    source, chance = made("/source"), np.random.default_rng(0)
    sums, squares = np.zeros(COLUMNS), np.zeros(COLUMNS)
    for row in range(0, ROWS, STEP):
        part = chance.random((min(STEP, ROWS - row), COLUMNS))
        source[row : row + STEP] = part
        sums += part.sum(0)
        squares += (part * part).sum(0)
    mean = sums / ROWS
    deviation = np.sqrt(squares / ROWS - mean * mean)
    settings = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(memory_limit=LIMIT, **settings) as cluster, Client(cluster) as client:
        pids = set(client.run(os_getpid).values())
        for function, wanted in ((gelu, gelu.__wrapped__),
                                 (standardise, lambda x: (x - mean) / deviation)):
            target = made("/target")
            da.store(function(da.from_zarr(source)), target, lock=False)
            for row in (0, STEP, ROWS // 2, ROWS - 1):
                np.testing.assert_allclose(target[row], wanted(source[row]), rtol=1e-6, atol=1e-9)
            print(function.__name__)
        assert set(client.run(os_getpid).values()) == pids, "a worker was ended for its memory"
        assert max(client.run(largest).values()) < LIMIT
        print("within", LIMIT >> 20)


def os_getpid():
    import os

    return os.getpid()


if __name__ == "__main__":
    main()
'''


@pytest.mark.skipif(not os.environ.get("OUT_OF_CORE"), reason="it writes 3 GB: tox -e dask")
def test_more_than_the_memory(tmp_path: Path) -> None:
    """Right, and no worker ends for its memory."""
    for needed in ("distributed", "zarr"):
        pytest.importorskip(needed, reason="not installed: pip install -e '.[dev]'")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["gelu", "standardise", "within 400"]
