"""Loops of a function as a trace can see them: a private twin of its code, made from its source.

A trace meets `for t in range(n)` as one iteration after another. In the twin each such loop asks an
object of the trace what to do next, so that its body can be traced once for all iterations:

    loop = <loops>(<what the source says>, range, (n,))
    loop.test = err > tol                           # of `while err > tol`, without `range`
    while loop.again():
        t = loop.index
        if loop.binds("u"): u = loop.value("u")     # for each name that the body changes
        if loop.unbinds("u"): del u
        try:
            ...                                     # the body as it stands, on its own lines
            if loop.tests(): loop.test = err > tol
        except BaseException as error:
            if not loop.failed(error): raise
    if loop.binds("u"): u = loop.value("u")
    if loop.unbinds("u"): del u

In tests, `not a` is `loop.negation(a)`, and `a and b` is `loop.joined(b) if loop.asks(a, True) else
loop.settled()`: the trace knows of both operands where it does not know which of them decides.

A decision in the body runs one branch, or both on the same values:

    loop.decide(0, a > b)
    if loop.takes():
        ...
    if loop.turns():
        if loop.binds("u"): u = loop.value("u")     # for each name that either branch changes
        ...
    loop.merge()
    if loop.binds("u"): u = loop.value("u")

What stands after `if done: break` runs in the other branch, and `break` is `loop.stop(0)`: see
`loop_jumps`.

Only traces run the twin. The source has to be the function's own: compiled as it stands, it gives
the code that the function has. Which names a body changes, and which of them anything reads
afterwards, is known from the source.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from types import CodeType
from typing import TYPE_CHECKING, Any

from fuser.base.caches import memo
from fuser.base.errors import short_path
from fuser.base.records import record
from fuser.base.syntax_trees import free_names, located, tree_nodes
from fuser.capture import comprehensions
from fuser.capture.codes import LOOPS, WALK, Original, codes_in, may_have_twin, plain
from fuser.capture.liveness import live_after, live_before
from fuser.capture.loop_jumps import LOOPS as _LOOPS
from fuser.capture.loop_jumps import (
    RAISED,
    Leaving,
    nodes,
    put_raises_behind,
    raised,
    way_of,
    with_choices,
    without_jumps,
)

if TYPE_CHECKING:
    from fuser.capture.element_staging import ElementSource

#: Functions and methods that tests may call where Python might not: they change nothing.
_PURE = (
    "abs absolute all allclose any array_equal bool ceil count_nonzero dot exp fabs float floor "
    "int isclose isfinite isinf isinstance isnan item len log max maximum mean min minimum norm "
    "ptp sign sqrt square std sum var vdot"
).split()
#: Comparisons that a test may ask for of numbers that a loop tells.
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
#: Functions that give Python's truth of arrays: in a test it is all one whether they do.
_TRUTHS = ("bool", "allclose", "array_equal")
#: Functions of what loops go over.
_OVER = ("range", "enumerate", "zip", "reversed")
#: How a loop stands in the twin's syntax tree, before it is put into its code.
_TOKEN = "\0loop"
_FLAGS = reduce(or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
#: Set by CPython 3.14 and later where a function stands in a class.
_METHOD = getattr(inspect, "CO_METHOD", 0)
#: Statements that the body of a loop may have.
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Pass)
_Loop = ast.For | ast.While
#: Expressions that it may not have: they make functions, or names that the body does not show.
_EXPRESSIONS = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr,
    ast.Await, ast.Yield, ast.YieldFrom, ast.Starred,
)  # fmt: skip


@record
class Decision:
    """What the source says of an `if` in the body of a loop.

    Attributes:
        names: what either branch assigns to.
        read: those that the second branch may read before it sets them.
        needed: those that are read beyond the `if`.
        over: names that the loop assigns to, and that nothing reads after the `if`.
    """

    names: tuple[str, ...]
    read: frozenset[str]
    needed: frozenset[str]
    over: frozenset[str]


@record
class LoopSource:
    """What the source says of one loop.

    Attributes:
        index: the loop's variable, of a range; else "".
        index_read: whether anything reads it after the loop.
        carried: names that the body changes and may read before; an iteration's values of them are
            what the one before has left.
        later: names that the body sets before it reads them, and that are read after the loop.
        kept: those of `carried` that may be read after the loop.
        assigned: names that the body assigns to.
        read: names that the body reads.
        where: `file:line`.
        tested: it goes on while a test is true, and over no range.
        breaks: it has a `break` or a `return`; an exception ends all iterations or the call.
        flags: names that nothing but a test reads; they are True or False.
        ways: for each way out of its body, what is read where it leads; None for an exception.
        decisions: each `if` in it.
        lists: names of lists that nothing else sees, and that iterations append one item to.
        passed: those that some iterations append nothing to.
        listed: it was a comprehension.
        few: it was one, and few iterations, of a number that a call tells, are unrolled.
        asks: it was one, and is not unrolled: the trace would read a value for each iteration.
    """

    index: str
    index_read: bool
    carried: tuple[str, ...]
    later: tuple[str, ...]
    kept: frozenset[str]
    assigned: frozenset[str]
    read: tuple[str, ...]
    where: str
    tested: bool
    breaks: bool
    flags: tuple[str, ...]
    ways: tuple[frozenset[str] | None, ...]
    decisions: tuple[Decision, ...]
    lists: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    listed: bool = False
    few: bool = False
    asks: bool = False


def count_of(name: str) -> str:
    """The name of the number of items that a loop has appended to a list.

    There is one where the loop ends early, or where some iterations append nothing.
    """
    return f"count of {name}"


def place_of(name: str) -> str:
    """The name of the same number as iterations know it, of a list that some append nothing to."""
    return f"place of {name}"


@record
class Staged:
    """The twin's code, and its loops in the order of their numbers."""

    code: CodeType
    loops: tuple[LoopSource | ElementSource, ...]


