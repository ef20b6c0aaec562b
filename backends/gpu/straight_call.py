"""A known call as one Python function, for arguments of known kinds, shapes and strides.

It compares the arguments with those that it was made for, unless the dispatcher has done so,
allocates results, writes the kernels' arguments in place and calls the driver: nothing is looked up
in between. What it does not know it leaves to the longer ways.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Compared
from fuser.backends.gpu.arguments import WORD, Arguments, Prepared
from fuser.base.generated import define
from fuser.base.host_expressions import scalar_symbols
from fuser.runtime.aliasing import reach
from fuser.runtime.launch import FORMATS, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.gpu.device import CudaDevice
    from fuser.backends.gpu.step import Step, Steps

#: Python integers up to here are floats without rounding.
_EXACT = 2**53

Line = Callable[..., Any]


def write(
    sequence: Steps,
    device: CudaDevice,
    here: int,
    arrays: Mapping[str, tuple[int | None, Any]],
    numbers: Mapping[str, tuple[int, Any]],
    sizes: Mapping[str, int],
    wanted: Sequence[str],
    missed: Any,
    given: Mapping[str, tuple[int, Any]],
    adopted: Mapping[int, tuple[type, Callable[[Any], Any]]],
    compared: Compared | None = None,
) -> Line | None:
    """Write the function of a call's arguments; None for what it has no lines for.

    Args:
        sequence: loop nests, prepared for the device.
        device: what launches.
        here: its number.
        arrays: by name, the place of each array among the arguments, and one like it; of one that
            is no argument, None, and the array.
        numbers: likewise for Python numbers.
        sizes: lengths by name: those of all such calls.
        wanted: names of the arrays that the function gives.
        missed: what the function gives for other arguments.
        given: like `arrays`, for arrays to write into, which may be arguments only where they are
            in this call.
        adopted: by place, of arguments that are other libraries' arrays the class, and what gives
            one like those in `arrays`.
        compared: of calls whose arguments need no look: such a function gives the call's result.
    """
    if not wanted or any(step.flagged for step in sequence.steps):
        return None
    # Lines have handles of kernels, which are unloaded when nobody has them.
    known: dict[str, Any] = {"MISSED": missed, "kept": [step.prepared for step in sequence.steps]}
    lines: list[str] = []
    places: dict[str | None, str] = {None: "0"}
    made: list[str] = []
    held: list[str] = []
    for name, (place, array) in (*arrays.items(), *given.items()):
        if isinstance(array, np.ndarray):  # a host that plays a device
            return None
        if place is None:
            known[name] = array  # the function reaches it by a name
        else:
            lines.append(f"{name} = {_argument(place, compared)}")
        if place is not None and place in adopted:
            library, take = adopted[place]
            theirs = _known(known, f"{name}_theirs", library)
            lines += [f"if type({name}) is not {theirs}: return MISSED",
                      f"{name} = {_known(known, f'{name}_take', take)}({name})"]  # fmt: skip
            held.append(name)
        if isinstance(array, np.generic):
            kind, scalar = _known(known, f"{name}_kind", type(array)), "scalar_of"
            if compared is None:
                lines.append(f"if type({name}) is not {kind}: return MISSED")
            known[scalar] = device.scalar
            made += [f"{name}_cell = {scalar}({name})", f"{name}_at = {name}_cell.data.ptr"]
        elif compared is None:
            lines.append(_unlike(name, array, known))
        places[name] = f"{name}_at"
    for name, (place, value) in numbers.items():
        kind = _known(known, f"{name}_kind", type(value))
        lines.append(f"{name} = {_argument(place, compared)}")
        if compared is None:
            lines.append(f"if type({name}) is not {kind}: return MISSED")
    known |= device.calls()
    packed: list[str] = []
    for number, step in enumerate(sequence.steps):
        found = _scalars(step, numbers, sizes, known, number)
        if found is None:
            return None
        lines += found[0]
        packed += found[1]
    lines.append(f"if current() != {here}: return MISSED")
    for name, (_, array) in (*arrays.items(), *given.items()):
        if isinstance(array, np.generic):
            continue
        if compared is not None:
            lines.append(f"{name}_at = {name}.data.ptr")
            continue
        odd = f" or {name}_at % {array.itemsize}" if array.itemsize > 1 else ""
        lines += [f"memory = {name}.data", f"{name}_at = memory.ptr",
                  f"if memory.device_id != {here}{odd}: return MISSED"]  # fmt: skip
    for name, (_, target) in given.items():
        for other, (_, array) in arrays.items():
            if compared is None and not isinstance(array, np.generic):
                lines.append(_apart(name, target, other, array))
    lines += [*_blocks(sequence.steps, known), *packed, *made]
    for name, make in sequence.made:
        places[name] = f"{name}_at"
        if name not in given:
            lines += [f"{name} = {_made(name, make, known)}", f"{name}_at = {name}.data.ptr"]
    lines.append(f"stream = stream_of({here}).ptr")
    if sequence.scratch_bytes:  # as `CudaDevice.scratch`
        lines += [
            f"kept = alloc({sequence.scratch_bytes})",
            "if stream and is_capturing(stream): captured(kept)",
            "scratch = kept.ptr",
        ]
        places |= {name: f"scratch + {offset}" for name, offset in sequence.rooms.items()}
    if sequence.counters:
        known["counters_of"] = device.counters
        lines.append(f"counters = counters_of({sequence.counters}, stream, {here})")
    for number, step in enumerate(sequence.steps):
        words = [f"{places[name]} + {offset}" if offset else places[name]
                 for name, offset in step.operands]  # fmt: skip
        if step.scratch is not None:
            heads = (f"scratch + {step.scratch}" if sequence.scratch_bytes else "0",
                     "counters" if sequence.counters else "0", "0")  # fmt: skip
            words = [*heads, *words]
        lines += _enqueued(step.prepared, number, words, known)
    if held:
        known["hold"] = device.hold
        lines.append(f"hold([{', '.join(held)}], stream)")
    lines.append("free.append(blocks)")
    if compared is None:
        lines.append(f"return ({', '.join(wanted)},)")
        return define("straight_call", ["args"], lines, known)
    parts = [*wanted, *[_argument(place, compared) for place in compared.leaves]]
    known["assembled"] = compared.function
    together = f"assembled({', '.join(parts)})"
    lines.append(f"return {wanted[0] if compared.function is None else together}")
    parameters = [_argument(place, compared) for place in range(compared.count)]
    return define("straight_call", parameters, lines, known)


def _argument(place: int, compared: Compared | None) -> str:
    """An argument of the call."""
    return f"args[{place}]" if compared is None else f"argument_{place}"


def _blocks(steps: Sequence[Step], known: dict[str, Any]) -> list[str]:
    """Take memory for the kernels' arguments: calls that threads make at once have their own."""
    templates = [step.prepared.template for step in steps]

    def fresh() -> tuple[Any, ...]:
        made = [Arguments(template) for template in templates]
        return (*[m.memory for m in made], *[m.list_address for m in made], made)

    known |= {"free": [], "fresh": fresh}
    names = [f"{name}_{k}" for name in ("block", "list") for k in range(len(steps))]
    return [
        "try: blocks = free.pop()",
        "except IndexError: blocks = fresh()",
        f"{', '.join(names)}, _ = blocks",
    ]


