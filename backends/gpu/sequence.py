"""All loop nests of a bound call, with everything prepared but addresses and scalars.

What a call does in Python: pack scalars, allocate results, take memory for all that lives during
the call at once, look at every address once, then one `pack_into` and one `cuLaunchKernel` for each
launch. Nothing waits for the device, and memory comes from CuPy's pool alone, so a call can be
captured in a CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Sequence_
from functools import partial
from typing import TYPE_CHECKING, Any

from fuser.backend import Compared, DeviceCall
from fuser.backends.gpu.step import Step, Steps, whole
from fuser.runtime.launch import Launch, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.gpu.straight_call import Line

#: Says that a call has to be looked at again: another device is current.
ELSEWHERE = 1


class Sequence(Steps):
    """A bound launch whose argument blocks are laid out once, for one device."""

    def __init__(self, launch: Launch) -> None:
        """Prepare every kernel's arguments; `launch` must need no copies."""
        self._launch = launch
        self._backend = launch.backend
        self._device = launch.backend.device  # type: ignore[attr-defined]
        self._number = self._device.number()
        empty = launch.backend.array_module.ndarray
        self.made = [
            (e.name, partial(empty, e.shape, e.dtype) if e.order is None
             else partial(e.make, launch.backend))
            for e in launch.fresh if e.name[0] == "o"
        ]  # fmt: skip
        self.rooms = {}
        taken = 0
        for entry in launch.fresh:
            if entry.name[0] != "o":
                self.rooms[entry.name] = taken
                taken += whole(math.prod(entry.shape) * entry.dtype.itemsize)
        self.steps, self.counters = [], 0
        for group in launch.groups:
            for place, section in group.sections:
                self.steps.append(Step(group.kernel, place, section, taken))
                taken += whole(section.extent.scratch_bytes)
                self.counters = max(self.counters, section.extent.counters)
        self.scratch_bytes = taken

    def run(self, arrays: dict[str, Any], numbers: Mapping[str, Any]) -> int:
        """Allocate outputs into `arrays` and enqueue every loop nest.

        Args:
            arrays: by buffer name: arguments and given outputs; filled with the results.
            numbers: values of scalars and lengths.

        Returns:
            0, or not 0 when a kernel met a value for which NumPy raises, or when nothing was done
            because another device is current.

        Raises:
            OverflowError: a Python integer does not fit the dtype that it meets.
            BackendError: an array is on another device than the current one, or misaligned.
        """
        device, backend = self._device, self._backend
        number = device.number()
        if number != self._number or backend.elsewhere(list(arrays.values())) is not None:
            return ELSEWHERE
        packed = [pack_scalars(s.scalars, numbers) if s.scalars else b"" for s in self.steps]
        for name, make_one in self.made:
            if name not in arrays:
                arrays[name] = make_one()
        places: dict[str | None, int] = backend.addresses(arrays, number)  # type: ignore[attr-defined]
        places[None] = 0
        stream = device.stream(number)
        scratch, keep = 0, None
        if self.scratch_bytes:
            scratch, keep = device.scratch(self.scratch_bytes, stream)
            places |= {name: scratch + offset for name, offset in self.rooms.items()}
        counters = device.counters(self.counters, stream, number) if self.counters else 0
        status = 0
        for step, scalars in zip(self.steps, packed, strict=True):
            words = [places[name] + offset for name, offset in step.operands]
            if step.scratch is not None:
                words = [scratch + step.scratch, counters, 0, *words]
            flag = step.flag() if step.flagged else None
            if flag is not None:
                words = [flag[0], *words]
            step.enqueue(stream, words, scalars)
            if flag is not None:
                status |= flag[1]()
        del keep
        return status

    def straight(
        self,
        arrays: Mapping[str, tuple[int | None, Any]],
        numbers: Mapping[str, tuple[int, Any]],
        wanted: Sequence_[str],
        missed: Any,
        given: Mapping[str, tuple[int, Any]] | None = None,
        adopted: Mapping[int, tuple[type, Callable[[Any], Any]]] | None = None,
        compared: Compared | None = None,
    ) -> Line | None:
        """All of a call as one function of its arguments, where that can be written.

        Args:
            arrays: by name, the place of each array among the arguments, and one like it; of one
                that is no argument, None, and the array.
            numbers: likewise for Python numbers.
            wanted: names of the arrays that the function gives.
            missed: what it gives for other arguments.
            given: like `arrays`, for arrays to write into.
            adopted: by place, of other libraries' arrays the class, and what gives one like
                those in `arrays`.
            compared: of calls whose arguments need no look: such a function gives their result.
        """
        from fuser.backends.gpu.straight_call import write

        sizes = self._launch.sizes
        return write(
            self, self._device, self._number, arrays, numbers, sizes, wanted, missed, given or {},
            adopted or {}, compared,
        )  # fmt: skip

    def natively(
        self, arrays: Mapping[str, tuple[int | None, Any]], numbers: Mapping[str, tuple[int, Any]],
        wanted: Sequence_[str], compared: Compared,
    ) -> DeviceCall | None:  # fmt: skip
        """The same as launches without Python, where they can be; arguments as for `straight`."""
        from fuser.backends.gpu.native_launch import device_call

        return device_call(
            self, self._device, self._number, arrays, numbers, self._launch.sizes, wanted, compared
        )


def make(launch: Launch) -> Sequence | None:
    """A sequence for a bound launch, or None where it needs steps in between."""
    if not launch.groups or launch.moves or any(group.copies for group in launch.groups):
        return None
    return Sequence(launch)