def staged(code: CodeType) -> Staged | None:
    """The twin of a function's code; None where it has no such loop, or no source of its own."""
    if not may_have_twin(code):
        return None
    return _staged(code, code.co_filename)


@memo(1024)
def _staged(code: CodeType, _: str) -> Staged | None:
    """As `staged`; code objects are equal whatever their file, so its name is asked for, too."""
    try:
        found = _definition(code)
    except (OSError, SyntaxError, ValueError, RecursionError):  # no source, or no text of Python
        return None
    if found is None:
        return None
    module, function = found
    own = code
    if comprehensions.written_out(function):
        expanded = _code_of(compile(ast.fix_missing_locations(module), *_options(code)), code)
        if expanded is None or expanded.co_freevars != code.co_freevars:
            return None
        own = expanded
    put_raises_behind(function)
    stage = _Stage(function, own)
    function.body = stage.block(function.body, True)
    if not stage.loops:
        return None
    twin = _code_of(compile(ast.fix_missing_locations(module), *_options(code)), code)
    if twin is None:
        return None
    loops: dict[str, Any] = {f"{_TOKEN}{n}": source for n, source in enumerate(stage.loops)}
    loops |= {comprehensions.CHECKED: comprehensions.checked, RAISED: raised}
    known = tuple(loops.get(c, c) if type(c) is str else c for c in twin.co_consts)
    twin = twin.replace(co_consts=(*known, Original(code)))
    return Staged(twin, tuple(stage.loops))


def definition(code: CodeType) -> ast.FunctionDef | None:
    """The syntax tree of a function whose source is its own; None for others."""
    try:
        found = _definition(plain(code))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return None if found is None else found[1]


def _options(code: CodeType) -> tuple[str, str, int, bool]:
    """How a function's module was compiled."""
    return code.co_filename, "exec", code.co_flags & _FLAGS, True


