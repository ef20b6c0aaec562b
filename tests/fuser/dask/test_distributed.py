"""A cluster of two processes: functions of scripts travel by value, and a worker dies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

pytest.importorskip("distributed", reason="not installed: pip install 'fuser-bench[dask]'")

#: A script: its functions are of `__main__`, which is another module in the workers.
SCRIPT = '''
import os
import sys

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import fuser

X = np.random.default_rng(0).random((40, 30))
FLAG = sys.argv[1]


@fuser.fuse
def gelu(x, scale=0.5):
    return scale * x * (1 + np.tanh(x + 0.044715 * x * x * x))


def factory(scale):
    return fuser.fuse(lambda x: np.exp(x) * scale)


def dies_once(block):
    """The first process that comes here ends at once."""
    if not os.path.exists(FLAG):
        open(FLAG, "w").close()
        os._exit(3)
    return block


def fails_once(block):
    """The first call raises; it is tried again."""
    if not os.path.exists(FLAG + ".failed"):
        open(FLAG + ".failed", "w").close()
        raise OSError("once")
    return gelu(block)


def check(name, found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    print(name)


def main():
    settings = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        x = da.from_array(X, chunks=(10, 30))
        check("arrays", gelu(x).compute(), gelu(X))
        check("map_blocks", x.map_blocks(gelu).compute(), gelu(X))
        check("submit", client.submit(gelu, X).result(), gelu(X))
        scattered = client.scatter(X)
        check("scatter", client.submit(factory(2.0), scattered).result(), np.exp(X) * 2)
        centred = fuser.fuse(lambda x: (x - x.mean(0)) / x.std(0))
        check("reductions", centred(x).compute(), (X - X.mean(0)) / X.std(0))
        kept = gelu(x).persist()
        check("persist", kept.sum(0).compute(), gelu(X).sum(0))
        with fuser.dask.fused():
            check("fused", ((x * 2 + np.exp(x)).sum(0) / 3).compute(),
                  (X * 2 + np.exp(X)).sum(0) / 3)
        threads = client.run(fuser.get_num_threads)
        print("threads", *threads.values())
        dying = gelu(x.map_blocks(dies_once, dtype="float64", meta=X[:0]))
        check("a worker that died", dying.compute(), gelu(X))
        check("after it", gelu(x + 1).compute(), gelu(X + 1))
        failing = x.map_blocks(fails_once, dtype="float64", meta=X[:0])
        check("a retry", failing.compute(retries=2), gelu(X))
        client.restart()
        check("a restart", centred(x).compute(), (X - X.mean(0)) / X.std(0))


if __name__ == "__main__":
    main()
'''
DONE = (
    "arrays", "map_blocks", "submit", "scatter", "reductions", "persist", "fused", "threads 1 1",
    "a worker that died", "after it", "a retry", "a restart",
)  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="workers are processes of Unix here")
def test_a_cluster(tmp_path: Path) -> None:
    """Dask arrays, futures, scattered arrays, and what is computed again after a process ended."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("OMP_NUM_THREADS", None)
    done = subprocess.run(
        [sys.executable, script, str(tmp_path / "died")], cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(DONE)
    assert (tmp_path / "died").exists()
    assert (tmp_path / "died.failed").exists()
