"""Tasks of Dask's as one kernel: those of a fused layer that are known to compute, and no more.

A layer's task is a small graph of tasks. Which of them a kernel may do is a list of what depends on
its operands alone: operators, NumPy's functions, Dask's own functions of chunks, and fused
functions. All others (sources of data, functions of users, random numbers) run as they are: those
that need nothing of the kernel's before it, those that do after it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    Task,
    TaskRef,
    _execute_subgraph,
    _identity_cast,
)
from dask.base import tokenize

from fuser.base import caches, trees
from fuser.calls.fused_function import FusedFunction
from fuser.dask.forms import by_value, form, needs_of
from fuser.dask.kernels import ByThread, Kernel, traced_by

#: Modules whose functions compute with what they are given.
_MODULES = frozenset(("_operator", "operator", "dask.array.chunk", "dask.array.reductions"))
#: Others of Dask's, by module and name.
_FUNCTIONS = frozenset(("dask.array.core", each) for each in ("_concatenate2", "_enforce_dtype"))
#: What `_enforce_dtype` calls.
_CALLED = "enforce_dtype_function"
#: Functions of NumPy's that write into what they are given.
_WRITING = frozenset("copyto put place putmask fill_diagonal put_along_axis".split())
#: A kernel of fewer operations than this gains nothing over NumPy.
LEAST = 2


def is_known(function: Any) -> bool:
    """Whether what a task's function gives depends on its operands alone.

    Args:
        function: of a task.
    """
    while type(function) is functools.partial:
        if not all(is_known(part) for part in function.keywords.values() if callable(part)):
            return False
        function = function.func
    if type(function).__name__ == "Compose":  # of toolz
        return all(map(is_known, (function.first, *function.funcs)))
    if isinstance(function, np.ufunc):
        return getattr(np, function.__name__, None) is function
    if isinstance(function, (FusedFunction, type)):
        return not isinstance(function, type) or issubclass(function, np.generic)
    module, name = (getattr(function, key, None) or "" for key in ("__module__", "__name__"))
    if module == "numpy":
        dispatched = hasattr(function, "_implementation") and getattr(np, name, None) is function
        return dispatched and name not in _WRITING and not name.startswith(("save", "load"))
    return module in _MODULES or (module, name) in _FUNCTIONS


def only_computes(task: Task) -> bool:
    """Whether what a task gives depends on its operands alone, as do those that are parts of it.

    Args:
        task: of a layer; may be a small graph of tasks.
    """
    if isinstance(task.func, ChunkTasks):
        return only_computes(task.func.task)
    parts = [*task.args, *task.kwargs.values()]
    if task.func is _execute_subgraph:
        parts = list(task.args[0].values())
    elif task.func is not _identity_cast and not is_known(task.func):  # lists of operands
        return False
    if not is_known(task.kwargs.get(_CALLED, np.add)):
        return False
    return all(only_computes(part) for part in parts if isinstance(part, Task))


def parts_of(task: Task, names: Sequence[str]) -> tuple[dict[Any, GraphNode], Any]:
    """The tasks of a fused task, and of fused tasks in it, by keys of their own.

    Args:
        task: of a layer.
        names: what it calls the chunks, which keep their names.

    Returns:
        The tasks, each after those that it needs, and the key of the result.
    """
    found: dict[Any, GraphNode] = {}

    def keep(node: GraphNode, known: Mapping[Any, str]) -> str:
        """Add a task; its key."""
        key = f"part{len(found)}"
        renamed = {each: known[each] for each in node.dependencies}
        found[key] = node.substitute(renamed, key=key)
        return key

    def handed(part: Any, known: Mapping[Any, str]) -> str:
        """The key of an argument that is a chunk, or a constant."""
        if isinstance(part, (TaskRef, Alias)):
            return known[part.key if isinstance(part, TaskRef) else part.target]
        return keep(part if isinstance(part, GraphNode) else DataNode(None, part), known)

    def enter(parts: Mapping[Any, GraphNode], wanted: Any, known: dict[Any, str]) -> str:
        """Add the tasks of one; the key of its result."""
        stack = [wanted]
        while stack:
            key = stack[-1]
            if key in known:  # Dask takes what is given before what is inside
                stack.pop()
                continue
            node = parts[key]
            missing = [each for each in needs_of(node) if each not in known]
            if missing:
                stack += reversed(missing)
            elif isinstance(node, Task) and node.func is _execute_subgraph:
                inner, outkey, inkeys, *given = node.args
                passed = zip(inkeys, given, strict=True)
                bound = {name: handed(each, known) for name, each in passed}
                known[key] = enter(inner, outkey, bound)
            elif isinstance(node, Task) and isinstance(node.func, ChunkTasks):
                passed = zip(node.func.names, node.args, strict=True)
                bound = {name: handed(each, known) for name, each in passed}
                task = node.func.task
                known[key] = enter({task.key: task}, task.key, bound)
            else:
                known[key] = keep(node, known)
        return known[wanted]

    return found, enter({task.key: task}, task.key, {name: name for name in names})


class ChunkTasks:
    """The tasks of a layer as a function of chunks."""

    def __init__(self, task: Task, names: Sequence[str]) -> None:
        """Sort the tasks: before the kernel, in it, after it.

        Args:
            task: of the layer.
            names: what its tasks call the chunks, in the order in which they are given.
        """
        self.task = task
        self.names = tuple(names)
        parts, self._result = parts_of(task, names)
        order = list(parts)
        inside: set[Any] = set()
        later: set[Any] = set()
        for key in order:
            node, needs = parts[key], parts[key].dependencies
            if not needs.isdisjoint(later):
                later.add(key)
            elif isinstance(node, Task) and only_computes(node):
                inside.add(key)
            elif not needs.isdisjoint(inside):
                later.add(key)
        self._before = [parts[key] for key in order if key not in inside | later]
        self._inside = [parts[key] for key in order if key in inside]
        self._after = [parts[key] for key in order if key in later]
        wanted = {self._result}.union(*(node.dependencies for node in self._after))
        self.outputs = tuple(node.key for node in self._inside if node.key in wanted)
        needed: set[Any] = set().union(*(node.dependencies for node in self._inside)) - inside
        given = [*self.names, *(node.key for node in self._before)]
        self.inputs = tuple(key for key in given if key in needed)
        self.__name__ = "-".join(["fused", *(_name(node) for node in self._inside)])[:80]

    @property
    def operations(self) -> int:
        """How many tasks the kernel does."""
        return len(self._inside)

    def __call__(self, *chunks: Any) -> Any:
        """Run the tasks on chunks."""
        values = dict(zip(self.names, chunks, strict=True))
        for node in self._before:
            values[node.key] = node(values)
        given = [values[key] for key in self.inputs]
        values.update(zip(self.outputs, self._kernels(*given), strict=True))
        for node in self._after:
            values[node.key] = node(values)
        return values[self._result]

    @functools.cached_property
    def _kernels(self) -> ByThread:
        """Those of equal tasks."""
        return _kernels_of(self)

    def plain(self, *given: Any) -> tuple[Any, ...]:
        """What the kernel does, task by task.

        Args:
            given: values of `inputs`.
        """
        values = dict(zip(self.inputs, given, strict=True))
        for node in self._inside:
            values[node.key] = node(values)
        return tuple(values[key] for key in self.outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its tasks."""
        return type(self), (self.task, self.names)

    @functools.cached_property
    def token(self) -> str:
        """The same for equal tasks, in every process."""
        nodes = [*self._before, *self._inside, *self._after]
        return str(tokenize([(node.key, node) for node in nodes], self._result, self.names))

    @functools.cached_property
    def _form(self) -> Any:
        """What is done, without the keys that Dask gave."""
        found: list[Any] = [self.names, self._result]
        for node in (*self._before, *self._inside, *self._after):
            needs: dict[Any, str] = {}
            found.append((form(node, needs, by_value), node.key, tuple(needs)))
        return tuple(found)

    def __dask_tokenize__(self) -> Any:
        """The tasks' own token."""
        return type(self).__name__, self.token

    def __eq__(self, other: object) -> bool:
        """Equal tasks share kernels."""
        return isinstance(other, ChunkTasks) and other._form == self._form

    def __hash__(self) -> int:
        """Hash of what is done."""
        return hash(self._form)

    def __repr__(self) -> str:
        """The operations' names."""
        return self.__name__


@caches.memo(512)
def _kernels_of(tasks: ChunkTasks) -> ByThread:
    """The kernels of tasks, shared by equal ones."""
    traced = traced_by(lambda *given: _own(tasks.plain(*given)))
    return ByThread(lambda: Kernel(tasks.__name__, tasks.plain, traced))


def _own(values: Any) -> Any:
    """Values without views that are read-only, such as one number repeated."""
    structure, leaves = trees.flatten(values)
    return trees.unflatten(structure, [
        leaf.copy() if type(leaf) is np.ndarray and not leaf.flags.writeable else leaf
        for leaf in leaves
    ])  # fmt: skip


def _name(node: GraphNode) -> str:
    """What a task does, in a word."""
    function = getattr(node, "func", None)
    function = getattr(node, "kwargs", {}).get(_CALLED, function)
    while type(function) is functools.partial:
        function = function.func
    name = getattr(function, "__name__", "") or ("data" if isinstance(node, DataNode) else "task")
    return str(name)