def _definition(code: CodeType) -> tuple[ast.Module, ast.FunctionDef] | None:
    """The syntax tree of a function, in a module where it has its free names; None if it is not it.

    Lines and columns stay, and so do imports of its module, which the compiler looks at: the code
    compares as equal. Its own lines and imports of one line are enough for most functions, and the
    rest of a long file is not parsed.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    with suppress(SyntaxError):
        if (found := _in_module(ast.parse("".join(_own_lines(lines, code))), code)) is not None:
            return found
    return _in_module(ast.parse("".join(lines)), code)


def _own_lines(lines: Sequence[str], code: CodeType) -> list[str]:
    """A file with nothing but the lines of a function and imports of one line, where they stand."""
    first = code.co_firstlineno - 1
    if first >= len(lines):
        return []
    stop = max(end or 0 for part in codes_in(code) for _, end, _, _ in part.co_positions())
    depth = _indent(lines[first])
    while stop < len(lines) and (
        not lines[stop].strip() or _indent(lines[stop]) > depth or lines[stop].lstrip()[0] in ")]}"
    ):
        stop += 1
    kept = [line if line.startswith(("import ", "from ")) else "\n" for line in lines]
    kept[first:stop] = lines[first:stop]
    if depth:
        kept[first - 1] = "if True:\n"
    return kept


def _indent(line: str) -> int:
    """How many blanks a line begins with."""
    return len(line) - len(line.lstrip())


def _in_module(
    tree: ast.Module, code: CodeType
) -> tuple[ast.Module, ast.FunctionDef] | None:
    """The function in a module's syntax tree, and the module of its own; None if it is not it."""
    function = next((each for each in tree_nodes(tree) if _is_of(each, code)), None)
    if not isinstance(function, ast.FunctionDef):
        return None
    body: list[ast.stmt] = [*_imports(tree), function]
    if code.co_flags & inspect.CO_NESTED:
        given = [ast.arg(name) for name in code.co_freevars]
        arguments = ast.arguments([], given, None, [], [], None, [])
        outer = ast.FunctionDef("outer", arguments, [function], [])
        for each in (outer, *given):  # the rest has its locations
            ast.copy_location(each, function)
        body[-1] = outer
    module = ast.Module(body, [])
    same = _code_of(compile(module, *_options(code)), code)
    free = code.replace(co_flags=code.co_flags & ~_METHOD) if code.co_flags & _METHOD else code
    return (module, function) if same == free else None


def _is_of(node: ast.AST, code: CodeType) -> bool:
    """Whether a definition may be that of a function's code."""
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return False
    first = min((each.lineno for each in node.decorator_list), default=node.lineno)
    return first == code.co_firstlineno


def _imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the imports of a module, but those in functions and classes."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                waiting.append(node)


def _code_of(module: CodeType, code: CodeType) -> CodeType | None:
    """The code of a function in a module that has been compiled, called as the function is."""
    nested = code.co_flags & inspect.CO_NESTED
    outer = [part for part in module.co_consts if isinstance(part, CodeType)]
    inner = [part for one in outer for part in one.co_consts if isinstance(part, CodeType)]
    for part in inner if nested else outer:
        if part.co_name == code.co_name:
            return part.replace(co_qualname=code.co_qualname)
    return None


def _binding(names: Sequence[str]) -> list[str]:
    """Lines that give names other values, or none: a look at the body may have bound them."""
    return [
        line for k, name in enumerate(names) for line in (
            f"if L.binds({name!r}): N{k} = L.value({name!r})", f"if L.unbinds({name!r}): del N{k}"
        )
    ]  # fmt: skip


