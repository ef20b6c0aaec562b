"""Element loops as machine code: a kernel for each way in which their arrays lie in memory."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from fuser.backend import MISSED, CompileError
from fuser.backends.cpu import element_loops
from fuser.backends.cpu.element_calls import WORDS, Way
from fuser.backends.cpu.machine import arrays, layout, loader, pool, workers
from fuser.backends.cpu.machine.target import host_features
from fuser.base import budget, config, counters
from fuser.base.errors import Reason, Unsupported
from fuser.base.records import record
from fuser.base.unexpected import internal_errors
from fuser.calls import native_call
from fuser.element_loops import kinds
from fuser.element_loops.code import Code, Constant
from fuser.element_loops.region import CONTIGUOUS, RunEnded, layout_of


class NativeLoop(native_call.NativelyCallable):  # type: ignore[misc] # made when it is imported
    """A kernel that Python calls with its arrays and numbers, see `element_calls`.

    Attributes:
        kept: its code, and the table that it reads.
    """

    kept: tuple[Any, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Not reached: the interpreter looks at the entry's address before."""
        return MISSED


@record
class ElementText:
    """A kernel of an element loop, for those who want to read it."""

    name: str
    source: str

    def text(self, kind: str) -> str:
        """LLVM IR ("source"; "optimized": after LLVM's own passes) or "asm"."""
        return loader.shown(self.source, kind)


_NATIVE = native_call.enable_vectorcall(NativeLoop)


