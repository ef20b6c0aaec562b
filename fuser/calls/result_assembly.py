"""What a function returns, put together from kernels' results by a small Python function.

For each trace one such function is written: it copies results into the arguments that the user's
function writes to, makes the views that it returns, and nests everything as it does. Its text has
names only; what they stand for is in its globals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.base import host_expressions
from fuser.base.generated import define
from fuser.base.host_expressions import scalar_symbols
from fuser.base.records import record
from fuser.base.trees import Leaf, Path
from fuser.capture import captures
from fuser.ir import dims
from fuser.ir.views import Chain
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutPython,
    OutScalar,
    OutView,
    Trace,
)

_NONE: Mapping[str, Any] = MappingProxyType({})


@record
class Assembly:
    """A function of some results and some arguments.

    Attributes:
        function: gives what the user's function returns.
        results: numbers of the graph outputs that it takes first.
        leaves: places of the arguments that it takes then.
        containers: where the lists and dicts are that it takes last, among the arguments.
        bare: whether it gives the one result that it takes, and that is all.
    """

    function: Callable[..., Any]
    results: tuple[int, ...]
    leaves: tuple[int, ...]
    containers: tuple[Path, ...] = ()
    bare: bool = False


class NotAssembled(Exception):  # noqa: N818 - a signal: the long way does it
    """A result depends on a length that no argument has."""


def assemble(
    trace: Trace, captured: Mapping[str, Any], direct: Collection[int] = ()
) -> Assembly:
    """The function that puts a trace's results together.

    Args:
        trace: what was found.
        captured: captured arrays by parameter name.
        direct: graph outputs that kernels write into arguments themselves; others are copied.

    Raises:
        NotAssembled: a length cannot be told from the arguments.
    """
    return _Text(trace, captured).finish(direct)


def prepare(
    trace: Trace, guards: Sequence[tuple[str, Any]], wanted: Sequence[tuple[str, type]],
    captured: Mapping[str, Any] = _NONE, asked: Iterable[Any] = (),
    same: Iterable[tuple[Any, Any, bool]] = (), equal: Iterable[tuple[int, Any]] = (),
) -> Assembly:  # fmt: skip
    """A function of arguments that computes numbers; None where a guard does not hold.

    Args:
        trace: what was found.
        guards: (host expression, value that it must have) pairs.
        wanted: (host expression, type that its value must have) pairs; their values are given.
        captured: arrays that the function reaches by name, by parameter name.
        asked: guards of names.
        same: pairs of arrays, the place of an argument or an array, and whether they are one.
        equal: pairs of the place of an argument and what it must be equal to.

    Raises:
        NotAssembled: a length cannot be told from the arguments.
    """
    text = _Text(trace, captured)
    lines = []
    for one, other, alike in same:
        told = "is not" if alike else "is"
        lines.append(f"if {text.array(one)} {told} {text.array(other)}: return None")
    for leaf, value in equal:
        lines.append(f"if {text.array(leaf)} != {text.constant(value)}: return None")
    for guard in asked:
        lines.append(f"if not {text.constant(guard.holds)}(): return None")
    for place, parameter in enumerate(trace.graph.parameters):
        if parameter.name in trace.in_order:
            lines.append(f"if not {text.parameter(place)}.flags.c_contiguous: return None")
    for expression, value in guards:
        now = text.expression(expression)
        if type(value) is bool:
            lines.append(f"if {now} is not {value}: return None")
        else:
            lines.append(f"if not same_value({now}, {text.constant(value)}): return None")
    for k, (expression, kind) in enumerate(wanted):
        lines.append(f"v{k} = {text.expression(expression)}")
        lines.append(f"if type(v{k}) is not {text.constant(kind)}: return None")
    lines.append(f"return ({''.join(f'v{k}, ' for k in range(len(wanted)))})")
    return text.function(lines)


class _Text:
    """The function's text while it is written."""

    def __init__(self, trace: Trace, captured: Mapping[str, Any]) -> None:
        self.trace = trace
        self.captured = captured
        self.scope: dict[str, Any] = dict(host_expressions.SCOPE)
        self.scope |= {"same_value": captures.same_value, "type": type}
        self.results: dict[int, None] = {}
        self.leaves: dict[int, None] = {}
        self.containers: dict[Path, None] = {}
        self.known: dict[str, str] = {}

    def finish(self, direct: Collection[int]) -> Assembly:
        """Write everything, and compile it."""
        lines = [
            f"{self.parameter(place)}[{region.python(self.dim) if region else '...'}] = "
            f"{self.result(output)}"
            for place, output, region in self.trace.writes
            if output not in direct
        ]
        found, made = [], dict[int, str]()  # what is returned twice is one object
        for place, leaf in enumerate(self.trace.leaves):
            if id(leaf) not in made:
                made[id(leaf)] = f"f{place}"
                lines.append(f"f{place} = {self.leaf(leaf)}")
            found.append(made[id(leaf)])
        lines.append(f"return {self.nested(self.trace.structure, found)}")
        return self.function(lines)

    def function(self, lines: Sequence[str]) -> Assembly:
        """The function of these lines."""
        lengths = [f"{name} = {text}" for name, text in self.known.items()]
        names = [f"r{k}" for k in self.results] + [f"a{k}" for k in self.leaves]
        names += [f"c{k}" for k in range(len(self.containers))]
        made = define("assembled", names, (*lengths, *lines), self.scope)
        results = tuple(self.results)
        bare = len(results) == 1 and list(lines) == [f"f0 = r{results[0]}", "return f0"]
        return Assembly(made, results, tuple(self.leaves), tuple(self.containers), bare)

    def constant(self, value: Any) -> str:
        """A name for an object."""
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def array(self, value: Any) -> str:
        """An argument, by its place, or an array by itself."""
        if type(value) is not int:
            return self.constant(value)
        self.leaves[value] = None
        return f"a{value}"

    def result(self, output: int) -> str:
        """A graph output."""
        self.results[output] = None
        return f"r{output}"

    def parameter(self, place: int) -> str:
        """An argument, or a captured array."""
        leaf = self.trace.parameter_leaves[place]
        if leaf is None:
            return self.constant(self.captured[self.trace.graph.parameters[place].name])
        self.leaves[leaf] = None
        return f"a{leaf}"

    def dim(self, value: dims.Dim) -> str:
        """A length."""
        return str(value) if isinstance(value, int) else self.expression(value.text)

    def expression(self, text: str) -> str:
        """A host expression, whose names get their values first."""
        for name in sorted(scalar_symbols(text)):
            if name not in self.known:
                self.known[name] = self.origin(name)
        return f"({text})"

    def origin(self, name: str) -> str:
        """Where the value of a scalar or of a length is."""
        if (told := self.trace.graph.scalar_lengths.get(name)) is not None:
            return self.expression(str(told))
        for place, parameter in enumerate(self.trace.graph.parameters):
            if parameter.dtype is None and parameter.name == name:
                return self.parameter(place)
            if parameter.name == name:
                return f"{self.constant(int)}({self.parameter(place)})"
            if parameter.dtype is None or parameter.captured:
                continue
            for axis, dim in enumerate(parameter.shape):
                if str(dim) == name:
                    return f"{self.parameter(place)}.shape[{axis}]"
        raise NotAssembled(name)

    def views(self, text: str, views: Chain) -> str:
        """An array seen through views, as `views.apply_views` does it."""
        for view in views:
            text = view.python(text, self.constant, self.dim)
        return text

    def leaf(self, leaf: Any) -> str:
        """One result of the function."""
        if isinstance(leaf, OutNode):
            return self.result(leaf.index) + ("[()]" if leaf.generic else "")
        if isinstance(leaf, OutPython):
            return leaf.text.format(self.result(leaf.index))
        if isinstance(leaf, OutView):
            return self.views(self.result(leaf.index), leaf.views)
        if isinstance(leaf, OutAlias):
            return self.views(self.parameter(leaf.parameter), leaf.views)
        if isinstance(leaf, OutScalar):
            return self.expression(leaf.text)
        copied = ".copy('K')" if type(leaf.value) is np.ndarray and leaf.fresh else ""
        return self.constant(leaf.value) + copied

    def nested(self, structure: Any, leaves: list[str], path: Path = ()) -> str:
        """Results in their structure."""
        kind = type(structure)
        if kind is Leaf:
            return str(leaves[structure.index])
        if (given := dict(self.trace.given_back).get(path)) is not None:
            self.containers[given] = None
            return f"c{list(self.containers).index(given)}"
        if kind is dict:
            pairs = [
                f"{self.constant(key)}: {self.nested(part, leaves, (*path, key))}"
                for key, part in structure.items()
            ]
            return "{" + ", ".join(pairs) + "}"
        inner = (self.nested(part, leaves, (*path, k)) for k, part in enumerate(structure))
        parts = "".join(f"{text}, " for text in inner)
        if kind is list:
            return f"[{parts}]"
        if kind is tuple:
            return f"({parts})"
        return f"{self.constant(tuple.__new__)}({self.constant(kind)}, ({parts}))"
