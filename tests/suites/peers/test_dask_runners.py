"""Runners of Dask arrays: each workload of their preset is right in each way; what is counted."""

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.suites import presets, runners
from fuser.suites.checks.verify import compare, reference
from fuser.suites.peers import dask_runners
from fuser.suites.peers.dask_loops import FORMS, OVERLAPPING
from fuser.suites.registry import resolve
from fuser.suites.runners import NotExpressibleError

ELEMENTS = 6000
RUNNERS = list(runners.DASK)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Several chunks along each axis, whose stores go with the test."""
    monkeypatch.setattr(dask_runners, "CHUNK_BYTES", 8000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def runner_of(name: str) -> Any:
    """A runner that is installed."""
    runner = runners.load(runners.DASK[name])
    if (reason := runner.unavailable()) is not None:
        pytest.skip(reason)
    return runner


@pytest.mark.parametrize("name", RUNNERS)
@pytest.mark.parametrize("workload", presets.IN_CHUNKS)
def test_every_workload_is_right(name: str, workload: str) -> None:
    """In chunks, within the workload's tolerance."""
    if name == "dask_numba" and workload not in ("softmax", "heat_with_edges"):
        pytest.skip("numba compiles for a second; two of its forms are tried here")
    runner, found = runner_of(name), resolve(workload)
    arguments = found.inputs(ELEMENTS, "float64", 1)
    call = runner.prepare(found.function, arguments)
    result = runner.fetch(call(*runner.accept(arguments)))
    tolerance = found.tolerance("float64", ELEMENTS)
    assert not compare(result, reference(found, arguments, "float64"), tolerance).problem
    assert runner.own_process
    assert runner.kind == "peer"


def test_forms_by_hand_are_of_the_preset() -> None:
    """Each workload has one, and no other; any other workload has none."""
    names = {resolve(each).function.__name__ for each in presets.IN_CHUNKS}
    assert names == FORMS.keys()
    assert names >= OVERLAPPING
    with pytest.raises(NotExpressibleError, match="no loops"):
        runner_of("dask_numba").prepare(resolve("axpy").function, ())


def test_what_is_counted() -> None:
    """Fewer tasks than eager Dask's, whose graph has one for each step of each reduction."""
    found = resolve("standard_columns")
    arguments = found.inputs(ELEMENTS, "float64", 1)
    facts = {}
    for name in ("dask", "dask_fused"):
        runner = runner_of(name)
        call = runner.prepare(found.function, arguments)
        facts[name] = runner.facts(call, arguments)
        assert facts[name].peak_bytes > arguments[0].nbytes
        assert facts[name].handed_bytes > 0
    assert 0 < facts["dask_fused"].tasks < facts["dask"].tasks


def test_stores_go_with_their_arrays(tmp_path: Path) -> None:
    """A vector is read from Zarr; the folder is removed when nobody reads it any more."""
    runner = runner_of("dask")
    (lazy,) = runner.accept((np.arange(5000.0),))
    assert lazy.numblocks == (5,)
    assert len(list(tmp_path.glob("fuser-bench-*"))) == 1
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), np.arange(5000.0))
    del lazy
    gc.collect()
    assert not list(tmp_path.glob("fuser-bench-*"))
