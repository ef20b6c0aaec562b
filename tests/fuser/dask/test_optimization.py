"""Dask programs with the optimisation switched on: values, dtypes and keys are those without."""

import pickle
import random
from typing import Any

import cloudpickle
import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="not installed: pip install 'fuser-bench[dask]'")

import dask.array as da  # noqa: E402
from dask.callbacks import Callback  # noqa: E402
from dask.core import flatten  # noqa: E402

import fuser  # noqa: E402
from fuser.dask.clusters import Clusters, taken  # noqa: E402
from fuser.dask.kernels import Kernel, traced_by  # noqa: E402
from fuser.dask.optimization import plain_optimize, with_kernels  # noqa: E402
from fuser.dask.tasks import ChunkTasks  # noqa: E402
from fuser.dask.users import of_user  # noqa: E402
from tests.children import said  # noqa: E402
from tests.fuser.dask.programs import (  # noqa: E402
    PROGRAMS,
    VALUES,
    WEIGHTS,
    Source,
    arrays,
    launches,
)


def chunk_functions(array: Any) -> list[ChunkTasks]:
    """The kernels of an optimised graph, one a task."""
    found = []
    for task in dict(array.__dask_graph__()).values():
        parts = task.args[0].values() if hasattr(task, "args") and task.args and isinstance(
            task.args[0], dict) else [task]  # fmt: skip
        found += [p.func for p in parts if isinstance(getattr(p, "func", None), ChunkTasks)]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_without(name: str) -> None:
    """Also dtype and kind of array; sums and elementary functions to their bounds."""
    program = PROGRAMS[name](arrays())
    wanted = program.compute(scheduler="sync")
    with fuser.dask.fused():
        got = program.compute(scheduler="sync")
        again = program.compute(scheduler="threads")
    assert type(got) is type(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(got, again)


@pytest.mark.parametrize("name", ["gelu", "sum", "var", "where", "a fused function",
                                  "fused several times"])
def test_a_layer_is_one_kernel_a_chunk(name: str) -> None:
    """What is fused is counted: no chunk falls back, and each runs once."""
    program = PROGRAMS[name](arrays())
    program.compute(scheduler="sync")
    fallbacks, before = fuser.stats().get("fallbacks", 0), launches()
    with fuser.dask.fused():
        (optimised,) = dask.optimize(program)
        assert len(chunk_functions(optimised)) >= 9
        program.compute(scheduler="sync")
    assert fuser.stats().get("fallbacks", 0) == fallbacks
    assert launches() - before >= 9


def tasks_of(*programs: Any) -> int:
    """How many tasks run, but for those that hand on a result, or one of several."""
    found = []
    with fuser.dask.fused(), Callback(pretask=lambda key, graph, _: found.append(graph[key])):
        dask.persist(*programs, scheduler="sync")
    return sum(getattr(task, "func", taken) is not taken for task in found)


def test_layers_that_dask_leaves_apart_are_one_task_for_each_block() -> None:
    """A softmax in chunks of whole rows, a mean beside a variance, two results of the same."""
    x = da.from_array(VALUES, chunks=(15, 50)).persist()
    assert tasks_of(PROGRAMS["softmax over chunks"](x)) == 4
    assert tasks_of(x.mean(axis=0), x.var(axis=0)) == 4 + 2
    shared = np.exp(x) + 1
    before = launches()
    assert tasks_of(shared * 2 - x, shared / x + 1, shared.T.sum(axis=0)) == 4
    assert launches() - before <= 4 * 2
    assert tasks_of(*(x * k + 1 for k in range(9))) == 9 * 4  # memory for one result at a time


def test_graphs_without_two_operations_to_join_are_left_alone() -> None:
    """Before any work: one operation, one beside Dask's indexing, a reduction over chunks."""
    x = da.from_array(VALUES, chunks=(15, 50))
    for program in (x + x, (x * 2)[[5, 1, 50]] + 1, x.sum(axis=0)):
        assert with_kernels(program.dask, []) is program.dask
        graph = plain_optimize(program.dask, program.__dask_keys__())
        assert Clusters(graph, set()).joined() is graph
    with fuser.dask.fused():  # of each chunk a tuple, which two layers take apart
        assert chunk_functions(dask.optimize(da.linalg.qr(x)[1])[0]) == []


def test_what_workers_have_is_not_in_the_graph() -> None:
    """Arrays that were persisted on a cluster: their keys are needed, and have no tasks here."""
    x = da.from_array(VALUES, chunks=(15, 50))
    program = (x - x.mean(axis=0)) / x.std(axis=0)
    keys = program.__dask_keys__()
    graph = plain_optimize(with_kernels(program.dask, list(flatten(keys))), keys)
    here = {key: task for key, task in graph.items() if key[0] != x.name}
    joined = Clusters(here, set(flatten(keys))).joined()
    assert len(here) < len(graph)
    assert any("fused-" in str(key) for key in joined)


def test_operations_with_one_number_of_dasks_are_fused() -> None:
    """Dask checks the dtype of their results by a function around the operation."""
    x = da.from_array(VALUES, chunks=(15, 50)).persist()
    program = (x - x.mean()) / x.max()
    with fuser.dask.fused():
        assert "fused-sub-truediv" in map(repr, chunk_functions(dask.optimize(program)[0]))
        found = program.compute(scheduler="sync")
    np.testing.assert_allclose(found, (VALUES - VALUES.mean()) / VALUES.max(), rtol=1e-12)


def test_a_graph_may_be_optimised_again() -> None:
    """As Dask does where arrays become delayed objects."""
    x = da.from_array(VALUES, chunks=(15, 50))
    with fuser.dask.fused():
        once = dask.optimize(x.min(axis=1), x.max(axis=1), np.exp(x) * x.mean())
        again = dask.optimize(*once)
        assert tasks_of(*again) == tasks_of(*once)
        delayed = dask.delayed(lambda *parts: [part.sum() for part in parts])(*again)
        wanted = VALUES.min(1).sum(), VALUES.max(1).sum(), (np.exp(VALUES) * VALUES.mean()).sum()
        np.testing.assert_allclose(delayed.compute(scheduler="sync"), wanted)
        delayed = dask.delayed(np.add)(x.min(), x.max())
        assert delayed.compute(scheduler="sync") == VALUES.min() + VALUES.max()


def test_a_cluster_needs_nothing_that_needs_it() -> None:
    """A value beside its own mean: the mean needs all of its blocks."""
    x = da.from_array(VALUES, chunks=(15, 50)).persist()
    value = np.exp(x)
    program = [value - value.mean(axis=0), value * value.sum(), value.T @ value]
    wanted = dask.compute(*program, scheduler="sync")
    with fuser.dask.fused():
        for got, want in zip(dask.compute(*program, scheduler="sync"), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    """Values of random steps, each of which takes some that are there; several are results."""
    chance = random.Random(seed)
    x = arrays((chance.randint(8, 60), chance.choice((50, chance.randint(9, 50)))))
    there = [x, x * 2]
    steps = [
        lambda a, b: a * b + 1, lambda a, b: np.sqrt(abs(a)) - b, lambda a, b: a - b.mean(axis=0),
        lambda a, b: a / (1 + abs(b).max(axis=1, keepdims=True)), lambda a, b: np.tanh(a) * b,
        lambda a, b: a + b.std(axis=1, keepdims=True), lambda a, b: da.where(a > b, a, b),
        lambda a, b: a - b.sum(), lambda a, b: a[::-1] * 2 + b[::-1], lambda a, b: b[:1] ** 2 + a,
    ]  # fmt: skip
    for _ in range(8):
        there.append(np.tanh(chance.choice(steps)(chance.choice(there), chance.choice(there))))
    program = chance.sample(there, 3)
    wanted = dask.compute(*program, scheduler="sync")
    with fuser.dask.fused():
        for got, want in zip(dask.compute(*program, scheduler="sync"), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


def test_keys_stay_and_graphs_travel() -> None:
    """The keys that are asked for, and the pickles of the optimised graph."""
    program = PROGRAMS["gelu"](arrays())
    with fuser.dask.fused():
        (optimised,) = dask.optimize(program)
    keys = list(flatten(program.__dask_keys__()))
    assert set(keys) <= set(dict(optimised.__dask_graph__()))
    sent = cloudpickle.loads(cloudpickle.dumps(optimised))
    np.testing.assert_array_equal(sent.compute(), optimised.compute())
    function = chunk_functions(optimised)[0]
    received = pickle.loads(pickle.dumps(function))
    assert received == function
    assert dask.base.tokenize(received) == dask.base.tokenize(function)
    assert "tanh" in repr(function)


def test_tokens_are_the_same_in_every_process() -> None:
    """An interpreter with another hash seed gives an equal task the same token and name."""
    code = (
        "import dask, fuser, fuser.dask\n"
        "from tests.fuser.dask.programs import PROGRAMS, arrays\n"
        "from tests.fuser.dask.test_optimization import chunk_functions\n"
        "with fuser.dask.fused(): (o,) = dask.optimize(PROGRAMS['gelu'](arrays()))\n"
        "print(chunk_functions(o)[0].token, chunk_functions(o)[0])"
    )
    with fuser.dask.fused():
        (optimised,) = dask.optimize(PROGRAMS["gelu"](arrays()))
    (own, *_) = chunk_functions(optimised)
    assert said("-c", code, environment={"PYTHONHASHSEED": "1"}) == f"{own.token} {own}\n"


def test_the_same_program_for_other_data_has_the_same_kernels() -> None:
    """Keys of Dask's have digests of data in them; what is done has not."""
    first, second = (chunk_functions(optimised)[0] for optimised in (
        _optimised(0.5), _optimised(0.25)))  # fmt: skip
    assert first == second
    assert hash(first) == hash(second)
    assert first.token == second.token
    assert first != chunk_functions(_optimised(0.5, -0.0))[0]


def _optimised(value: float, factor: float = 0.0) -> Any:
    """A program of an array that holds a value."""
    x = da.from_array(np.full((30, 4), value), chunks=(10, 4))
    with fuser.dask.fused():
        (optimised,) = dask.optimize((x - x.max(axis=1, keepdims=True)) * factor + np.exp(x))
    return optimised


def test_errors_are_those_without() -> None:
    """What an operation raises for a chunk is raised."""
    x = da.from_array(np.arange(6), chunks=3)
    program = (x * 2 + 1) ** (x - 4)
    for block in (fuser.dask.fused(), dask.config.set({})):
        with block, pytest.raises(ValueError, match="negative integer powers"):
            program.compute(scheduler="sync")


def test_roots_that_dask_joins_with_a_layer() -> None:
    """A layer of arrays that are there (persisted) is a kernel a chunk all the same."""
    x, y = (da.from_array(np.arange(12.0) + k, chunks=4).persist() for k in range(2))
    with fuser.dask.fused():
        (optimised,) = dask.optimize(np.exp(x) * y + x)
    before = launches()
    optimised.compute(scheduler="sync", optimize_graph=False)
    assert launches() - before == 3


@pytest.mark.parametrize("inline", [False, True])
def test_what_has_fewer_blocks_is_read_once_for_each(inline: bool) -> None:
    """A row beside many rows; what only computes is fused into every block, and is no task."""
    rows, x = Source(WEIGHTS), arrays()
    lazy = da.from_array(rows, chunks=20, inline_array=inline)
    with fuser.dask.fused():
        (optimised,) = dask.optimize((x * 2 + 1) * (lazy + 1))
    rows.reads = 0
    got = optimised.compute(scheduler="sync", optimize_graph=False)
    np.testing.assert_array_equal(got, (x.compute() * 2 + 1) * (WEIGHTS + 1))
    assert rows.reads == 3
    plain = da.from_array(WEIGHTS, chunks=20)
    with fuser.dask.fused():
        (optimised,) = dask.optimize((x * 2 + 1) * (plain + 1))
    assert len(chunk_functions(optimised)) == 9


def test_functions_of_users_are_fused_if_they_only_compute() -> None:
    """In `map_blocks`: one that does more runs as it is, once for each chunk; so do copies."""
    x, met = da.from_array(VALUES, chunks=(15, 50)), []

    def gelu(block: Any) -> Any:
        return 0.5 * block * (1 + np.tanh(block + 0.044715 * block**3))

    def counted(block: Any) -> Any:
        met.append(block.shape)
        return gelu(block)

    for function, fused in ((gelu, True), (counted, False)):
        lazy = x.map_blocks(function, dtype="float64", meta=VALUES[:0])
        wanted, before = function(VALUES), launches()
        met.clear()
        with fuser.dask.fused():
            for scheduler in ("sync", "threads"):
                got = lazy.compute(scheduler=scheduler)
                np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
            (optimised,) = dask.optimize(lazy)
        assert launches() - before == 8 * fused
        assert len(met) == 8 * (not fused)
        assert optimised.__dask_keys__() == lazy.__dask_keys__()
        sent = cloudpickle.loads(cloudpickle.dumps(optimised))
        before = launches()
        np.testing.assert_array_equal(sent.compute(scheduler="sync"), wanted)  # by NumPy
        assert launches() == before


def test_functions_that_are_made_anew_are_traced_once() -> None:
    """A `lambda` in a function, as long as it runs and reads the same."""

    def around(own: float) -> Any:
        return lambda block, own=own, *, base=2: block * scale + own * base

    def reached(around: float) -> Any:
        return lambda block: block * around

    scale = 2.0
    first = of_user(around(1.0))
    assert first is not None
    assert of_user(around(float("1"))) is first
    assert len({of_user(around(own)) for own in (1.0, 0.0, -0.0, 1)}) == 4
    assert of_user(reached(2.0)) is not of_user(reached(2.0))  # what it reaches may be set anew
    scale = 3.0
    np.testing.assert_array_equal(first(VALUES), VALUES * 3.0 + 2.0)


def test_as_a_setting() -> None:
    """`array_optimize` takes it, for a whole program."""
    with dask.config.set(array_optimize=fuser.dask.optimize):
        (optimised,) = dask.optimize(PROGRAMS["gelu"](arrays()))
    assert chunk_functions(optimised)


def test_import_fuser_does_not_import_dask() -> None:
    """Nor does a call without Dask arrays."""
    code = (
        "import sys, fuser, numpy; fuser.fuse(lambda x: x + 1)(numpy.ones(3))\n"
        "print('dask' in sys.modules, 'fuser.dask' in sys.modules)\n"
        "fuser.dask.optimize; print('dask' in sys.modules)"
    )
    assert said("-c", code).split() == ["False", "False", "True"]


class Box:
    """Holds an array."""

    def __init__(self, array: Any) -> None:
        """Hold it."""
        self.array = array


def test_objects_that_hold_arrays_hold_none_of_a_trace() -> None:
    """As a chunk of a class that wraps NumPy's arrays does: NumPy computes it."""

    def boxed(x: Any) -> tuple[Box]:
        return (Box(x * 2),)

    (found,) = Kernel("boxed", boxed, traced_by(boxed))(np.arange(3.0))
    np.testing.assert_array_equal(np.stack([found.array]), [[0.0, 2.0, 4.0]])


def test_arrays_of_expressions() -> None:
    """Dask's setting for them is read once in a process: Dask runs all of it, and it is said."""
    code = """
import warnings
import dask
dask.config.set({"array.query-planning": True})
import numpy as np, fuser
try:
    import dask.array as da
except ImportError:  # before 2025.4 they are a package of their own
    print("not in this version"); raise SystemExit
x = da.from_array(np.arange(12.0), chunks=5)
if not getattr(da, "array_expr_enabled", bool)():
    print("not in this version"); raise SystemExit
fused = fuser.fuse(lambda a: np.exp(a) * 2 + 1, fallback="allow")
lazy = fused(x)
print(np.allclose(lazy.compute(), np.exp(np.arange(12.0)) * 2 + 1), lazy.chunks == x.chunks)
print(fused.fallbacks[0].code, "query-planning" in str(fused.fallbacks[0]))
with warnings.catch_warnings(record=True) as found, fuser.dask.fused():
    warnings.simplefilter("always")
    print((x * 2 + 1).sum().compute())
print([each.category.__name__ for each in found if "array.query-planning" in str(each.message)])
"""
    told = said("-c", code)
    if "not in this version" not in told:
        assert told.splitlines() == [
            "True True", "lazy-array True", "144.0", "['FallbackWarning']"
        ]
