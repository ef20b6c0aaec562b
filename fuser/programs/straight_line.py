"""The steps of a program as one Python function, for arguments of known shapes.

Whoever calls it has compared the arguments with those that it was made for. Between two kernels
nothing is looked up: each step is a line that calls what it calls with what it reads, and one that
compares the result with what it was the first time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import trees
from fuser.base.error_states import silent
from fuser.base.generated import define
from fuser.base.host_expressions import SCOPE, evaluate_scalar, scalar_symbols
from fuser.capture import captures
from fuser.ir import dims, opaque_calls
from fuser.ir.attributes import Region
from fuser.ir.dims import Dim
from fuser.ir.opaque_calls import Closure, Number, Operand, Unset
from fuser.ir.views import Chain, Part, View, in_steps
from fuser.program_spec import Asked, Between, ElementLoop, Kind, LoopRegion, Program
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutPython,
    OutScalar,
    OutStatic,
)

if TYPE_CHECKING:
    from fuser.element_loops.code import Code

METHOD = "numpy.ndarray."
#: Operations of host expressions that `evaluate_scalar` alone keeps from integers without end.
_UNBOUNDED = re.compile(r"\*\*|<<")
_SYMBOL = re.compile(r"\b[ns]\d+\b")


def _flat(result: Any) -> Sequence[Any]:
    """The arrays of a function's result, however they are nested."""
    if isinstance(result, tuple) and all(type(each) is np.ndarray for each in result):
        return result
    return trees.flatten(result)[1]