class ElementKernel:
    """Runs one element loop.

    Attributes:
        code: the loop.
        kernels: those that were compiled, one for each way in which arrays have lain in memory.
    """

    def __init__(self, code: Code) -> None:
        """Prepare it; the first run compiles.

        Raises:
            Unsupported: where objects of arrays lie in memory is not known, or there is no GIL.
        """
        if not (_NATIVE and arrays.layout_is_known()):
            raise Unsupported(
                "backend-unavailable", "a loop over single elements",
                "it is called natively, and this interpreter has no GIL, or is no known one", "",
            )
        self.code = code
        self.kernels: list[ElementText] = []
        self._loaded: dict[Way, tuple[Any, int]] = {}
        self._rest: dict[Way, tuple[Any, int]] = {}
        self._refused: dict[Way, Reason] = {}
        self._late: set[Any] = set()
        self._callable: dict[tuple[Way, bool], NativeLoop] = {}
        self._types = [
            (np.dtype(kinds.dtype_of(n.kind)).type, n.kind in kinds.PYTHON) for n in code.numbers
        ]

    def run(
        self, given: Sequence[Any], numbers: Sequence[Any], copies: Collection[int]
    ) -> list[Any]:
        """Run it on arrays, which are written into, and numbers; the numbers that it leaves.

        Args:
            given: the arrays.
            numbers: the numbers.
            copies: places of arrays that are copies of others.

        Raises:
            RunEnded: the plain function has to run; arrays may have been written into.
        """
        call = self.native([(a.dtype, layout_of(a)) for a in given], copies)
        plain = [n.item() if isinstance(n, (np.generic, np.ndarray)) else n for n in numbers]
        typed = [
            n if python else kind(n) for n, (kind, python) in zip(plain, self._types, strict=True)
        ]
        found = call(*given, *typed)
        if found is MISSED:
            raise RunEnded("it reached what only the plain function does")
        if not self.code.results:
            return []
        return [found] if len(self.code.results) == 1 else list(found)

    def native(
        self, given: Sequence[tuple[np.dtype[Any], str]], copies: Collection[int],
        restores: bool = False,
    ) -> Callable[..., Any]:
        """The kernel as a function of its arrays and numbers; it writes into the arrays.

        It gives the numbers that the loop leaves: None, a NumPy scalar, or a tuple of these; or
        `MISSED`, where the plain function has to run.

        Args:
            given: dtypes of the arrays, and how they lie.
            copies: places of arrays that are copies of others, or those others themselves.
            restores: these, where contiguous, are as they were in that case.

        Raises:
            CompileError, Unsupported: it cannot be compiled.
        """
        ends = self.code.sure != Constant("bool", True)
        kept = frozenset(place for place in copies if ends and given[place][1] == CONTIGUOUS)
        way = Way("".join(lies for _, lies in given), tuple(d.num for d, _ in given), kept)
        found = self._callable.get((way, restores))
        if found is None:
            if way not in self._loaded:
                if (reason := self._refused.get(way)) is not None:
                    raise Unsupported(reason.code, reason.operation, reason.found, "")
                try:
                    with internal_errors("loop", (MemoryError,)):
                        self._loaded[way] = self._compile(way, element_loops.emit)
                except Unsupported as error:  # and would be in every call
                    if budget.is_final(self._late, way):
                        self._refused[way] = error.reason
                    raise
            found = self._callable[way, restores] = self._made(way, restores)
        _share_out(found.kept[1])
        return found

    def _made(self, way: Way, restores: bool) -> NativeLoop:
        """What Python calls, with a table of its own."""
        library, address = self._loaded[way]
        dtypes = [np.dtype(result.dtype) for result in self.code.results]
        table = layout.array([[*self._words(restores), *map(id, dtypes)]])
        make_rest = partial(self._make_rest, way, table)
        table[WORDS.index("make_rest")] = id(make_rest)
        found = NativeLoop()
        native_call.set_entry(found, address, layout.address(table))
        found.kept = library, table, dtypes, make_rest
        return found

    def _make_rest(self, way: Way, table: ctypes.Array[ctypes.c_int64]) -> None:
        """Compile the loops as they stand, for calls that need them, and say where they are.

        A table that is not told leaves such calls to the plain function.
        """
        if way not in self._rest:
            try:
                with internal_errors("loop", (MemoryError,)):
                    loaded = self._compile(way, element_loops.emit_rest, element_loops.rest_of)
            except (CompileError, Unsupported, MemoryError):
                if not budget.is_final(self._late, (way, "rest")):
                    return
                loaded = None, 0
            self._rest[way] = loaded
        table[WORDS.index("rest")] = self._rest[way][1]

    def _compile(
        self, way: Way, emit: Callable[..., str], named: Callable[[str], str] = str
    ) -> tuple[Any, int]:
        """One of the two functions for arrays that are so: what keeps it, and its address."""
        code = self.code
        parts = code.body, code.arrays, way.layouts, way.dtypes, sorted(way.restored)
        digest = hashlib.sha256(repr(parts).encode())
        name = f"elements_{digest.hexdigest()[:16]}"
        text = loader.OPTIMISED + emit(code, way, name, host_features(), workers.supported())
        budget.spend("instructions", text.count("\n"))
        budget.spend("kernels")
        library, (address,) = loader.load(
            loader.to_object(text), (named(name),), loader.imports_of(text)
        )
        counters.count("kernels")
        self.kernels.append(ElementText(named(name), text))
        return library, address

    def _words(self, restores: bool) -> list[int]:
        """What a call compares with, and calls."""
        found = pool.pool()
        taken = {} if found is None else found.native()
        words = {
            "ndarray": id(np.ndarray), "missed": id(MISSED), "none": id(None),
            "new_scalar": int(pool.numpy_api()[60]),
            "pool_malloc": taken.get("pool_malloc", 0), "pool_free": taken.get("pool_free", 0),
            "restores": int(restores), "mode": ctypes.addressof(config.MODE_WORD),
        }  # fmt: skip
        plain = {"pyint": int, "pyfloat": float, "pybool": bool}
        types = [(plain.get(n.kind, kind), kind)
                 for n, (kind, _) in zip(self.code.numbers, self._types, strict=True)]  # fmt: skip
        known = [words.get(word, 0) for word in WORDS]
        return [*known, *(id(each) for pair in types for each in pair)]


def _share_out(table: ctypes.Array[ctypes.c_int64]) -> None:
    """Say in a table how many threads may share loops under the settings of now.

    Its kernel compares the settings: under others it is shared by none, until Python looks again.
    """
    threads = workers.thread_count() if workers.supported() else 1
    team = workers.workers() if threads > 1 else None
    values = {"mode_seen": config.MODE_WORD.value, "helpers": 0}
    if team is not None:
        values |= {"team": team.team_address, "helpers": team.start(threads - 1)}
    for word, value in values.items():
        table[WORDS.index(word)] = value
