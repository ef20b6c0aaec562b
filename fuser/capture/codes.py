"""Code objects of functions that are traced: what is in them, and what other code stands for."""

from __future__ import annotations

import dis
from types import CodeType

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
#: Names by which a function may look at its own variables.
_LOOKING = frozenset("locals vars eval exec dir globals".split())


@record
class Original:
    """The code that a twin stands for; it is the last of the twin's constants."""

    code: CodeType


def may_have_twin(code: CodeType) -> bool:
    """Whether a function has loops, and does not look at its own variables."""
    return has_loops(code) and _LOOKING.isdisjoint(code.co_names)


@memo(1024)
def has_loops(code: CodeType) -> bool:
    """Whether some instruction goes back to an earlier one."""
    return not _BACKWARDS.isdisjoint(code.co_code[::2])  # an argument follows each


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
