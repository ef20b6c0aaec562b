"""LLVM IR text to machine code to callable functions.

Object files are linked here where they and the platform are known (`object_file`, `arena`); what
is not understood goes through LLVM's own linker, LLJIT. The code is the same either way.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fuser.backend import CompileError
from fuser.backends.cpu import shared_functions
from fuser.backends.cpu.body import UNROLLED
from fuser.backends.cpu.machine import arena, host, target
from fuser.backends.cpu.machine.object_file import ObjectFile, UnknownObjectError
from fuser.base import counters, disk_cache, forks
from fuser.base.caches import memo
from fuser.base.timeline import phase

#: What the code generator may call without the text saying so (wide copies, missing
#: instructions on old processors).
RUNTIME_SYMBOLS = (
    "memcpy", "memset", "memmove", "floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint",
    "rintf", "fma", "fmaf", "roundeven", "roundevenf", "fmod", "fmodf",
)  # fmt: skip

_jit: Any = None
_shared_lock = forks.lock()
_lock = forks.lock()
_numbers = itertools.count()


def parse(text: str) -> Any:
    """Parse and verify one module.

    Raises:
        CompileError: LLVM does not accept the text, or cannot be loaded.
    """
    llvm = compiler()
    target.initialise()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError("compile-failed", f"LLVM refused the module: {error}") from None
    return module


def compiler() -> Any:
    """LLVM, where there is room for it and its work.

    Raises:
        CompileError: there is none.
    """
    try:
        llvm = host.library()
    except (ImportError, OSError) as error:
        raise CompileError("backend-unavailable", host.missing(error)) from None
    arena.require_room(arena.COMPILE_BYTES)
    return llvm


def to_object(text: str, quick: bool = False) -> bytes:
    """Machine code of a module for this processor: an object file's bytes.

    From the disk cache where it is there; else verified, compiled and kept.

    Args:
        text: LLVM IR.
        quick: compile in a fifth of the time, to code that is slower.
    """
    environment = target.environment()
    with phase("disk"):
        key = disk_cache.key_of(text, environment, quick)
        known = disk_cache.read(key)
    if known is not None:
        counters.count("disk_hits")
        return known
    code = _compiled(text, environment, quick)
    with phase("disk"):
        disk_cache.write(key, code)
    return code


@memo(32)
def _compiled(text: str, environment: bytes, quick: bool) -> bytes:
    """As `compile_object`: steps that are unrolled have the same kernels, without a disk, too."""
    return compile_object(text, quick)


def compile_object(text: str, quick: bool = False) -> bytes:
    """Verify and compile a module, whatever is cached."""
    with phase("parse"):
        module = parse(text)
    machine = target.target_machine(quick)
    with phase("llvm"):
        return bytes(machine.emit_object(_made_ready(module, text, machine)))


def _made_ready(module: Any, text: str, machine: Any) -> Any:
    """A module of a text with the passes run that the text wants, for a machine."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if INLINED in text:
        _inline(module, machine)
    if UNROLLED in text:
        _unroll(module, machine)
    if text.startswith(OPTIMISED):
        _optimise(module, machine, text.count("\n"))
    return module


#: What a text calls functions whose calls it wants replaced by their bodies.
INLINED = ") alwaysinline {"


#: What a text begins with that all of LLVM's own passes are to optimise: scalar code of loops.
OPTIMISED = "; optimised by LLVM\n"


#: Lines of a text up to which its loops are unrolled: that takes a third of a compiler's time.
UNROLLED_LINES = 4_000
#: Lines of a text up to which all passes run: two calls of a helper of three loops are 15,000. All
#: take 2.6 s of a first call for them, the few that matter most 0.3 s, for code 1.3 times as slow.
OPTIMISED_LINES = 8_000


def _optimise(module: Any, machine: Any, lines: int) -> None:
    """Run LLVM's passes of its second level, or those that matter most."""
    llvm = compiler()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.loop_interleaving = options.slp_vectorization = True
    options.loop_unrolling = lines <= UNROLLED_LINES
    builder = llvm.create_pass_builder(machine, options)
    if lines <= OPTIMISED_LINES:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def _unroll(module: Any, machine: Any) -> None:
    """Unroll the loops of functions that want it."""
    llvm = compiler()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_loop_simplify_pass()
    passes.add_loop_rotate_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_unroll_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if any(UNROLLED.encode() in each for each in function.attributes):
            passes.run(function, builder)


def _inline(module: Any, machine: Any) -> None:
    """Replace calls of functions that a text wants inlined, and simplify what that gives."""
    llvm = compiler()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def assembly(text: str, machine: Any | None = None) -> str:
    """Assembly of a module, for this processor unless a machine is given."""
    chosen = target.target_machine() if machine is None else machine
    return str(chosen.emit_assembly(_made_ready(parse(text), text, chosen)))