class _Stage:
    """Changes the loops of one function."""

    def __init__(self, function: ast.FunctionDef, code: CodeType) -> None:
        """Look at a function whose code is `code`."""
        self.loops: list[LoopSource | ElementSource] = []
        self._function = function
        self._shared = {*code.co_cellvars, *code.co_freevars}
        self._place = short_path(code.co_filename)
        self._arguments = {arg.arg for arg in tree_nodes(function.args) if isinstance(arg, ast.arg)}
        self._over: list[int] = []
        self._decided: dict[int, tuple[int, int]] = {}
        self._lists = _appended_to(function)
        self._free = free_names(function, "chosen")
        self._has_groups = False
        if _names_more(function):
            from fuser.capture import element_staging  # most functions have no such loops

            self._elements = element_staging
            self._has_groups = element_staging.may_hold_group(function.body)
        self._live = live_after(function)

    def block(self, body: Sequence[ast.stmt], last: bool = False) -> list[ast.stmt]:
        """Statements, with the groups among them that may be loops over elements in front.

        Args:
            body: the statements.
            last: they are all of the function.
        """
        if not self._has_groups:
            return [part for each in body for part in self.statement(each)]
        found: list[ast.stmt] = []
        for group in self._elements.grouped(body, last):
            alone = self._elements.is_group(group) and self._may_change(group)
            made = self._asked(group) if alone else None
            whole = len(group) == 1
            rest = self.statement(group[0]) if whole else [
                part for each in group for part in self.block([each])
            ]  # fmt: skip
            if made is None:
                found += rest
            else:
                made[-1].orelse = rest
                found += made
        return found

    def _may_change(self, group: Sequence[ast.stmt]) -> bool:
        """Whether the names that statements assign to are the function's own."""
        return self._shared.isdisjoint(_stored(group)) and not any(
            isinstance(node, (ast.Global, ast.Nonlocal)) for node in tree_nodes(self._function)
        )

    def _asked(self, group: Sequence[ast.stmt]) -> list[Any]:
        """What asks whether statements run as one loop over elements: an `if` comes last."""
        live = self._live.get(id(group[-1]), frozenset())
        where = f"{self._place}:{group[0].lineno}"
        source = self._elements.source_of(group, live, where, self._function)
        token, loop = f"{_TOKEN}{len(self.loops)}", f"loop {len(self.loops)}"
        self.loops.append(source)
        text = [f"L = F({token!r}, range, ())", "if L.taken():"]
        text += [f"  if L.binds({name!r}): N{k} = L.value({name!r})"
                 for k, name in enumerate(source.wanted)]  # fmt: skip
        text += [f"  return L.value({self._elements.RETURNED!r})" if source.returns else "  pass"]
        made = ast.parse("\n".join(text)).body
        names = {f"N{k}": name for k, name in enumerate(source.wanted)}
        names |= {"L": loop, "F": LOOPS}
        for each in tree_nodes(*made):
            if isinstance(each, ast.Name):
                each.id = names.get(each.id, each.id)
            ast.copy_location(each, group[0])
        call = made[0].value  # type: ignore[attr-defined]
        call.args[1] = ast.copy_location(ast.Constant(None), group[0])
        loops = [each for each in group if isinstance(each, _LOOPS)]
        over: Any = getattr(loops[0], "iter", None)
        if len(loops) == 1 and getattr(loops[0], "few", False) and _is_range(over):
            calls = [n for arg in over.args for n in tree_nodes(arg) if isinstance(n, ast.Call)]
            if all(isinstance(n.func, ast.Name) and n.func.id == "len" for n in calls):
                call.args[2].elts = over.args  # of a comprehension, how many elements it has
        return made

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement with the loops in it changed."""
        made = self._loop(node) if isinstance(node, _LOOPS) else None
        if (way := way_of(node)) is not None:
            return self._parsed([f"L.stop({way})"], node, [], self._over[-1])
        if made is not None:
            self._over.append(made)
        for field in ("body", "orelse", "finalbody"):
            inside = getattr(node, field, None)
            if isinstance(inside, list) and not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                setattr(node, field, self.block(inside))
        for handler in getattr(node, "handlers", ()):
            handler.body = self.block(handler.body)
        if made is not None:
            self._over.pop()
        if isinstance(node, ast.If) and (place := self._decided.pop(id(node), None)) is not None:
            return self._decision(node, *place)
        if made is None or not isinstance(node, _LOOPS):
            return [node]
        return self._twin(node, made)

    def _loop(self, node: _Loop) -> int | None:
        """Note a loop; its number, or None where it is none that a trace may see as one."""
        number = len(self.loops)
        leaving = Leaving(number, node.orelse)
        body = without_jumps(with_choices(node.body, self._free), leaving)
        if body is None or not _is_plain(node, body):
            return None
        before, node.body, node.orelse = (node.body, node.orelse), body, leaving.after()
        targets = set(_stored([ast.Expr(node.target)])) if isinstance(node, ast.For) else set()
        index = node.target.id if _over(node) == "range" else ""  # type: ignore[union-attr]
        changed = dict.fromkeys(_stored(body))
        behind = live_before(node.orelse, self._live[id(node)])
        kept = behind & {*changed, *targets}
        again = targets & kept & (targets - {index} | changed.keys())
        if again or not self._shared.isdisjoint((*changed, *targets)):
            node.body, node.orelse = before
            return None
        for name in targets:  # which each iteration begins with
            changed.pop(name, None)
        tested = isinstance(node, ast.While)
        lists = self._lists.get(id(node), {})
        inner = (part for part in tree_nodes(*body) if isinstance(part, _LOOPS))
        decides = lists and any(isinstance(n, ast.If) for part in inner for n in tree_nodes(part))
        breaks = len(leaving.raising) < len(leaving.read)
        if decides or not self._shared.isdisjoint(lists):
            lists = {}
        read = dict.fromkeys(_loaded(_with_test(node)))
        self._ask_to_append(body, lists, number, breaks or tested)
        passed = [name for name in lists if lists[name]]
        counts = [*map(count_of, lists if breaks or tested else passed)]
        kept |= {*counts}
        changed |= dict.fromkeys((*counts, *map(place_of, passed)))
        # What no iteration need set, the loop may leave as it was.
        exposed = live_before(_with_test(node), kept)
        self.loops.append(LoopSource(
            index=index,
            index_read=index in kept,
            carried=tuple(name for name in changed if name in exposed),
            later=tuple(name for name in changed if name not in exposed and name in kept),
            kept=kept,
            assigned=frozenset((*changed, *targets)),
            read=tuple(name for name in read if name not in lists),
            where=f"{self._place}:{node.lineno}",
            tested=tested,
            breaks=breaks,
            flags=(*leaving.flags, *([node.flag] if hasattr(node, "flag") else ())),
            ways=tuple(None if way in leaving.raising else kept if read is None
                       else read | {*leaving.flags, *counts}
                       for way, read in enumerate(leaving.read)),
            decisions=tuple(self._decisions(node, number, kept)),
            lists=tuple(lists),
            passed=tuple(passed),
            listed=hasattr(node, "few"),
            few=getattr(node, "few", False),
            asks=getattr(node, "asks", False),
        ))  # fmt: skip
        return number

    def _ask_to_append(
        self, body: list[ast.stmt], lists: Mapping[str, bool], number: int, counted: bool
    ) -> None:
        """Have statements ask the loop to append to lists, and count, see `count_of`."""
        for place, each in reversed(list(enumerate(body))):
            if isinstance(each, ast.If):
                self._ask_to_append(each.body, lists, number, counted)
                self._ask_to_append(each.orelse, lists, number, counted)
            if (name := _appends_to(each)) in lists:
                text = [f"L.append({name!r}, LIST, ITEM)", *["N0 = N0 + 1"] * counted]
                if lists[name]:
                    text = [f"L.append({name!r}, LIST, ITEM, N1)", "N1 = N1 + 1"]
                    text += ["N0 = L.counted(N0)"]
                made = self._parsed(text, each, [count_of(name), place_of(name)], number)
                given = made[0].value.args  # type: ignore[attr-defined]
                given[1:3] = [each.value.func.value, *each.value.args]  # type: ignore[attr-defined]
                body[place : place + 1] = made

    def _decisions(
        self, loop: _Loop, number: int, kept: frozenset[str]
    ) -> Iterator[Decision]:
        """Yield the decisions in a loop's body, but for those in loops in it."""
        waiting: list[ast.AST] = list(reversed(loop.body))
        count = 0
        while waiting:
            node = waiting.pop()
            if isinstance(node, _LOOPS):
                continue
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
            if not isinstance(node, ast.If):
                continue
            names = tuple(dict.fromkeys(_stored([*node.body, *node.orelse])))
            inside = Counter(_loaded([*node.body, *node.orelse]))
            beyond = Counter(_loaded(_with_test(loop)))
            beyond.subtract(inside)
            carried = live_before(_with_test(loop))
            needed = {n for n in names if beyond[n] > 0 or n in kept or n in carried}
            read = live_before(node.orelse)
            self._decided[id(node)] = number, count
            count += 1
            mine = set(map(id, tree_nodes(node)))
            later = {
                each.id for part in _with_test(loop) for each in tree_nodes(part)
                if isinstance(each, ast.Name) and id(each) not in mine and each.lineno > node.lineno
            }  # fmt: skip
            over = {*_stored(loop.body)} - later - kept - carried
            yield Decision(
                names, frozenset(read & {*names}), frozenset(needed), frozenset(over)
            )

    def _twin(self, node: _Loop, number: int) -> list[ast.stmt]:
        """The statements in place of a loop."""
        source = self.loops[number]
        assert isinstance(source, LoopSource)
        bound = [*source.carried, *source.later]
        given = "range, ()" if not source.tested else "None, ()"
        text = [f"L = F({_TOKEN + str(number)!r}, {given})"]
        text += ["L.test = TEST"] * source.tested
        text += ["while L.again():"] + ["  I = L.index"] * (not source.tested)
        text += [f"  {line}" for line in _binding(source.carried)]
        text += ["  try: pass", "  except BaseException as E:", "    if not L.failed(E): raise"]
        after = [*bound, *([source.index] if source.index else ()), *source.lists]
        text += _binding(after)
        made = self._parsed(text, node, after, number, source.index)
        repeat = next(each for each in made if isinstance(each, ast.While))
        attempt = repeat.body[-1]
        assert isinstance(attempt, ast.Try)
        attempt.body = node.body
        if isinstance(node, ast.While):
            first = self._parsed(["if L.tests():", "  L.test = TEST"], node, [], number)
            attempt.body = [*attempt.body, *first]
            tests: list[Any] = [made[1], first[0].body[0]]  # type: ignore[attr-defined]
            for each in tests:
                each.value = node.test
            made[1:2] = _tested(made[1], number)
            first[0].body = _tested(first[0].body[0], number)  # type: ignore[attr-defined]
        else:
            assert isinstance(made[0], ast.Assign)
            assert isinstance(made[0].value, ast.Call)
            made[0].value.args[1:] = _walked(node.iter)
            begin = repeat.body[0]
            assert isinstance(begin, ast.Assign)
            begin.targets = [node.target]
        counts = [count_of(name) for name in source.lists if count_of(name) in source.kept]
        counts += map(place_of, source.passed)
        begun = [f"N{k} = False" for k in range(len(source.flags))]
        begun += [f"N{len(begun) + k} = 0" for k in range(len(counts))]
        return [*self._parsed(begun, node, [*source.flags, *counts], number), *made, *node.orelse]

    def _decision(self, node: ast.If, number: int, place: int) -> list[ast.stmt]:
        """The statements in place of an `if` in a loop's body."""
        source = self.loops[number]
        assert isinstance(source, LoopSource)
        names = source.decisions[place].names
        binds = _binding(names)
        text = [f"L.decide({place}, TEST)", "if L.takes(): pass", "if L.turns():", "  pass"]
        text += [f"  {line}" for line in binds] + ["L.merge()", *binds]
        made = self._parsed(text, node, names, number)
        decide, first, then = made[:3]
        assert isinstance(decide, ast.Expr)
        assert isinstance(decide.value, ast.Call)
        assert isinstance(first, ast.If)
        assert isinstance(then, ast.If)
        decide.value.args[1] = _asked(node.test, number)
        first.body = node.body
        then.body += node.orelse
        return made

    def _parsed(
        self, text: Sequence[str], node: ast.stmt, names: Sequence[str], number: int,
        index: str = "",
    ) -> list[ast.stmt]:  # fmt: skip
        """Statements on the line of `node`; names in them that no user's may be are put in."""
        made = ast.parse("\n".join(text)).body
        spelled = {f"N{k}": name for k, name in enumerate(names)}
        spelled |= {"L": f"loop {number}", "F": LOOPS, "I": index, "E": "error in a loop"}
        for each in tree_nodes(*made):
            if isinstance(each, ast.Name):
                each.id = spelled.get(each.id, each.id)
            if isinstance(each, ast.ExceptHandler):
                each.name = spelled["E"]
            ast.copy_location(each, node)
        return made


