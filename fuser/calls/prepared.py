"""What is known of calls whose shapes and strides are known exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuser.backend import MISSED as MISSED
from fuser.base import config
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.calls.specialisation import Call
from fuser.capture import captures


class Prepared(config.Standing):
    """What is known of calls with exactly these shapes and strides: only values differ."""

    def __init__(self, call: Call, guards: Sequence[tuple[str, Any]]) -> None:
        """Keep what does not change from call to call.

        Args:
            call: one that has been served.
            guards: (host expression, value) pairs; those of lengths alone hold for all such calls.
        """
        specialisation = call.specialisation
        super().__init__(specialisation.names)
        self._arrays = specialisation.array_leaves
        self._scalars = specialisation.scalar_leaves
        self._sizes = dict(call.sizes)
        fixed = self._sizes.keys()
        self._guards = [each for each in guards if not scalar_symbols(each[0]) <= fixed]
        self._count = len(self._arrays) + len(self._scalars)

    def _numbers(self, args: Sequence[Any]) -> dict[str, Any] | None:
        """Values of lengths and scalars by name, or None where a guard does not hold."""
        numbers = self._sizes
        if not self._scalars:
            return numbers
        numbers = numbers | {name: args[place] for name, place in self._scalars}
        for text, value in self._guards:
            if not captures.same_value(evaluate_scalar(text, numbers), value):
                return None
        return numbers


    def _one_function(
        self, call: Call, launch: Any, wanted: Sequence[str], given: Mapping[str, Any]
    ) -> Any:
        """All of it as one function of the arguments, where the backend writes that.

        Args:
            call: one that has been served.
            launch: what it ran.
            wanted: names of the results.
            given: by name, an array to write into: it comes after the arguments.
        """
        write = getattr(launch.sequence, "straight", None)
        if write is None or self._guards:
            return None
        arrays: dict[str, tuple[int | None, Any]]
        arrays = {name: (place, call.arrays[name]) for name, place in self._arrays}
        arrays |= {name: (None, array) for name, array in call.specialisation.captured.items()}
        numbers = {name: (place, call.numbers[name]) for name, place in self._scalars}
        targets = {name: (self._count, array) for name, array in given.items()}
        return write(arrays, numbers, wanted, MISSED, targets)
