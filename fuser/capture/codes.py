"""Code objects of functions that are traced: what is in them, and what other code stands for."""

from __future__ import annotations

import builtins
import dis
import operator
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from fuser.base.caches import memo
from fuser.base.records import record

#: The twin's global name of what makes the object of a loop; no name of a user's has a blank.
LOOPS = "fused loops"
#: What it is told instead of a loop, to keep what a loop goes over: `zip`, with its arguments.
WALK = "walk"
#: Instructions that go back, or over what is iterated.
_BACKWARDS = frozenset(
    code for name, code in dis.opmap.items() if "BACKWARD" in name or name == "FOR_ITER"
)
#: A loop of a number of iterations that is known is unrolled where all of them together have no
#: more operations: they may become one kernel.
UNROLLED_OPERATIONS = 1024
#: Instructions of arithmetic, and what else the body of a loop has that is nothing but arithmetic
#: of names.
_OPERATIONS = frozenset(
    name for name in dis.opmap if name == "COMPARE_OP" or name.startswith(("BINARY_OP", "UNARY_"))
)
#: Instructions that put a constant on the stack.
CONSTANTS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
_ARITHMETIC = _OPERATIONS | CONSTANTS | frozenset(
    "LOAD_FAST LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_DEREF "
    "LOAD_GLOBAL STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST SWAP NOP NOT_TAKEN TO_BOOL "
    "BUILD_TUPLE JUMP_FORWARD POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE "
    "POP_JUMP_FORWARD_IF_TRUE".split()
)  # fmt: skip
#: Arithmetic of the numbers of a range.
_KNOWN = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}
#: Names by which a function may look at its own variables.
_LOOKING = frozenset("locals vars eval exec dir globals".split())
_IS_OP = dis.opmap["IS_OP"]


@record
class Original:
    """The code that a twin stands for; it is the last of the twin's constants."""

    code: CodeType


def may_have_twin(code: CodeType) -> bool:
    """Whether a function has loops, and does not look at its own variables."""
    lists = any(part.co_name == "<listcomp>" for part in codes_in(code))  # before CPython 3.12
    return (has_loops(code) or lists) and _LOOKING.isdisjoint(code.co_names)


@memo(1024)
def has_loops(code: CodeType) -> bool:
    """Whether some instruction goes back to an earlier one."""
    return not _BACKWARDS.isdisjoint(code.co_code[::2])  # an argument follows each


def has_short_loops(function: FunctionType) -> bool:
    """Whether all loops of a function are over ranges of known numbers, with few operations.

    It asks the bytecode, whose names Python's versions change: where one is not known it says no.
    The numbers are constants, globals and cells that hold an int, and arithmetic of them. A body is
    arithmetic of names; it may choose values (`a if c else b`), and decides no statement.

    Args:
        function: that has loops.
    """
    if getattr(builtins, "range", None) is not range or "range" in function.__globals__:
        return False
    steps = list(dis.get_instructions(function.__code__))
    place = {step.offset: k for k, step in enumerate(steps)}
    inside = 0  # where the body ends that a step stands in
    for k, step in enumerate(steps):
        if step.opname == "FOR_ITER" and k >= inside:
            inside = place[step.argval]
            operations = _operations_of(steps[k + 1 : inside], step.offset)
            if not 0 < operations * _turns(steps[:k], function) <= UNROLLED_OPERATIONS:
                return False
        elif k >= inside and step.opcode in _BACKWARDS:
            return False
    return True


def _operations_of(body: list[dis.Instruction], start: int) -> int:
    """The operations of one iteration that is nothing but arithmetic of names; 0 for others.

    Args:
        body: of a loop.
        start: where its last instruction has to go.
    """
    *work, last = body
    if last.opname != "JUMP_BACKWARD" or last.argval != start:
        return 0
    chosen = 0  # before that offset a value is chosen
    for step in work:
        if step.opname not in _ARITHMETIC or (step.offset < chosen and "STORE" in step.opname):
            return 0
        if step.opname == "LOAD_GLOBAL" and (step.arg or 0) & 1:  # it is called
            return 0
        if step.opname == "BINARY_OP" and step.argrepr == "[]":
            return 0
        if "JUMP" in step.opname:
            chosen = max(chosen, step.argval)
    return sum(step.opname in _OPERATIONS for step in work) if chosen <= last.offset else 0