def _over(node: _Loop) -> str:
    """What a loop goes over: one of `_OVER`, "rows" of a value; "" where it is none of these."""
    if isinstance(node, ast.While):
        return ""
    if isinstance(node.iter, (ast.Name, ast.Attribute, ast.Subscript)):
        return "rows"
    call = node.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return ""
    if not _is_walk(call) or not 1 <= len(call.args) <= 8:
        return ""
    if any(isinstance(part, _EXPRESSIONS) for part in tree_nodes(call)):
        return ""
    return call.func.id


def _walked(node: ast.expr) -> list[ast.expr]:
    """What a loop goes over as a function and a tuple of its arguments, walks among these."""
    if not _is_walk(node):
        return [located(ast.Constant(None), node), located(ast.Tuple([node], ast.Load()), node)]
    assert isinstance(node, ast.Call)
    args: list[ast.expr] = []
    for arg in node.args:
        made = arg
        if _is_walk(arg):
            told = [ast.Constant(WALK), *_walked(arg)]
            made = located(ast.Call(ast.Name(LOOPS, ast.Load()), told, []), arg)
        args.append(made)
    return [node.func, located(ast.Tuple(args, ast.Load()), node)]


def _is_walk(node: ast.expr) -> bool:
    """Whether an expression calls a function of what loops go over."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    said = [f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords]
    usual = not said or (node.func.id == "zip" and said == ["strict=False"])
    return usual and node.func.id in _OVER


def _tested(statement: ast.stmt, number: int) -> list[ast.stmt]:
    """`L.test = a and b` as `L.test = a` and, where that says no more, `L.also = b`."""
    assert isinstance(statement, ast.Assign)
    test = statement.value
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And) or not _is_pure(test):
        statement.value = _asked(test, number)
        return [statement]
    target = statement.targets[0]
    assert isinstance(target, ast.Attribute)
    made: list[ast.stmt] = []
    for value in reversed(test.values):
        name = "test" if value is test.values[0] else "also"
        to = ast.Attribute(target.value, name, ast.Store())
        one = ast.copy_location(ast.Assign([to], _asked(value, number)), statement)
        if made:
            open_ = ast.Call(ast.Attribute(target.value, "open", ast.Load()), [], [])
            goes_on = ast.copy_location(ast.If(open_, made, []), statement)
            made = [one, goes_on]
        else:
            made = [one]
    return made


def _asked(test: ast.expr, number: int) -> ast.expr:
    """A test of which the loop is told what `not`, `and` and `or` in it combine."""

    def call(method: str, *args: ast.expr, options: Sequence[ast.keyword] = ()) -> ast.expr:
        of = ast.Attribute(ast.Name(f"loop {number}", ast.Load()), method, ast.Load())
        return located(ast.Call(of, list(args), list(options)), test)

    def combined(parts: Sequence[ast.expr], every: bool, kept: int) -> ast.expr:
        made = parts[-1]
        for part in reversed(parts[:-1]):
            asks = call("asks", part, ast.Constant(every))
            settled = call("settled", ast.Constant(kept))
            made = located(ast.IfExp(asks, call("joined", made), settled), test)
        return made

    if isinstance(test, ast.Call) and _called(test) in _TRUTHS:
        return call("truth", test.func, *test.args, options=test.keywords)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return call("negation", _asked(test.operand, number))
    if isinstance(test, ast.BoolOp) and _is_pure(test):
        parts = [_asked(value, number) for value in test.values]
        return combined(parts, isinstance(test.op, ast.And), 0)
    if isinstance(test, ast.Compare) and (len(test.ops) == 1 or _is_pure(test)):
        rights = [call("keep", each) for each in test.comparators[:-1]] + test.comparators[-1:]
        lefts = [test.left, *(call("kept") for _ in rights[1:])]
        pairs = zip(lefts, test.ops, rights, strict=True)
        compared = [
            call("compared", ast.Constant(_COMPARED[type(op)]), a, b) if type(op) in _COMPARED
            else located(ast.Compare(a, [op], [b]), test) for a, op, b in pairs
        ]  # fmt: skip
        return combined(compared, True, 1) if len(compared) > 1 else compared[0]
    return test


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _is_pure(test: ast.expr) -> bool:
    """Whether it shows nowhere that an operand is evaluated which Python might not look at."""
    calls = [part for part in tree_nodes(test) if isinstance(part, ast.Call)]
    written = any(key.arg == "out" for each in calls for key in each.keywords)
    return not written and all(_called(each) in _PURE for each in calls)


def _names_more(function: ast.FunctionDef) -> bool:
    """Whether a function does more than arithmetic of names, and `for` over ranges."""
    parts = tree_nodes(function)
    over = {id(each.iter): _is_range(each.iter) for each in parts if isinstance(each, ast.For)}
    return not all(over.values()) or any(
        isinstance(each, (ast.Subscript, ast.While))
        or (isinstance(each, ast.Call) and id(each) not in over)
        for each in parts
    )


def _is_range(call: ast.expr) -> bool:
    """Whether an expression calls `range` with one to three arguments."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        return False
    return call.func.id == "range" and 1 <= len(call.args) <= 3