class StraightLine:
    """The source of such a function, line by line.

    Names in it: `v0`, `v1` … are the program's values, `k0`, `k1` … objects that the lines use,
    `n2` … lengths that only functions between kernels tell, and that differ from call to call.
    """

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        kinds: Mapping[str, Kind],
        missed: Any,
        late: Collection[str] = (),
        guards: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Begin a function.

        Args:
            program: its steps are to be added in their order.
            sizes: the lengths, which all calls share.
            kinds: what the program's values were in one call.
            missed: what the function gives where a result is not as it was.
            late: lengths that may differ, and that functions between kernels tell.
            guards: (host expression, value) pairs that speak of those, or of scalars.
        """
        self._late = dict.fromkeys(late, False)
        lengths = [(str(left), str(right)) for left, right in program.graph.guards]
        self._lengths = [
            pair for pair in lengths if set().union(*map(scalar_symbols, pair)) & self._late.keys()
        ]
        self._guards = [
            guard for guard in guards if not scalar_symbols(guard[0]) <= sizes.keys() - late
        ]
        self._names: dict[str, str] = {}
        self._alive: dict[str, None] = {}
        self._objects: dict[str, Any] = {"MISSED": missed}
        self._objects.update((name, SCOPE[name]) for name in ("real", "imag", "inf", "nan"))
        self._parameters: list[str] = []
        self._lines: list[str] = []
        self._writes: list[str] = []
        self._last: list[str] = []
        self._sizes = sizes
        self._kinds = kinds
        self._numbers: list[str] = []
        self._tested: list[str] = []
        self._told: frozenset[str] = frozenset()
        self._begun = 0
        self._seen_parts = 0
        self._program = program
        for name, value in program.constants.items():
            self._names[name] = self._object(value)

    def arguments(
        self, names: Sequence[str], numbers: Collection[str],
        told: Mapping[str, Dim] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Take arguments.

        Args:
            names: of all.
            numbers: those that are Python numbers.
            told: lengths that integers among these tell, and that differ from call to call.
        """
        self._parameters = list(map(self._name, names))
        self._alive = dict.fromkeys(self._parameters)
        self._numbers = list(numbers)
        for symbol, dim in told.items():
            self._lines.append(f"{symbol} = {self._number(str(dim))}")
            self._miss([f"{symbol} < 0"])
            self._late[symbol] = True
        self._told = frozenset(told)
        known = {(symbol, str(dim)) for symbol, dim in told.items()}
        self._lengths = [pair for pair in self._lengths if not {pair, pair[::-1]} & known]
        self._begun = len(self._lines)
        self._check_guards()

    def same(self, name: str, value: int) -> None:
        """Give up where a Python integer among the arguments is another one."""
        self._lines.append(f"if {self._name(name)} != {value}: return MISSED")

    def captured(self, name: str, array: Any) -> None:
        """Take an array that is none of the arguments."""
        self._names[name] = self._object(array)

    def _name(self, value: str) -> str:
        """The variable of a value."""
        return self._names.setdefault(value, f"v{len(self._names)}")

    def _stored(self, value: str) -> str:
        """The variable of a value that a step stores."""
        name = self._name(value)
        self._alive[name] = None
        return name

    def _object(self, value: Any) -> str:
        """The name of something that is the same in every call."""
        name = f"k{len(self._objects)}"
        self._objects[name] = value
        return name

    # -- steps ------------------------------------------------------------------------------

    def stage(
        self, stored: Sequence[str], function: Callable[..., Any], names: Sequence[str]
    ) -> None:
        """Call a stage's kernels.

        Args:
            stored: the values that it gives.
            function: its kernels, as a function of what they read.
            names: of the values, scalars and lengths that it takes.
        """
        args = [
            name if name in self._late
            else self._object(self._sizes[name]) if name in self._sizes
            else self._name(name)
            for name in names
        ]  # fmt: skip
        call = f"{self._object(function)}({', '.join(args)})"
        wanted = ", ".join(map(self._stored, stored))
        self._lines.append(f"{wanted} = {call}" if stored else call)

    def elements(
        self, step: ElementLoop, native: Callable[..., Any], code: Code,
        copied: Collection[int], last: bool = False,
    ) -> None:  # fmt: skip
        """Call the kernel of a loop over elements: what it gives is always of the same kind.

        Args:
            step: the loop.
            native: its kernel, as a function of arrays and numbers; it may give MISSED.
            code: what it does.
            copied: the arrays of which it works on copies.
            last: it writes into arguments: nothing may give up after it has begun.
        """
        call = step.nodes[0].payload
        operands = [self._seen(name, chain) for name, chain in step.operands]
        given = [self._spell(part, operands) for part in call.args[4]]
        made = [place for place, part in enumerate(call.args[4]) if type(part) is Unset]
        for place in (*copied, *made):
            new = given[place] if place in made else f"{given[place]}.copy('K')"
            self._lines.append(f"c{place} = {new}")
            given[place] = f"c{place}"
        written = [each for each, known in zip(given, code.operands, strict=True) if known.written]
        args = [*given, *(self._spell(part, operands) for part in call.args[5])]
        into = self._last if last else self._lines
        into.append(f"r = {self._object(native)}({', '.join(args)})")
        into.append("if r is MISSED: return MISSED")
        for node, stored in zip(step.nodes, step.stored, strict=True):
            place = node.payload.output
            found = f"r[{place - len(written)}]" if len(code.results) > 1 else "r"
            found = written[place] if place < len(written) else found
            into.append(f"{self._stored(stored)} = {found}")
        if not last:
            held = (f"c{place}" for place in (*copied, *made))
            self._lines.append(f"del {', '.join(['r', *held])}")
            self._check_guards()

    def opaque(self, step: Between, runner: Any = None) -> None:
        """Call a NumPy function, and compare its results with those of the first call.

        Args:
            step: the call.
            runner: what is called in the function's place: it runs a loop, and gives a list.
        """
        found = [self._kinds[name] for name in step.stored]
        call = step.nodes[0].payload
        operands = [self._seen(name, chain) for name, chain in step.operands]
        args = [self._spell(part, operands) for part in call.args]
        args += [f"{key}={self._spell(part, operands)}" for key, part in call.kwargs.items()]
        if call.silenced:
            self._lines.append(f"with {self._object(silent)}({call.silenced!r}):")
        indent = "    " if call.silenced else ""
        called = self._called(call.name, args, runner)
        self._lines.append(f"{indent}r = {called}")
        places = [node.payload.output for node in step.nodes]
        results = [f"r[{place}]" for place in places]
        if runner is None and places == [0]:
            kind = self._object(found[0].type)
            self._lines.append(f"if type(r) is not {kind}: r = {self._object(_flat)}(r)[0]")
            results = ["r"]
        elif runner is None:
            self._lines.append(f"r = {self._object(_flat)}(r)")
        shapes = [node.shape for node in step.nodes]
        for value, result, stored, shape in zip(found, results, step.stored, shapes, strict=True):
            name = self._stored(stored)
            self._lines.append(f"{name} = {result}")
            if any(map(self._is_late, shape)):
                self._learn(name, value, shape)
            elif value.is_array and self._is_internal(stored):
                self._miss(self._changed(name, value, "shape"))  # kernels look at all the rest
            else:
                self._compare(name, value)
        self._lines.append("del r")
        self._check_guards()

    def asked(self, step: Asked) -> None:
        """Take a number of a value, or count the elements that a mask chooses."""
        call, (stored,) = step.nodes[0].payload, step.stored
        name = self._stored(call.tells or stored)
        if call.tells:
            ((value, chain),) = step.operands
            self._lines.append(f"{name} = {self._seen(value, chain)}.item()")
            self._numbers.append(call.tells)
        else:
            length = self._number(call.args[0].text)
            self._lines.append(f"{name} = {self._object(opaque_calls.counted)}({length})")
            symbol = str(step.nodes[0].shape[0])
            if symbol in self._late:
                self._lines.append(f"{symbol} = {name}.size")
                self._late[symbol] = True
            else:
                self._miss([f"{name}.size != {self._kinds[stored].shape[0]}"])
        self._check_guards()

    def loop_in_place(self, step: LoopRegion, runner: Callable[..., Any]) -> None:
        """Run a loop that writes into arguments: nothing may give up after it has begun.

        Args:
            step: the loop.
            runner: what runs it; it may give MISSED.
        """
        operands = [self._seen(name, chain) for name, chain in step.operands]
        args = [self._spell(part, operands) for part in step.nodes[0].payload.args]
        self._lines.append(f"given = ({', '.join(args)})")
        self._last.append(f"r = {self._object(runner)}(*given)")
        self._last.append("if r is MISSED: return MISSED")
        for node, stored in zip(step.nodes, step.stored, strict=True):
            self._last.append(f"{self._stored(stored)} = r[{node.payload.output}]")

    def _learn(self, name: str, value: Kind, shape: Sequence[Any]) -> None:
        """Take the lengths of a result that may have others than it had the first time.

        In what order its axes lie is compared where other functions or the caller see it.
        """
        tests = [
            *self._of_type(name, value),
            f"{name}.ndim != {len(value.shape)}",
            f"not {name}.flags.c_contiguous" if value.contiguous
            else f"{name}.strides != {self._object(value.strides)}",
            f"{name}.base {'is not' if value.owned else 'is'} None",
        ]  # fmt: skip
        self._miss(tests)
        for axis, (dim, length) in enumerate(zip(shape, value.shape, strict=True)):
            symbol = str(dim)
            if self._late.get(symbol) is False:
                self._lines.append(f"{symbol} = {name}.shape[{axis}]")
                self._late[symbol] = True
            else:
                wanted = self._number(symbol) if self._is_late(dim) else self._object(length)
                self._miss([f"{name}.shape[{axis}] != {wanted}"])

    def _is_late(self, dim: Dim) -> bool:
        """Whether a length may differ from call to call."""
        return not self._late.keys().isdisjoint(dims.symbols(dim))

    def _check_guards(self) -> None:
        """Give up where a guard of numbers that are known by now does not hold."""
        told = {name for name, known in self._late.items() if known}
        known = told | self._sizes.keys() - self._late.keys() | set(self._numbers)
        for pair in [p for p in self._lengths if set().union(*map(scalar_symbols, p)) <= known]:
            self._lengths.remove(pair)
            (left, right) = pair if pair[0] != f"max({pair[1]}, 0)" else pair[::-1]
            clipped = right == f"max({left}, 0)"
            test = f"{self._number(left)} {'< 0' if clipped else f'!= {self._number(right)}'}"
            if test not in self._tested:
                self._tested.append(test)
                self._miss([test])
        for guard in [each for each in self._guards if scalar_symbols(each[0]) <= known]:
            self._guards.remove(guard)
            same, value = self._object(captures.same_value), self._object(guard[1])
            self._miss([f"not {same}({self._number(guard[0])}, {value})"])

    def _is_internal(self, value: str) -> bool:
        """Whether only kernels read a value."""
        read = (name for step in self._program.between for name, _ in step.operands)
        return value not in self._program.outputs and value not in read

    def _called(self, function: str, args: list[str], runner: Any) -> str:
        """A call of a function, an array's method, or what runs a loop."""
        if runner is not None:
            return f"{self._object(runner)}({', '.join(args)})"
        method = function.removeprefix(METHOD)
        if method == "__getitem__" and len(args) == 2:
            return f"{args[0]}[{args[1]}]"
        if method != function and not method.startswith("__"):
            return f"{args[0]}.{method}({', '.join(args[1:])})"
        return f"{self._object(opaque_calls.resolve(function))}({', '.join(args)})"

    def _compare(self, name: str, value: Kind) -> None:
        """Give up where a value is of another type, dtype, shape or layout than it was."""
        tests = self._of_type(name, value)
        if value.is_array:
            tests += self._changed(name, value, "shape", "strides")
            tests.append(f"{name}.base {'is not' if value.owned else 'is'} None")
        self._miss(tests)

    def _of_type(self, name: str, value: Kind) -> list[str]:
        """Tests of a value's type and dtype."""
        dtype = self._object(value.dtype)
        return [
            f"type({name}) is not {self._object(value.type)}",
            f"({name}.dtype is not {dtype} and {name}.dtype != {dtype})",
        ]

    def _changed(self, name: str, value: Kind, *attributes: str) -> list[str]:
        """Tests of an array's attributes."""
        return [f"{name}.{each} != {self._object(getattr(value, each))}" for each in attributes]

    def _miss(self, tests: Sequence[str]) -> None:
        """Give up where one of these is true."""
        self._lines.append(f"if {' or '.join(tests)}: return MISSED")

    def forget(self, values: Sequence[str]) -> None:
        """Let go of values that nothing needs any more."""
        names = [name for name in map(self._name, values) if name in self._alive]
        if names and not self._last:
            self._lines.append(f"del {', '.join(names)}")
            for name in names:
                del self._alive[name]

    # -- arguments --------------------------------------------------------------------------

    def _seen(self, value: str, chain: Chain) -> str:
        """An operand through its views."""
        seen = self._name(value)
        if chain and not self._kinds[value].is_array:
            seen = f"{self._object(np.asarray)}({seen})"
        for view, place in in_steps(chain):
            late = any(map(self._is_late, view.lengths))
            if late:
                self._seen_parts += 1
                self._lines.append(f"w{self._seen_parts} = {seen}")
                seen = f"w{self._seen_parts}"
            if late and isinstance(view, Part):
                self._miss([f"{self._number(str(view.stop))} > {seen}.shape[{view.axis}]"])
            seen = self._through(seen, view, place)
        return seen

    def _through(self, seen: str, view: View, place: bool) -> str:
        """An array seen through a view; `place`: through one place that an index then takes."""
        if place and isinstance(view, Part):
            return view.python_of_place(seen, self._length)
        return view.python(seen, self._object, self._length)

    def _length(self, dim: Dim) -> str:
        """A length as an expression."""
        late = self._is_late(dim)
        return self._number(str(dim)) if late else str(dims.evaluate(dim, self._sizes))

    def _spell(self, part: Any, operands: Sequence[str]) -> str:
        """An argument as an expression."""
        kind = type(part)
        if kind is Operand:
            return f"{operands[part.index]}{'[()]' if part.scalar else ''}"
        if kind is Number:
            return self._number(part.text)
        if kind is Closure:
            held = [repr(part.name), *(self._spell(each, operands) for each in part.values)]
            return f"{self._object(opaque_calls.with_values)}({', '.join(held)})"
        if kind is tuple or kind is list:
            inner = ", ".join(self._spell(each, operands) for each in part)
            return f"[{inner}]" if kind is list else f"({inner}{',' if len(part) == 1 else ''})"
        if kind is dict:
            pairs = (f"{key!r}: {self._spell(each, operands)}" for key, each in part.items())
            return f"{{{', '.join(pairs)}}}"
        if kind is slice:
            bounds = (self._spell(b, operands) for b in (part.start, part.stop, part.step))
            return f"{self._object(slice)}({', '.join(bounds)})"
        if kind is Unset:
            like, dtype = self._spell(part.like, operands), self._object(part.dtype)
            return f"{self._object(opaque_calls.maker_of(part))}({like}, {dtype})"
        return self._object(part)

    def _number(self, text: str) -> str:
        """A host expression: its value where lengths alone tell it."""
        symbols = scalar_symbols(text)
        if symbols <= self._sizes.keys() - self._late.keys():
            return self._object(evaluate_scalar(text, self._sizes))
        names = {name: str(size) for name, size in self._sizes.items()}
        names |= {name: self._name(name) for name in self._numbers}
        names |= {name: name for name in self._late}
        if not _UNBOUNDED.search(text):
            return f"({_SYMBOL.sub(lambda found: names[found[0]], text)})"
        given = ", ".join(f"{name!r}: {names[name]}" for name in sorted(symbols))
        return f"{self._object(evaluate_scalar)}({text!r}, {{{given}}})"

    # -- the function -----------------------------------------------------------------------

    def write(self, array: str, region: Region | None, value: str) -> None:
        """Write a result into a part of an argument, after everything that may give up."""
        for axis, (_, stop, _) in enumerate(region.box if region else ()):
            if not self._told.isdisjoint(dims.symbols(stop)):  # NumPy would cut it off
                test = f"{self._number(str(stop))} > {self._name(array)}.shape[{axis}]"
                self._lines.insert(self._begun, f"if {test}: return MISSED")
        index = region.python(lambda dim: self._number(str(dim))) if region else "..."
        self._writes.append(f"{self._name(array)}[{index}] = {self._name(value)}")

    def function(
        self, structure: Any, leaves: Sequence[Any], also: Sequence[str] = ()
    ) -> Callable[..., Any]:
        """The finished function of the arguments; it gives what the program gives, or MISSED.

        Args:
            structure: how the results nest.
            leaves: the trace's results.
            also: lines that come before it gives them.
        """
        once = {id(leaf): leaf for leaf in leaves}  # what is returned twice is one object
        made = {key: f"f{k}" for k, key in enumerate(once)}
        result = self._nested(structure, [made[id(leaf)] for leaf in leaves])
        given: tuple[list[str], list[str]] = [], []  # a view may be a copy of what is written
        for key, leaf in once.items():
            given[hasattr(leaf, "views")].append(f"{made[key]} = {self._result(leaf)}")
        after = [*given[0], *self._writes, *given[1], *also, f"return {result}"]
        if self._last:
            return self._defined(self._lines, [*self._last, *after])
        return self._defined([*self._lines, *after], ())

    def part(self, text: str, following: Mapping[Any, Callable[..., Any]]) -> Callable[..., Any]:
        """The function of what stands before a decision; it goes on with what comes after it.

        Args:
            text: what is decided by, as a host expression.
            following: by outcome, what comes after it; it may grow.
        """
        lines = [*self._lines, f"follow = {self._object(following)}.get({self._number(text)})"]
        return self._defined(lines, [
            "if follow is None: return MISSED", f"return follow({', '.join(self._held)})",
        ])  # fmt: skip

    def instead(self, function: Callable[..., Any], names: Sequence[str], lines: Sequence[str]
    ) -> Callable[..., Any]:  # fmt: skip
        """The function of what stands before a call of another one, which gives the result.

        Args:
            function: it takes values.
            names: those.
            lines: they come before and after it.
        """
        given = ", ".join(map(self._name, names))
        before, after = lines
        called = f"found = {self._object(function)}({given})"
        return self._defined(self._lines, [before, called, after, "return found"])

    def after(
        self, program: Program, sizes: Mapping[str, int], kinds: Mapping[str, Kind],
        late: Collection[str], guards: Sequence[tuple[str, Any]] | None,
    ) -> StraightLine:  # fmt: skip
        """The lines that come after a decision, of this path or of another; see the class.

        Their guards are those that are left here, where none are given.
        """
        left = self._guards if guards is None else guards
        made = StraightLine(program, sizes, kinds, self._objects["MISSED"], late, left)
        made._late.update({name: True for name, known in self._late.items() if known})
        made._names = {**made._names, **self._names}
        made._objects = {**made._objects, **self._objects}
        for name in program.constants.keys() - self._names.keys():
            made._names[name] = made._object(program.constants[name])
        made._numbers = list(self._numbers)
        made._parameters = self._held
        made._alive = dict(self._alive)
        made._check_guards()
        return made

    @property
    def _held(self) -> list[str]:
        """The variables of what is stored, and of lengths that only functions have told."""
        return [*self._alive, *(name for name, known in self._late.items() if known)]

    def _defined(self, lines: Sequence[str], after: Sequence[str]) -> Callable[..., Any]:
        """Lines as a function: what raises is met again on the long way, but for the last ones."""
        self._objects["Exception"] = Exception
        guarded = ["try:", *(f"    {line}" for line in lines), "except Exception: return MISSED"]
        whole = [*(guarded if lines else ()), *after]
        return define("straight_line", self._parameters, whole, dict(self._objects))

    def _nested(self, structure: Any, results: Sequence[str]) -> str:
        """Results in their structure."""
        if type(structure) is trees.Leaf:
            return results[structure.index]
        if structure == tuple(map(trees.Leaf, range(len(results)))):
            return f"({', '.join(results)},)" if results else "()"
        unflatten, nesting = self._object(trees.unflatten), self._object(structure)
        return f"{unflatten}({nesting}, [{', '.join(results)}])"

    def _result(self, leaf: Any) -> str:
        """One result of the function."""
        if isinstance(leaf, OutNode):
            return self._name(self._program.outputs[leaf.index]) + ("[()]" if leaf.generic else "")
        if isinstance(leaf, OutPython):
            return leaf.text.format(self._name(self._program.outputs[leaf.index]))
        if isinstance(leaf, OutScalar):
            return self._number(leaf.text)
        if isinstance(leaf, OutStatic):
            copied = ".copy('K')" if type(leaf.value) is np.ndarray and leaf.fresh else ""
            return self._object(leaf.value) + copied
        is_alias = isinstance(leaf, OutAlias)
        seen = self._name(
            self._program.graph.parameters[leaf.parameter].name if is_alias
            else self._program.outputs[leaf.index]
        )  # fmt: skip
        for view, place in in_steps(leaf.views):
            seen = self._through(seen, view, place)
        return seen
