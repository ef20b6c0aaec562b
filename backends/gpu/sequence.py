"""All loop nests of a bound call, with everything prepared but addresses and scalars."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from fuser.launch import Launch, pack_scalars


class Sequence:
    """A bound launch whose argument blocks are laid out once."""

    def __init__(self, launch: Launch) -> None:
        """Prepare every kernel's arguments; `launch` must need no copies."""
        self._backend = launch.backend
        self._fresh = launch.fresh
        self._steps = [
            (
                group.kernel.launch,
                number,
                struct.Struct(f"={len(section.operands)}Q").pack,
                section.operands,
                section.rest,
                section.scalars,
                section.extent,
            )
            for group in launch.groups
            for number, section in group.sections
        ]

    def run(self, arrays: dict[str, Any], numbers: Mapping[str, Any]) -> int:
        """Allocate outputs into `arrays` and enqueue every loop nest.

        Args:
            arrays: by buffer name: arguments and given outputs; filled with the rest.
            numbers: values of scalars and lengths.

        Returns:
            0, or not 0 when a kernel met a value for which NumPy raises.

        Raises:
            OverflowError: a Python integer does not fit the dtype that it meets.
            BackendError: an array is on another device than the current one, or misaligned.
        """
        scalars = [pack_scalars(step[5], numbers) if step[5] else b"" for step in self._steps]
        for entry in self._fresh:
            if entry.name not in arrays:
                arrays[entry.name] = entry.make(self._backend)
        address = self._backend.address
        places = {name: address(array) for name, array in arrays.items()}
        status = 0
        for (launch, number, pack, operands, rest, _, extent), values in zip(
            self._steps, scalars, strict=True
        ):
            pointers = [places[name] + offset for name, offset in operands]
            status |= launch(number, pack(*pointers) + rest + values, extent)
        return status


def make(launch: Launch) -> Sequence | None:
    """A sequence for a bound launch, or None where it needs steps in between."""
    if not launch.groups or any(group.copies for group in launch.groups):
        return None
    return Sequence(launch)