def _with_test(node: _Loop) -> list[ast.stmt]:
    """The body of a loop, and what is tested after it."""
    return [*node.body, *([ast.Expr(node.test)] if isinstance(node, ast.While) else ())]


def _is_plain(node: _Loop, body: Sequence[ast.stmt]) -> bool:
    """Whether a loop has a test or goes over a range, and does nothing but assign and call."""
    if isinstance(node, ast.For):
        if not _over(node) or not _is_target_of_names(node.target):
            return False
        if _over(node) == "range" and not isinstance(node.target, ast.Name):
            return False
    elif not all(not isinstance(part, _EXPRESSIONS) for part in tree_nodes(node.test)):
        return False
    return all(map(_is_admitted, tree_nodes(*body)))


def _is_admitted(node: ast.AST) -> bool:
    """Whether the body of a loop may have a node of the syntax tree."""
    if isinstance(node, ast.For):
        return _is_target_of_names(node.target) and not node.orelse
    if isinstance(node, (ast.Break, ast.Continue)):
        return True  # of loops in it; they are looked at by themselves
    if isinstance(node, ast.Assign):
        return all(map(_is_target, node.targets))
    if isinstance(node, ast.AugAssign):
        return _is_target(node.target)
    if isinstance(node, ast.stmt):
        return isinstance(node, _STATEMENTS)
    return not isinstance(node, _EXPRESSIONS)


