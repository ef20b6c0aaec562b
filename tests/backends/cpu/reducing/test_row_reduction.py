"""Rows one by one: what the last stage asks for beforehand."""

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.reducing.row_reduction import AHEAD_BYTES, LINE_BYTES
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.schedules import AWAITED, batch

ROWS = TensorDesc("float64", CONTIGUOUS, False, STRIDED)
WEIGHT = TensorDesc("float64", CONTIGUOUS, False, INVARIANT)
RESULT = TensorDesc("float64", INVARIANT, False, CONTIGUOUS)


def _nest(*operations: tuple[str, tuple[int, ...]], store: TensorDesc = RESULT) -> LoopNest:
    """A nest over the rows of one array and a weight for each column."""
    body = tuple(Instruction(op, operands, "float64", "float64") for op, operands in operations)
    return LoopNest(2, (ROWS, WEIGHT), (), (), body, ((1 + len(body), store),), False, "row", 1)


def _asked(nest: LoopNest, schedule: Schedule = DEFAULT) -> int:
    """Calls that ask for memory."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, nest, "k", schedule)
    return sum("call void @llvm.prefetch" in line for line in module.text().splitlines())


def test_a_last_stage_asks_for_the_next_row() -> None:
    """Each line of its turn once, of what has a row for each; no other stage or form."""
    spread = (("sum", (0,)), ("subtract", (0, 2)), ("multiply", (3, 1)), ("sum", (4,)))
    assert _asked(_nest(*spread)) == 4 * 64 // LINE_BYTES
    assert not _asked(_nest(*spread), AWAITED)
    assert not _asked(_nest(*spread), batch(16))
    assert _asked(_nest(*spread[:3], store=ROWS))


def test_a_stage_alone_asks_for_what_lies_ahead() -> None:
    """A page ahead, once for each line: of what has a row for each, not of the weights."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, _nest(("multiply", (0, 1)), ("sum", (2,))), "k", DEFAULT)
    assert _asked(_nest(("multiply", (0, 1)), ("sum", (2,)))) == 4 * 64 // LINE_BYTES
    assert f"i64 {AHEAD_BYTES}\n" in module.text()