def shown(text: str, kind: str) -> str:
    """A module as `Kernel.text` shows it: LLVM IR ("source", "optimized") or "asm".

    Raises:
        ValueError: it is none of these.
    """
    if kind == "optimized" and text.startswith(OPTIMISED):
        return str(_made_ready(parse(text), text, target.target_machine()))
    if kind in ("source", "optimized"):
        return text
    if kind == "asm":
        return assembly(text)
    raise ValueError(f"the CPU backend has no {kind!r} text; use source, optimized or asm")


def load(code: bytes, exports: Sequence[str], imports: Sequence[str]) -> tuple[Any, list[int]]:
    """Link an object file into the process.

    Args:
        code: an object file.
        exports: functions to look up.
        imports: external symbols that the code needs.

    Returns:
        What keeps the code alive, and the addresses of `exports`.

    Raises:
        CompileError: a symbol is missing on this machine, or no memory may be executed.
    """
    known = {symbol: _address(symbol) for symbol in imports}
    with phase("load"):
        return _placed(code, exports, known) or _linked(code, exports, known)


def imports_of(text: str) -> tuple[str, ...]:
    """External symbols that a module declares, intrinsics aside."""
    declared = (part.partition("@")[2] for part in f"\n{text}".split("\ndeclare ")[1:])
    names = (part.partition("(")[0] for part in declared)
    return tuple(name for name in names if not name.startswith("llvm."))


_keep: list[Any] = []


def load_forever(
    text: str, exports: tuple[str, ...], quick: bool = False
) -> dict[str, int]:
    """Compile a module whose code outlives the interpreter's own shutdown: never unloaded.

    Other libraries may hold its addresses (NumPy frees arrays after our module is gone), so the
    objects that own the code get a reference that is never given back.

    Args:
        text: LLVM IR.
        exports: names to look up.
        quick: compile sooner, to slower code: for what runs a few times a call at most.

    Returns:
        Addresses by name.
    """
    library, addresses = load(to_object(text, quick), exports, imports_of(text))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    _keep.append(library)
    return dict(zip(exports, addresses, strict=True))


def _address(symbol: str) -> int:
    """Where a function of the C library, or of our own, is."""
    found = shared_address(symbol) or target.address_of(symbol)
    if found is None:
        raise CompileError("missing-symbol", f"this machine's C library has no {symbol}")
    return found


def shared_address(name: str) -> int | None:
    """The address of one of the functions that all kernels share; None for other symbols."""
    if not name.startswith(shared_functions.PREFIXES):
        return None
    with _shared_lock:
        return _shared_address(name)


@cache
def _shared_address(name: str) -> int:
    """Compile and load one of the shared functions for this processor."""
    text = shared_functions.module_text(name, target.host_features())
    assert text is not None
    return load_forever(text, (name,))[name]


def _placed(
    code: bytes, exports: Sequence[str], known: Mapping[str, int]
) -> tuple[Any, list[int]] | None:
    """Link an object file into memory of our own; None where LLVM has to."""
    memory = arena.arena()
    if memory is None:
        return None
    try:
        file = ObjectFile(code)
        addresses = {symbol: _external(symbol, known) for symbol in file.externals}
        missing = [name for name in exports if name not in file.exports]
        if missing:
            raise CompileError("missing-symbol", f"linking failed: no {', '.join(missing)}")
        block = memory.take(file.size_bytes)
        block.fill(file.linked_at(block.address, addresses), file.fixed_bytes)
    except UnknownObjectError:
        return None
    except OSError as error:
        raise CompileError("backend-unavailable", arena.told(error)) from None
    return block, [block.address + file.exports[name] for name in exports]


def _external(symbol: str, known: Mapping[str, int]) -> int:
    """The address of what a file needs from outside."""
    address = known.get(symbol)
    if address is None and symbol in RUNTIME_SYMBOLS:
        address = target.address_of(symbol)
    if address is None:
        raise CompileError("missing-symbol", f"linking failed: {symbol} is nowhere")
    return address


def _linked(
    code: bytes, exports: Sequence[str], known: Mapping[str, int]
) -> tuple[Any, list[int]]:
    """Link an object file by LLVM, which ends the process where memory is refused."""
    global _jit
    if (refused := arena.refusal()) is not None:
        raise CompileError("backend-unavailable", refused)
    llvm = compiler()
    counters.count("linked_by_llvm")
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    runtime = {symbol: target.address_of(symbol) for symbol in RUNTIME_SYMBOLS}
    for symbol, address in {**runtime, **known}.items():
        if address is not None:
            builder.import_symbol(symbol, address)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        if _jit is None:
            # JITLink gives a module one piece of memory. The older linker takes it section by
            # section, and ends the process where they lie too far apart for the small code model.
            _jit = llvm.create_lljit_compiler(target.target_machine(), use_jit_link=True)
        try:
            library = builder.link(_jit, f"fuser{next(_numbers)}")
        except RuntimeError as error:
            raise CompileError("missing-symbol", f"linking failed: {error}") from None
        # What is kept alive is the linker, then what it linked.
        return (_jit, library), [library[name] for name in exports]
