"""All loop nests of a bound call, with everything prepared but addresses and scalars.

What a call does in Python: pack scalars, allocate results, look at every address once, then one
`pack_into` and one `cuLaunchKernel` for each loop nest. Nothing waits for the device, and memory
comes from CuPy's pool alone, so a call can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Sequence_
from functools import partial
from typing import TYPE_CHECKING, Any

from fuser.backends.gpu.step import Step
from fuser.runtime.launch import Launch, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.gpu.straight_call import Line


class Sequence:
    """A bound launch whose argument blocks are laid out once for each device."""

    def __init__(self, launch: Launch) -> None:
        """Prepare every kernel's arguments; `launch` must need no copies."""
        self._launch = launch
        self._backend = launch.backend
        self._device = launch.backend.device  # type: ignore[attr-defined]
        empty = launch.backend.empty
        self._fresh = [
            (e.name, partial(empty, e.shape, e.dtype) if e.order is None
             else partial(e.make, launch.backend))
            for e in launch.fresh
        ]  # fmt: skip
        self._scalars = any(s.scalars for group in launch.groups for _, s in group.sections)
        self._devices: dict[int, list[Step]] = {}
        self._steps_on(self._device.number())

    def _steps_on(self, number: int) -> list[Step]:
        """The loop nests with the kernels of the current device."""
        found = self._devices[number] = [
            Step(group.kernel, place, section)
            for group in self._launch.groups
            for place, section in group.sections
        ]
        return found

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
        device, backend = self._device, self._backend
        number = device.number()
        steps = self._devices.get(number) or self._steps_on(number)
        packed = [b""] * len(steps)
        if self._scalars:
            packed = [pack_scalars(s.scalars, numbers) if s.scalars else b"" for s in steps]
        for name, make_one in self._fresh:
            if name not in arrays:
                arrays[name] = make_one()
        places: dict[str | None, int] = backend.addresses(arrays, number)  # type: ignore[attr-defined]
        places[None] = 0
        stream = device.stream(number)
        status = 0
        for step, scalars in zip(steps, packed, strict=True):
            pointers = [places[name] + offset for name, offset in step.operands]
            if step.prepared is not None:
                step.prepared.enqueue(stream, pointers, scalars)
            else:
                status |= step.launch(backend, pointers, scalars)
        return status

    def straight(
        self,
        arrays: Mapping[str, tuple[int, Any]],
        numbers: Mapping[str, tuple[int, Any]],
        wanted: Sequence_[str],
        missed: Any,
        given: Mapping[str, tuple[int, Any]] | None = None,
    ) -> Line | None:
        """All of a call as one function of its arguments, where that can be written.

        Args:
            arrays: by name, the place of each array among the arguments, and one like it.
            numbers: likewise for Python numbers.
            wanted: names of the arrays that the function gives.
            missed: what it gives for other arguments.
            given: like `arrays`, for arrays to write into.
        """
        from fuser.backends.gpu.straight_call import write

        device = self._device
        number = device.number()
        steps = self._devices.get(number) or self._steps_on(number)
        functions = (number, device.number, device.stream)
        sizes = self._launch.sizes
        return write(
            steps, self._fresh, arrays, numbers, sizes, wanted, functions, missed, given or {}
        )


def make(launch: Launch) -> Sequence | None:
    """A sequence for a bound launch, or None where it needs steps in between."""
    if not launch.groups or launch.moves or any(group.copies for group in launch.groups):
        return None
    return Sequence(launch)