def _turns(before: list[dis.Instruction], function: FunctionType) -> int:
    """How often a loop runs over `range(…)`, which stands before it; 0 where that is not known."""
    ranges = [k for k, step in enumerate(before)
              if step.opname == "LOAD_GLOBAL" and step.argval == "range"]  # fmt: skip
    numbers: list[Any] = []
    for step in before[ranges[-1] + 1 :] if ranges else ():
        if step.opname in (*CONSTANTS, "LOAD_GLOBAL", "LOAD_DEREF"):
            numbers.append(_number(step, function))
            if type(numbers[-1]) is not int:
                return 0
        elif step.opname == "BINARY_OP" and step.argrepr in _KNOWN and len(numbers) > 1:
            second, first = numbers.pop(), numbers.pop()
            if not second and step.argrepr == "//":
                return 0
            numbers.append(_KNOWN[step.argrepr](first, second))
        elif step.opname not in ("PRECALL", "CALL", "GET_ITER"):
            return 0
    called = [step.opname for step in before[-2:]] == ["CALL", "GET_ITER"]
    if not called or before[-2].arg != len(numbers) or not 0 < len(numbers) < 4:
        return 0
    if 0 in numbers[2:] or any(abs(number) > UNROLLED_OPERATIONS for number in numbers):
        return 0
    return len(range(*numbers))


def _number(step: dis.Instruction, function: FunctionType) -> Any:
    """What an instruction loads; None where that is not known."""
    if step.opname in CONSTANTS:
        return step.argval
    if step.opname == "LOAD_GLOBAL":
        return function.__globals__.get(step.argval)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    try:
        return cells[step.argval].cell_contents
    except (KeyError, ValueError):  # a cell of its own, or one that is empty
        return None


def calling(code: CodeType, name: str, other: str) -> CodeType:
    """The code with another global name for one that it does nothing with but call what it names.

    Args:
        code: of a function, or of a twin.
        name: a name that the code may have.
        other: the name that it has in its place.
    """
    return _calling(code, name, other, code.co_filename)


@memo(1024)
def _calling(code: CodeType, name: str, other: str, _: str) -> CodeType:
    """As `calling`; see `_staged`."""
    uses = [step for step in dis.get_instructions(code)
            if step.opcode in dis.hasname and step.argval == name]  # fmt: skip
    if not uses or any(step.opname != "LOAD_GLOBAL" or not (step.arg or 0) & 1 for step in uses):
        return code  # the last bit of LOAD_GLOBAL says that a call follows
    names = tuple(other if each == name else each for each in code.co_names)
    last = (Original(code),) if plain(code) is code else ()
    return code.replace(co_names=names, co_consts=(*code.co_consts, *last))


def plain(code: CodeType) -> CodeType:
    """The code that a twin stands for; other code itself."""
    last = code.co_consts[-1] if code.co_consts else None
    return last.code if type(last) is Original else code


def codes_in(code: CodeType) -> list[CodeType]:
    """A function's code, and that of functions inside it."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [code, *(each for part in inner for each in codes_in(part))]


def right_of_is(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions before each `is` in a function, and in those inside it."""
    for part in codes_in(code):
        steps = list(dis.get_instructions(part)) if _IS_OP in part.co_code[::2] else []
        for before, step in pairwise(steps):
            if step.opname == "IS_OP":
                yield before


@memo(1024)
def compares_identity(code: CodeType) -> bool:
    """Whether a function may ask for the identity of anything but None, True and False."""
    return not all(map(is_constant, right_of_is(code)))


def is_constant(step: Any, known: tuple[Any, ...] = (None, True, False)) -> bool:
    """Whether an instruction puts None, True or False on the stack."""
    return step.opname == "LOAD_CONST" and any(step.argval is each for each in known)
