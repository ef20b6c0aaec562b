"""A known call as one Python function, for arguments of known kinds, shapes and strides.

It compares the arguments with those that it was made for, allocates results, and launches: nothing
is looked up in between. What it does not know it leaves to the longer ways.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base.generated import define
from fuser.base.host_expressions import scalar_symbols
from fuser.runtime.launch import FORMATS, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.gpu.device import CudaDevice
    from fuser.backends.gpu.step import Steps

#: Python integers up to here are floats without rounding.
_EXACT = 2**53

Line = Callable[[tuple[Any, ...]], Any]


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
    """
    if not wanted or any(step.flagged for step in sequence.steps):
        return None
    known: dict[str, Any] = {"MISSED": missed, "current": device.number,
                             "stream_of": device.stream}  # fmt: skip
    lines: list[str] = []
    places: dict[str | None, str] = {None: "0"}
    made: list[str] = []
    for name, (place, array) in (*arrays.items(), *given.items()):
        if isinstance(array, np.ndarray):  # a host that plays a device
            return None
        if place is None:
            known[name] = array  # the function reaches it by a name
        else:
            lines.append(f"{name} = args[{place}]")
        if isinstance(array, np.generic):
            kind, scalar = _known(known, f"{name}_kind", type(array)), "scalar_of"
            lines.append(f"if type({name}) is not {kind}: return MISSED")
            known[scalar] = device.scalar
            made += [f"{name}_cell = {scalar}({name})", f"{name}_at = {name}_cell.data.ptr"]
        else:
            lines.append(_unlike(name, array, known))
        places[name] = f"{name}_at"
    for name, (place, value) in numbers.items():
        kind = _known(known, f"{name}_kind", type(value))
        lines += [f"{name} = args[{place}]", f"if type({name}) is not {kind}: return MISSED"]
    for number, step in enumerate(sequence.steps):
        packed = _packed(step.scalars, numbers, sizes, known, number)
        if packed is None:
            return None
        lines += packed
    lines.append(f"if current() != {here}: return MISSED")
    for name, (_, array) in (*arrays.items(), *given.items()):
        if isinstance(array, np.generic):
            continue
        odd = f" or {name}_at % {array.itemsize}" if array.itemsize > 1 else ""
        lines += [f"memory = {name}.data", f"{name}_at = memory.ptr",
                  f"if memory.device_id != {here}{odd}: return MISSED"]  # fmt: skip
    for name, (_, target) in given.items():
        for other, (_, array) in arrays.items():
            if not isinstance(array, np.generic):
                lines.append(_apart(name, target, other, array))
    lines += made
    for name, make in sequence.made:
        places[name] = f"{name}_at"
        if name not in given:
            maker = _known(known, f"{name}_make", make)
            lines += [f"{name} = {maker}()", f"{name}_at = {name}.data.ptr"]
    lines.append(f"stream = stream_of({here})")
    if sequence.scratch_bytes:
        known["scratch_of"] = device.scratch
        lines.append(f"scratch, kept = scratch_of({sequence.scratch_bytes}, stream)")
        places |= {name: f"scratch + {offset}" for name, offset in sequence.rooms.items()}
    for number, step in enumerate(sequence.steps):
        words = [f"{places[name]} + {offset}" if offset else places[name]
                 for name, offset in step.operands]  # fmt: skip
        if step.scratch is not None:
            words = [f"scratch + {step.scratch}" if sequence.scratch_bytes else "0", "0", *words]
        enqueue = _known(known, f"enqueue_{number}", step.enqueue)
        scalars = f"packed_{number}" if step.scalars else "b''"
        lines.append(f"{enqueue}(stream, [{', '.join(words)}], {scalars})")
    lines.append(f"return ({', '.join(wanted)},)")
    return define("straight_call", ["args"], lines, known)


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
    (first, last), (begin, end) = _reach(target), _reach(array)
    return f"if {begin - last} < {name}_at - {other}_at < {end - first}: return MISSED"


def _reach(array: Any) -> tuple[int, int]:
    """The bytes that an array's elements lie in, from the address of the first one."""
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    lowest = sum(step for step in steps if step < 0)
    return lowest, sum(step for step in steps if step > 0) + array.itemsize


def _packed(
    scalars: Sequence[tuple[str, np.dtype[Any]]],
    numbers: Mapping[str, tuple[int, Any]],
    sizes: Mapping[str, int],
    known: dict[str, Any],
    number: int,
) -> list[str] | None:
    """Pack the scalars of a loop nest: arguments as they are, and what lengths tell.

    None for other expressions, and for numbers that a dtype takes in another way than Python.
    """
    lines, parts = [], []
    for place, (text, dtype) in enumerate(scalars):
        name = f"scalar_{number}_{place}"
        if scalar_symbols(text) <= sizes.keys():
            parts.append(_known(known, name, pack_scalars([(text, dtype)], sizes)))
            continue
        if text not in numbers or dtype.name not in FORMATS:
            return None
        kind = type(numbers[text][1])
        if kind is not (int if dtype.kind in "iu" else bool if dtype.kind == "b" else float):
            if kind is not int or dtype.kind != "f":
                return None
            lines.append(f"if not -{_EXACT} <= {text} <= {_EXACT}: return MISSED")
        pack = _known(known, name, struct.Struct(FORMATS[dtype.name]).pack)
        parts.append(f"{pack}({text})")
    if not parts:
        return []
    known["Refused"] = (OverflowError, struct.error)
    return [
        *lines,
        f"try: packed_{number} = {' + '.join(parts)}",
        "except Refused: return MISSED",
    ]
