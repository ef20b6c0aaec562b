"""Text becomes machine code; what is missing or refused is an error with its reason."""

from __future__ import annotations

import ctypes
import math
import sys

import pytest

from fuser.backend import CompileError
from fuser.backends.cpu.machine import arena, loader, target
from fuser.backends.cpu.machine.arena import Arena
from fuser.backends.cpu.machine.object_file import UnknownObjectError
from fuser.base import counters
from tests.backends.cpu.machine.test_arena import mappings
from tests.children import said

CALLS_COS = """
declare double @cos(double)
define double @twice(double %x) {
  %y = call double @cos(double %x)
  %z = fadd double %y, %y
  ret double %z
}
"""


def test_code_is_linked_and_runs() -> None:
    """An imported symbol is called at the address that was given."""
    code = loader.compile_object(CALLS_COS)
    library, (address,) = loader.load(code, ["twice"], loader.imports_of(CALLS_COS))
    twice = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    assert twice(0.5) == 2 * math.cos(0.5)
    del library


def test_functions_are_inlined_where_the_text_says_so() -> None:
    """No call of them is left; others stay functions."""
    text = """
define internal i64 @twice(i64 %x) alwaysinline {
  %y = add i64 %x, %x
  ret i64 %y
}

define i64 @four_times(i64 %x) {
  %y = call i64 @twice(i64 %x)
  %z = call i64 @twice(i64 %y)
  ret i64 %z
}
"""
    code = loader.compile_object(text)
    plain = loader.compile_object(text.replace(loader.INLINED, ") noinline {"))
    assert b"twice" not in code
    assert b"twice" in plain
    library, (address,) = loader.load(code, ["four_times"], [])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(5) == 20
    del library


def test_text_that_llvm_refuses() -> None:
    """A type error in the text is a compile error that keeps LLVM's message."""
    text = "define float @f(double %x) {\n  ret float %x\n}"
    with pytest.raises(CompileError, match="double") as caught:
        loader.compile_object(text)
    assert caught.value.code == "compile-failed"


def test_symbol_that_the_machine_lacks() -> None:
    """A declared import without an address is named; nothing is linked."""
    text = CALLS_COS.replace("cos", "no_such_function")
    with pytest.raises(CompileError, match="no_such_function") as caught:
        loader.load(loader.compile_object(text), ["twice"], loader.imports_of(text))
    assert caught.value.code == "missing-symbol"


def test_call_of_a_function_that_is_nowhere() -> None:
    """Though no import says so: an unresolved call is an error, never a jump to null."""
    text = CALLS_COS.replace("cos", "no_such_function")
    with pytest.raises(CompileError, match="linking failed") as caught:
        loader.load(loader.compile_object(text), ["twice"], [])
    assert caught.value.code == "missing-symbol"


def test_function_that_the_code_lacks() -> None:
    """A kernel without the function that was promised is an error at load."""
    with pytest.raises(CompileError) as caught:
        loader.load(loader.compile_object(CALLS_COS), ["thrice"], ["cos"])
    assert caught.value.code == "missing-symbol"


def test_what_is_not_understood_is_linked_by_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, and results are the same."""
    code = loader.compile_object(CALLS_COS)

    def refuse(*_: object) -> None:
        raise UnknownObjectError("nothing is")

    before = counters.value("linked_by_llvm")
    with monkeypatch.context() as change:
        change.setattr(loader, "ObjectFile", refuse)
        library, (address,) = loader.load(code, ["twice"], ["cos"])
        assert counters.value("linked_by_llvm") == before + 1
        with pytest.raises(CompileError, match="linking failed"):
            loader.load(code, ["thrice"], ["cos"])
    twice = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    assert twice(0.5) == 2 * math.cos(0.5)
    del library


def test_refused_memory_never_reaches_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its linker ends the process where memory is refused: neither way is it asked."""
    code = loader.compile_object(CALLS_COS)
    before = counters.value("linked_by_llvm")

    def fail(*_: object) -> None:
        raise OSError(13, "Permission denied")

    for owner, name in ((Arena, "take"), (arena, "_protect")):
        with monkeypatch.context() as change:
            change.setattr(owner, name, fail)
            for known in (True, False):
                if not known:
                    change.setattr(arena, "arena", lambda: None)
                    change.setattr(arena, "_protect", fail)
                with pytest.raises(CompileError, match="executable memory") as caught:
                    loader.load(code, ["twice"], ["cos"])
                assert caught.value.code == "backend-unavailable"
    assert counters.value("linked_by_llvm") == before


@pytest.mark.skipif(not arena.supported(), reason="LLVM links on this platform")
def test_thousands_of_kernels_are_few_mappings() -> None:
    """Loaded, some kept, some dropped: far from what a process may have."""
    code, before = loader.compile_object(CALLS_COS), mappings()
    kept = []
    for number in range(4000):
        library, _ = loader.load(code, ["twice"], ["cos"])
        if number % 4:
            kept.append(library)
    assert mappings() - before < 16


def test_assembly_shows_the_functions() -> None:
    """For this processor, and for one that is named."""
    for machine in (None, target.cross_machine("baseline")):
        assert "twice:" in loader.assembly(CALLS_COS, machine)


def test_runtime_symbols_are_on_this_machine() -> None:
    """Every symbol that code may call unasked is one of the C library's."""
    known = {name for name in loader.RUNTIME_SYMBOLS if target.address_of(name) is not None}
    assert set(loader.RUNTIME_SYMBOLS) - known <= {"roundeven", "roundevenf"}  # since C23


@pytest.mark.skipif(sys.platform != "linux", reason="fills the address space as Linux lays it out")
def test_memory_that_is_free_in_single_pages_far_apart() -> None:
    """Code and its constants stay within reach of each other, whatever else is mapped."""
    module = "tests.backends.cpu.scattered_memory"
    assert said("-m", module, environment={"FUSER_CACHE": "off"}) == "loaded\n"


def test_long_texts_are_optimised_by_few_passes() -> None:
    """All of them close a sum of consecutive numbers; the few keep its loop, without memory."""
    text = loader.OPTIMISED + """\
define i64 @f(i64 %n) {
  %total = alloca i64
  store i64 0, ptr %total
  br label %loop
loop:
  %k = phi i64 [0, %0], [%next, %loop]
  %old = load i64, ptr %total
  %new = add i64 %old, %k
  store i64 %new, ptr %total
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %result = load i64, ptr %total
  ret i64 %result
}
"""
    whole, few = (loader.shown(each, "optimized") for each in (
        text, text + ";\n" * loader.OPTIMISED_LINES,
    ))  # fmt: skip
    assert "alloca" not in whole + few
    assert ("phi" in whole, "phi" in few) == (False, True)