def _made(name: str, make: partial[Any], known: dict[str, Any]) -> str:
    """How an array is made."""
    if make.keywords:
        return f"{_known(known, f'{name}_make', make)}()"
    given = [_known(known, f"{name}_given{k}", value) for k, value in enumerate(make.args)]
    return f"{_known(known, f'{name}_make', make.func)}({', '.join(given)})"


def _enqueued(
    prepared: Prepared, number: int, words: Sequence[str], known: dict[str, Any]
) -> list[str]:
    """Write a loop nest's addresses and call the driver, once for each of its launches."""
    pack = _known(known, f"pack_{number}", struct.Struct(f"={prepared.heads}q").pack_into)
    grid, threads, shared = prepared.sizes
    asked = f"{prepared.handle}, {grid}, 1, 1, {threads}, 1, 1, {shared}, stream, list_{number}, 0"
    launch = [f"try: launch({asked})", f"except RuntimeError: again(launch, {asked})"]
    lines = [f"{pack}(block_{number}, 0, {', '.join(words)})", *launch]
    for phase in prepared.phases:
        known["pack_word"] = WORD.pack_into
        lines += [f"pack_word(block_{number}, {prepared.phase_at}, {phase})", *launch]
    return lines


def _known(known: dict[str, Any], name: str, value: Any) -> str:
    """Have the function know something by a name."""
    found = name.replace(".", "_")
    known[found] = value
    return found


