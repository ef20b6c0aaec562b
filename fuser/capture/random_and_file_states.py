"""States of what is drawn or read from: random generators and files, which a trace puts back."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fuser.base.packages import loaded
from fuser.base.protocols import is_a

#: What every file is: of others, the abstract class would have to be asked.
_FILE = io.IOBase.__mro__[1]


class State:
    """One object's state, as it is now."""

    def __init__(self, name: str, read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
        """Note it.

        Args:
            name: what the object is, for messages.
            read: gives the state.
            write: takes it.
        """
        self.name, self._read, self._write = name, read, write
        self._before = read()
        self._bytes = pickle.dumps(self._before)

    def undo(self) -> bool:
        """Put it back; whether it had changed."""
        try:
            if pickle.dumps(self._read()) == self._bytes:
                return False
            self._write(self._before)
        except (OSError, ValueError):  # a file that was closed meanwhile
            pass
        return True


def state_of(thing: Any) -> State | None:
    """The state of a random generator or a file; None for all else."""
    drawing = loaded("random")  # who has a generator has imported it
    if drawing is not None and is_a(thing, drawing.Random):
        if not is_a(thing, drawing.SystemRandom):
            return State("a random generator", thing.getstate, thing.setstate)
    if is_a(thing, _FILE):
        try:
            return State("a file", thing.tell, thing.seek) if thing.seekable() else None
        except (OSError, ValueError):
            return None
    drawing = loaded("numpy.random")
    if drawing is None:
        return None
    if is_a(thing, drawing.RandomState):
        return State("a random generator", lambda: thing.get_state(legacy=False), thing.set_state)
    if is_a(thing, drawing.Generator):
        thing = thing.bit_generator
    if not is_a(thing, drawing.BitGenerator):
        return None

    def write(state: Any) -> None:
        thing.state = state

    return State("a random generator", lambda: thing.state, write)


def is_generator(thing: Any) -> bool:
    """Whether an object gives random numbers, or seeds of such."""
    drawing, plain = loaded("numpy.random"), loaded("random")
    if plain is not None and is_a(thing, plain.Random):
        return True
    if drawing is None:
        return False
    kinds = drawing.RandomState, drawing.Generator, drawing.BitGenerator, drawing.SeedSequence
    return is_a(thing, kinds)


def shared_generators() -> Iterable[Any]:
    """The generator behind the functions of `numpy.random`, which NumPy imports when named."""
    yield getattr(np.random.rand, "__self__", None)
