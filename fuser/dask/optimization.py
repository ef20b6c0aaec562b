"""An optimisation of Dask's arrays: each layer of elementwise operations is one kernel a chunk.

Dask fuses neighbouring blockwise layers into one whose task is a small graph. This is where such a
task becomes a kernel; then come Dask's own optimisation and, for tasks that it leaves apart,
`clusters`. Keys stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import dask
import dask.array as da
from dask._task_spec import Task, TaskRef, _execute_subgraph
from dask.array.optimization import optimize as plain_optimize
from dask.blockwise import Blockwise, blockwise_token, optimize_blockwise
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from fuser.base import notices
from fuser.base.errors import Reason
from fuser.dask.clusters import Clusters
from fuser.dask.tasks import LEAST, ChunkTasks, is_known, only_computes
from fuser.dask.users import of_user

#: What is found where Dask plans its arrays as expressions.
EXPRESSIONS = "an array of expressions (Dask's setting array.query-planning)"


def optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Optimise a graph of Dask arrays: Dask's own optimisation, with a kernel for each fused layer.

    `dask.config.set(array_optimize=fuser.dask.optimize)` switches it on.

    Args:
        dsk: the graph.
        keys: what is asked for; these are never fused away.
        kwargs: as of Dask's own optimisation.
    """
    if not isinstance(dsk, HighLevelGraph):
        dsk = HighLevelGraph.from_collections(id(dsk), dsk, dependencies=())
    wanted = list(flatten(keys if isinstance(keys, (list, set)) else [keys]))
    found = plain_optimize(with_kernels(dsk, wanted), keys, **kwargs)
    return Clusters(found, set(wanted)).joined() if type(found) is dict else found


@contextmanager
def fused() -> Iterator[None]:
    """Have Dask arrays that are computed inside run as fused kernels, one for each chunk.

    Where Dask's arrays are expressions (its setting `array.query-planning`), which have no such
    optimisation, they run as they are, and a FallbackWarning says so.
    """
    if are_expressions():
        notices.record(Reason("lazy-array", "fuser.dask.fused", EXPRESSIONS), "warn")
    with dask.config.set(array_optimize=optimize):
        yield


def are_expressions() -> bool:
    """Whether Dask was imported with its setting `array.query-planning` switched on."""
    return bool(da.array_expr_enabled()) if hasattr(da, "array_expr_enabled") else False


def with_kernels(dsk: HighLevelGraph, keys: Iterable[Any]) -> HighLevelGraph:
    """A graph whose blockwise layers are fused, and each a kernel a chunk.

    Args:
        dsk: the graph.
        keys: what has to stay.
    """
    layers = {name: _of_users(layer) for name, layer in dsk.layers.items()}
    if any(layer is not dsk.layers[name] for name, layer in layers.items()):
        dsk = HighLevelGraph(layers, dsk.dependencies)
    if not any(_goes_with_another(layer, dsk.layers) for layer in layers.values()):
        return dsk
    once = computed_once(dsk)
    dsk = optimize_blockwise(dsk, keys=[*keys, *once])  # Dask joins roots later, which makes tasks
    layers = {
        name: _with_kernel(layer) if isinstance(layer, Blockwise) else layer
        for name, layer in dsk.layers.items()
    }
    layers |= {name: as_tasks(layers[name]) for name in once if name in layers}
    return HighLevelGraph(layers, dsk.dependencies)


def _goes_with_another(layer: Any, layers: Mapping[str, Any]) -> bool:
    """Whether a layer is several tasks, or Dask could fuse it with one that it needs."""
    if not isinstance(layer, Blockwise):
        return False
    return layer.task.func is _execute_subgraph or any(
        isinstance(other := layers.get(name), Blockwise)
        and (_has_more_blocks(layer, name, indices)
             or (only_computes(layer.task) and only_computes(other.task)))
        for name, indices in layer.indices if indices is not None
    )  # fmt: skip


def computed_once(dsk: HighLevelGraph) -> list[str]:
    """Layers that must not be fused into a layer of more blocks, which would compute them again.

    Dask fuses them: each block of `x + y` reads all of a `y` that has fewer blocks. These are the
    layers with reads, or with functions of users, that such a layer is computed of.

    Args:
        dsk: the graph.
    """
    return [
        name
        for layer in dsk.layers.values() if isinstance(layer, Blockwise)
        for name, indices in layer.indices
        if indices is not None and _has_more_blocks(layer, name, indices)
        and has_reads(dsk, name)
    ]  # fmt: skip


def _has_more_blocks(layer: Blockwise, name: str, indices: Any) -> bool:
    """Whether several blocks of a layer are computed of one block of an operand."""
    blocks = dict(zip(indices, layer.numblocks.get(name, ()), strict=False))
    return any(layer.dims[index] > blocks.get(index, 1) for index in layer.output_indices)


def has_reads(dsk: HighLevelGraph, name: str) -> bool:
    """Whether a layer that Dask could fuse has tasks that read, or of which nothing is known.

    Args:
        dsk: the graph.
        name: of the layer.
    """
    stack, seen = [name], {name}
    while stack:
        layer = dsk.layers.get(stack.pop())
        if not isinstance(layer, Blockwise):
            continue
        if not only_computes(layer.task):
            return True
        further = {each for each, indices in layer.indices if indices is not None} - seen
        seen |= further
        stack += further
    return False


def read_once(array: da.Array, blocks: int) -> da.Array:
    """An array that is computed once where a layer of more blocks needs it.

    Args:
        array: an operand of that layer.
        blocks: how many blocks the layer has.
    """
    graph, name = array.dask, array.name
    if array.npartitions >= blocks or not has_reads(graph, name):
        return array
    layers = {**graph.layers, name: as_tasks(graph.layers[name])}
    graph = HighLevelGraph(layers, graph.dependencies)
    return da.Array(graph, name, array.chunks, meta=array._meta)


def as_tasks(layer: Any) -> Any:
    """The tasks of a layer as a layer that Dask fuses with no other.

    Args:
        layer: of a graph.
    """
    if not isinstance(layer, Blockwise):
        return layer
    return MaterializedLayer(dict(layer), annotations=layer.annotations)


def _with_kernel(layer: Blockwise) -> Blockwise:
    """A layer whose task is a kernel, if it has enough operations to be worth one."""
    if isinstance(layer.task.func, ChunkTasks):
        return layer
    names = [blockwise_token(place) for place in range(len(layer.indices))]
    if not layer.task.dependencies <= set(names):  # a task of another layer, by its key
        return layer
    function = ChunkTasks(layer.task, names)
    if function.operations < LEAST:
        return layer
    return _with_task(layer, Task(layer.output, function, *map(TaskRef, names)))


def _of_users(layer: Any) -> Any:
    """A layer whose function is a fused one, if it is a user's that only computes."""
    if not isinstance(layer, Blockwise) or type(layer.task.func) is not FunctionType:
        return layer
    task = layer.task
    if is_known(task.func) or (function := of_user(task.func)) is None:
        return layer
    return _with_task(layer, Task(task.key, function, *task.args, **task.kwargs))


def _with_task(layer: Blockwise, task: Task) -> Blockwise:
    """A layer with another task."""
    return Blockwise(
        layer.output,
        layer.output_indices,
        task,
        layer.indices,
        layer.numblocks,
        concatenate=layer.concatenate,
        new_axes=layer.new_axes,
        output_blocks=layer.output_blocks,
        annotations=layer.annotations,
        io_deps=layer.io_deps,
    )