def _unlike(name: str, array: Any, known: dict[str, Any]) -> str:
    """Give up for an array of another kind, dtype, shape or layout."""
    kind = _known(known, f"{name}_kind", type(array))
    dtype = _known(known, f"{name}_dtype", array.dtype)
    shape = _known(known, f"{name}_shape", tuple(array.shape))
    strides = _known(known, f"{name}_strides", tuple(array.strides))
    tests = [
        f"type({name}) is not {kind}",
        f"{name}.shape != {shape}",
        f"{name}.strides != {strides}",
        f"({name}.dtype is not {dtype} and {name}.dtype != {dtype})",
    ]
    return f"if {' or '.join(tests)}: return MISSED"


def _apart(name: str, target: Any, other: str, array: Any) -> str:
    """Give up where an array to write into shares memory with one that is read in another way."""
    if target.data.ptr == array.data.ptr and target.strides == array.strides:
        return f"if {name}_at != {other}_at: return MISSED"
    (low, high), (begin, end) = reach(target), reach(array)
    return f"if {-begin - high} < {name}_at - {other}_at < {end + low}: return MISSED"


def _scalars(
    step: Step,
    numbers: Mapping[str, tuple[int, Any]],
    sizes: Mapping[str, int],
    known: dict[str, Any],
    number: int,
) -> tuple[list[str], list[str]] | None:
    """Check a loop nest's scalars, and write them: arguments, expressions, what lengths tell.

    None for numbers that a dtype takes in another way than Python.
    """
    lines, packed = [], []
    for place, (text, dtype) in enumerate(step.scalars):
        at = step.prepared.scalars_at + 8 * place
        name = f"scalar_{number}_{place}"
        if scalar_symbols(text) <= sizes.keys():
            word = _known(known, name, pack_scalars([(text, dtype)], sizes))
            packed.append(f"block_{number}[{at}:{at + 8}] = {word}")
            continue
        if dtype.name not in FORMATS or not scalar_symbols(text) <= numbers.keys() | sizes.keys():
            return None
        if text not in numbers:  # an expression
            pack = _known(known, name, partial(pack_scalars, [(text, dtype)]))
            given = ", ".join(f"{symbol!r}: {symbol if symbol in numbers else sizes[symbol]}"
                              for symbol in sorted(scalar_symbols(text)))  # fmt: skip
            packed.append(f"block_{number}[{at}:{at + 8}] = {pack}({{{given}}})")
            continue
        kind = type(numbers[text][1])
        if kind is not (int if dtype.kind in "iu" else bool if dtype.kind == "b" else float):
            if kind is not int or dtype.kind != "f":
                return None
            lines.append(f"if not -{_EXACT} <= {text} <= {_EXACT}: return MISSED")
        pack = _known(known, name, struct.Struct(FORMATS[dtype.name]).pack_into)
        packed.append(f"{pack}(block_{number}, {at}, {text})")
    if not packed:
        return [], []
    known["Refused"] = (ArithmeticError, ValueError, struct.error)
    return lines, [
        f"try: {'; '.join(packed)}",
        "except Refused: return MISSED",
    ]
