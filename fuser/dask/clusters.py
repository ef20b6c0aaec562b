"""Tasks of several layers as one task for each block: what Dask's own fusion leaves apart.

Dask fuses a layer with the layer that needs it, if nothing else does. A value that two others
need, and a reduction of an axis that is in one chunk, stay tasks of their own. Here layers of a
graph become a cluster where each task of one goes with one task of each other: where it needs
that task's result, or reads what that one reads. Such tasks are a lane, and a lane is one task.

A layer joins a cluster if
- its tasks go with the cluster's lanes one to one, and are all alike but for what they are given;
- all of it only computes (`tasks.only_computes`);
- nothing that it needs from elsewhere needs the cluster (else lanes would wait for each other).
So nothing is computed twice, and there are as many tasks at a time as a layer has blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import getitem
from typing import Any

from dask._task_spec import Alias, GraphNode, Task, TaskRef, _execute_subgraph

from fuser.dask.forms import by_identity, form
from fuser.dask.tasks import ChunkTasks, only_computes

#: Fewer lanes than this are left as they are: they are small, or workers would go idle.
FEWEST = 2
#: A lane has all of its results at once: clusters of more are left as they are.
MOST_RESULTS = 4


class Cluster:
    """Layers whose tasks go together.

    Attributes:
        layers: their names, each after those that it needs.
        lanes: of each task, by its key: the number of its lane.
        given: of each key that a lane needs from elsewhere: the number of the only lane that needs
            it, or None where several do.
        keys: of each lane: its tasks, in the order of `layers`.
    """

    def __init__(self, lanes: int) -> None:
        """Have no layers yet.

        Args:
            lanes: how many tasks each layer has.
        """
        self.layers: list[str] = []
        self.lanes: dict[Any, int] = {}
        self.given: dict[Any, int | None] = {}
        self.keys: list[list[Any]] = [[] for _ in range(lanes)]

    def lanes_of(self, tasks: Mapping[Any, list[Any]]) -> dict[Any, int] | None:
        """The lane of each task of a layer; None where they go with no lanes one to one.

        Args:
            tasks: of the layer, as many as there are lanes: what each needs, by its key.
        """
        found: dict[Any, int] = {}
        for key, needs in tasks.items():
            inside = {self.lanes[each] for each in needs if each in self.lanes}
            beside = {lane for each in needs if (lane := self.given.get(each)) is not None}
            lanes = inside or beside
            if len(lanes) != 1 or not beside <= lanes:
                return None
            (found[key],) = lanes
        return found if len(set(found.values())) == len(tasks) else None

    def add(self, name: str, tasks: Mapping[Any, list[Any]], lanes: Mapping[Any, int]) -> None:
        """Take a layer in.

        Args:
            name: of the layer.
            tasks: what each needs, by its key.
            lanes: what `lanes_of` gave.
        """
        self.layers.append(name)
        for key, needs in tasks.items():
            lane = lanes[key]
            self.keys[lane].append(key)
            for each in needs:
                if each not in self.lanes and self.given.setdefault(each, lane) != lane:
                    self.given[each] = None
        self.lanes |= lanes


class Clusters:
    """A graph of tasks, and which of its layers go together."""

    def __init__(self, graph: dict[Any, GraphNode], wanted: set[Any]) -> None:
        """Make clusters.

        Args:
            graph: tasks by key, as Dask's own optimisation leaves them.
            wanted: keys that have to stay.
        """
        self.graph, self.wanted = graph, wanted
        self._aliases = {
            key: node.target for key, node in graph.items()
            if type(node) is Alias and node.target != key
        }  # fmt: skip
        self.clusters: list[Cluster] = []
        self._of: dict[str, Cluster] = {}
        self._layers: dict[str, dict[Any, list[Any]]] = {}
        self._operands: dict[Any, list[Any]] = {}
        for key in graph:
            self._layers.setdefault(_layer(key), {})[key] = []
        if not self._some_are_near():
            return
        for key, node in graph.items():
            self._layers[_layer(key)][key] = list(map(self.behind, node.dependencies))
        self._needs = {
            name: {_layer(each) for needs in tasks.values() for each in needs}
            for name, tasks in self._layers.items()
        }
        order = _in_order(self._needs)
        self._places = {name: place for place, name in enumerate(order)}
        for name in self._places:
            self._place(name)

    def behind(self, key: Any) -> Any:
        """What a key is another name of, or the key."""
        while key in self._aliases:
            key = self._aliases[key]
        return key

    def _some_are_near(self) -> bool:
        """Whether two layers of as many tasks read one another, or the same layer."""
        met: set[tuple[int, str]] = set()
        for name, tasks in self._layers.items():
            if (first := self._first(name)) is not None:
                around = {name, *map(_layer, map(self.behind, first.dependencies))}
                near = {(len(tasks), each) for each in around}
                if not met.isdisjoint(near):
                    return True
                met |= near
        return False

    def _first(self, name: str) -> Task | None:
        """The first task of a layer, if it computes and there are enough of them."""
        tasks = self._layers[name]
        first = self.graph[next(iter(tasks))]
        if len(tasks) < FEWEST or not isinstance(first, Task) or not first.dependencies:
            return None
        if first.func is getitem and type(first.args[-1]) is int:  # takes a part out of a tuple
            return None
        return first if only_computes(first) else None

    def _place(self, name: str) -> None:
        """Have a layer join a cluster, or begin one."""
        tasks = self._layers[name]
        if name in self._needs[name] or self._first(name) is None:
            return
        reads = set(next(iter(tasks.values())))
        for cluster in reversed(self.clusters):
            if len(cluster.keys) != len(tasks) or (
                reads.isdisjoint(cluster.lanes) and reads.isdisjoint(cluster.given)
            ):
                continue
            lanes = cluster.lanes_of(tasks)
            if (
                lanes is not None and not self._waits(name, cluster)
                and all(map(self._is_alike, (cluster.layers[0], name)))
            ):  # fmt: skip
                cluster.add(name, tasks, lanes)
                self._of[name] = cluster
                return
        self.clusters.append(cluster := Cluster(len(tasks)))
        self._of[name] = cluster
        cluster.add(name, tasks, {key: lane for lane, key in enumerate(tasks)})

    def _is_alike(self, name: str) -> bool:
        """Whether a layer's tasks all do the same: asked where two layers could go together."""
        tasks = self._layers[name]
        if self._operands.keys() >= tasks.keys():
            return True
        done = None
        for key in tasks:
            order: dict[Any, str] = {}
            found = form(self.graph[key], order, by_identity)
            if done not in (None, found):
                return False
            done = found
            self._operands[key] = list(order)
        return True

    def _waits(self, name: str, cluster: Cluster) -> bool:
        """Whether something that a layer needs from elsewhere needs a cluster."""
        first = self._places[cluster.layers[0]]
        stack = [each for each in self._needs[name] if self._of.get(each) is not cluster]
        seen: set[str] = set()
        while stack:
            each = stack.pop()
            if each in seen or each not in self._places:  # a cluster's workers may have it
                continue
            seen.add(each)
            other = self._of.get(each)
            if other is cluster:
                return True
            together = other.layers if other is not None else [each]
            if max(self._places[layer] for layer in together) > first:
                stack += [need for layer in together for need in self._needs[layer]]
        return False

    def joined(self) -> dict[Any, GraphNode]:
        """The graph, with a task for each lane of the clusters of several layers."""
        several = [cluster for cluster in self.clusters if len(cluster.layers) > 1]
        if not several:
            return self.graph
        found = dict(self.graph)
        users: dict[Any, list[Any]] = {}
        for key, node in self.graph.items():
            for need in () if isinstance(node, Alias) else node.dependencies:
                users.setdefault(self.behind(need), []).append(key)
        told = {self.behind(key) for key in self.wanted}
        for cluster in several:
            kept = [
                place for place in range(len(cluster.layers)) if any(
                    keys[place] in told
                    or any(cluster.lanes.get(user) != lane for user in users.get(keys[place], ()))
                    for lane, keys in enumerate(cluster.keys)
                )
            ]  # fmt: skip
            if len(kept) > MOST_RESULTS:
                continue
            functions: dict[Any, ChunkTasks] = {}
            for keys in cluster.keys:
                for key in keys:
                    del found[key]
                found.update(self._task(keys, kept, functions))
        return _needed(found, self.wanted)

    def _beside(self, key: Any) -> Any:
        """A key that the graph has not: it may have been through here before."""
        name = f"fused-{_layer(key)}"
        while name in self._layers:
            name = f"fused-{name}"
        return (name, *key[1:])

    def _task(
        self, keys: list[Any], kept: list[int], functions: dict[Any, ChunkTasks]
    ) -> Iterator[tuple[Any, GraphNode]]:
        """The tasks of one lane: one that computes, and one for each result if it has several."""
        names = {key: f"t{place}" for place, key in enumerate(keys)}
        given: dict[Any, str] = {}
        pattern = []
        for key in keys:
            for behind in map(self.behind, self._operands[key]):
                name = names.get(behind) or given.setdefault(behind, f"g{len(given)}")
                pattern.append(name)
        outputs = [keys[place] for place in kept]
        one = len(outputs) == 1
        key = outputs[0] if one else self._beside(outputs[0])
        if (function := functions.get(tuple(pattern))) is None:
            known = names | given
            parts: dict[Any, GraphNode] = {
                name: self.graph[each].substitute(
                    {need: known[self.behind(need)] for need in self.graph[each].dependencies},
                    key=name,
                )
                for each, name in names.items()
            }
            parts["all"] = Task("all", _together, *(TaskRef(names[each]) for each in outputs))
            result = names[outputs[0]] if one else "all"
            if one:
                del parts["all"]
            refs = tuple(map(TaskRef, given.values()))
            whole = Task("result", _execute_subgraph, parts, result, tuple(given.values()), *refs)
            functions[tuple(pattern)] = function = ChunkTasks(whole, tuple(given.values()))
        yield key, Task(key, function, *map(TaskRef, given))
        if not one:
            for place, each in enumerate(outputs):
                yield each, Task(each, taken, TaskRef(key), place)