def _is_target_of_names(node: ast.expr) -> bool:
    """Whether something that is assigned to is a name, or names in tuples."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_target_of_names, node.elts))
    return isinstance(node, ast.Name)


def _is_target(node: ast.expr) -> bool:
    """Whether something that is assigned to is a name, a part of what a name stands for, or both.

    An attribute belongs to an object, which others may see.
    """
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_target, node.elts))
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name)
    return isinstance(node, ast.Name)


def _appends_to(node: ast.AST) -> str:
    """The name of the list that a statement appends an item to; "" for other statements."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return ""
    to = call.func
    if not isinstance(to, ast.Attribute) or to.attr != "append":
        return ""
    if not isinstance(to.value, ast.Name) or isinstance(call.args[0], ast.Starred):
        return ""
    return to.value.id


def _appended_to(function: ast.FunctionDef) -> dict[int, dict[str, bool]]:
    """Of each loop, by identity, the lists that are made before it and that it only appends to.

    One is a list of its own: between `name = [...]` and the loop, in one block, it is named where
    items are appended and nowhere else; in the loop where that is left by `return`, too. With each
    goes whether some iterations append nothing to it, other than those with which the loop ends.
    """
    found = {}
    for parent in tree_nodes(function):
        for block in (getattr(parent, field, []) for field in ("body", "orelse", "finalbody")):
            for place, loop in enumerate(block if isinstance(block, list) else []):
                if not isinstance(loop, _LOOPS):
                    continue
                own = list(nodes(loop.body))
                if names := dict.fromkeys(filter(None, map(_appends_to, own))):
                    named = Counter(n.id for n in tree_nodes(loop) if isinstance(n, ast.Name))
                    left = [each for each in own if isinstance(each, ast.Return)]
                    named.subtract(n.id for n in tree_nodes(*left) if isinstance(n, ast.Name))
                    each_time = {*map(_appends_to, loop.body)}
                    passes = any(isinstance(each, ast.Continue) for each in own)
                    found[id(loop)] = {
                        name: passes or name not in each_time
                        for name in names if named[name] == 1 and _is_own(name, block[:place])
                    }
    return found


def _is_own(name: str, before: Sequence[ast.stmt]) -> bool:
    """Whether a name stands for a list that is made in statements, and that nothing else sees."""
    for node in reversed(before):
        count = sum(isinstance(n, ast.Name) and n.id == name for n in tree_nodes(node))
        if isinstance(node, ast.Assign) and count == 1 and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            starred = any(isinstance(n, ast.Starred) for n in tree_nodes(node))
            return not starred and any(
                isinstance(target, ast.Name) and target.id == name and isinstance(value, ast.List)
                for target, value in pairs
            )
        if count and not (count == 1 and _appends_to(node) == name):
            return False
    return False


def _stored(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements assign to."""
    for node in tree_nodes(*body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def _loaded(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements read."""
    for node in tree_nodes(*body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