def taken(values: tuple[Any, ...], place: int) -> Any:
    """One of several results.

    Args:
        values: what a lane gave.
        place: of the result.
    """
    return values[place]


def _together(*values: Any) -> tuple[Any, ...]:
    """Several results as one."""
    return values


def _layer(key: Any) -> str:
    """The name of the layer that a key is of."""
    return str(key[0] if type(key) is tuple else key)


def _in_order(needs: Mapping[str, set[str]]) -> list[str]:
    """Layers, each after the others that it needs; none where two need one another."""
    order: dict[str, None] = {}
    begun: set[str] = set()
    for start in needs:
        stack = [(start, False)]
        while stack:
            name, ready = stack.pop()
            if ready:
                order[name] = None
            elif name not in begun:
                begun.add(name)
                stack.append((name, True))
                stack += [(each, False) for each in sorted(needs[name] - {name}) if each in needs]
            elif name not in order:
                return []
    return list(order)


def _needed(graph: dict[Any, GraphNode], wanted: set[Any]) -> dict[Any, GraphNode]:
    """The tasks that the wanted ones are computed of."""
    found: dict[Any, GraphNode] = {}
    stack = list(wanted)
    while stack:
        key = stack.pop()
        if key not in found and key in graph:
            found[key] = graph[key]
            stack += graph[key].dependencies
    return found
