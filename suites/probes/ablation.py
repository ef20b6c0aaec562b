"""A call served in native code taken apart by ablation, as nothing can be stamped inside 0.1 us.

What is timed, turn by turn in rounds shorter than the changes of a processor's speed:

- the whole: a call that returns a new array;
- the entry: an object of the same type whose native code gives its first argument back;
- bare: the whole, but its function allocates by giving out one array again and again, and its
  kernel does nothing;
- allocation: native code that makes one array of the result's type and length, less the entry;
- the same with what `bare` allocates by: `bare` less this is what is looked at before a launch;
- the kernel alone, called by native code with the words of a real launch, less the entry.

No part is a difference to the whole, so their sum is a check of it.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fuser.suites.rounds import closed_sum, timed_rounds
from fuser.suites.sampling import collector_off, timed_calls

ELEMENTS = 64
ROUNDS = 400
CALLS = 150
"""Calls a sample: 20 to 60 us, which are seldom interrupted."""
ENTRY = "interpreter and entry"
FORMS = {
    ENTRY: {"entry": 1.0},
    "checks and launch": {"bare": 1.0, "given out": -1.0},
    "allocation": {"allocation": 1.0, "entry": -1.0},
    "kernel": {"kernel": 1.0, "entry": -1.0},
}

_HEAD = """\
  %table.at = getelementptr i8, ptr %self, i64 24
  %table = load ptr, ptr %table.at
  %incref = load ptr, ptr %table
  %first = load ptr, ptr %args
"""
_TEXT = f"""\
@held = global ptr null

define ptr @give_back(ptr %self, ptr %args, i64 %count, ptr %names) {{
{_HEAD}  call void %incref(ptr %first)
  ret ptr %first
}}

define ptr @allocate(ptr %self, ptr %args, i64 %count, ptr %names) {{
{_HEAD}  %new.at = getelementptr i8, ptr %table, i64 8
  %new = load ptr, ptr %new.at
  %type.at = getelementptr i8, ptr %first, i64 8
  %type = load ptr, ptr %type.at
  %lengths.at = getelementptr i8, ptr %first, i64 32
  %lengths = load ptr, ptr %lengths.at
  %dtype.at = getelementptr i8, ptr %first, i64 56
  %dtype = load ptr, ptr %dtype.at
  call void %incref(ptr %dtype)
  %made = call ptr %new(ptr %type, ptr %dtype, i32 1, ptr %lengths, ptr null, ptr null, i32 0,
                        ptr null)
  ret ptr %made
}}

define ptr @run_kernel(ptr %self, ptr %args, i64 %count, ptr %names) {{
{_HEAD}  %words.at = getelementptr i8, ptr %table, i64 16
  %words = load ptr, ptr %words.at
  %kernel = load ptr, ptr %words
  %outer.at = getelementptr i64, ptr %words, i64 1
  %outer = load i64, ptr %outer.at
  %inner.at = getelementptr i64, ptr %words, i64 2
  %inner = load i64, ptr %inner.at
  %block = getelementptr i64, ptr %words, i64 10
  %status = call i32 %kernel(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  call void %incref(ptr %first)
  ret ptr %first
}}

define ptr @give_out(ptr %type, ptr %dtype, i32 %rank, ptr %lengths, ptr %strides, ptr %data,
                     i32 %flags, ptr %object) {{
entry:
  %held = load ptr, ptr @held
  %before = load i32, ptr %held
  %after = add i32 %before, 1
  store i32 %after, ptr %held
  %known = load i32, ptr %dtype
  %is.immortal = icmp slt i32 %known, 0
  br i1 %is.immortal, label %done, label %give.back
give.back:
  %less = sub i32 %known, 1
  store i32 %less, ptr %dtype
  br label %done
done:
  ret ptr %held
}}

define i32 @no_kernel(ptr %block, i64 %first, i64 %last, i64 %begin, i64 %end) {{
  ret i32 0
}}
"""
"""Entries that do one thing, and what stands in for an allocation and a kernel in another's."""
_EXPORTS = ("give_back", "allocate", "run_kernel", "give_out", "no_kernel", "held")


_keep: list[Any] = []


def subject(a: Any, b: Any, c: Any) -> Any:
    """Return what is called: two operations, so that a fuser has something to fuse."""
    return a * b + c


class NativeEntries:
    """Callables that start in native code and do one thing."""

    def __init__(self) -> None:
        """Compile them."""
        from fuser.backends.cpu.machine.loader import load_forever
        from fuser.backends.cpu.machine.pool import numpy_api

        self.addresses = load_forever(_TEXT, _EXPORTS)
        self.new_array = int(numpy_api()[94])

    def make(
        self, name: str, new_array: int = 0, words_at: int = 0, keep: Sequence[Any] = ()
    ) -> Any:
        """Return a callable whose native code is that of a name.

        Args:
            name: of the text.
            new_array: by what `allocate` allocates.
            words_at: the words of a launch, for `run_kernel`.
            keep: what has to live as long as the callable does.
        """
        from fuser.calls import native_call

        incref = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0
        table = (ctypes.c_int64 * 3)(incref, new_array, words_at)
        parts = {"__call__": _never, "keep": (table, *keep)}
        kind = type(name, (native_call.NativelyCallable,), parts)
        made = kind()
        native_call.enable_vectorcall(kind)
        native_call.set_entry(made, self.addresses[name], ctypes.addressof(table))
        return made

    def hold(self, array: np.ndarray[Any, Any]) -> None:
        """Let `give_out` give this array out; it lives as long as that code does."""
        _keep.append(array)
        ctypes.c_int64.from_address(self.addresses["held"]).value = id(array)


def supported() -> bool:
    """Whether this interpreter and NumPy have calls served in native code at all."""
    from fuser.backends.cpu.machine.arrays import layout_is_known
    from fuser.calls import native_call

    return native_call.supported() and layout_is_known()


def _never(*_arguments: Any) -> Any:
    raise AssertionError("an entry in native code was not used")


def served(given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a fused function that serves such a call natively, and the words of its launch."""
    import fuser
    from fuser.backends.cpu.machine import layout

    fused = fuser.fuse(subject, fallback="error")
    for _ in range(4):  # the first calls compile, and install the entry
        fused(*given)
    context = fused._native
    if context is None or context.count != 1:
        raise RuntimeError("a call of three arrays is not served by one native table")
    tables = (ctypes.c_int64 * 1).from_address(context._word("tables"))
    scratch_at = 8 * layout.place("TABLE", "scratch")
    return fused, ctypes.c_int64.from_address(tables[0] + scratch_at).value


def without_work(given: tuple[Any, ...], entries: NativeEntries) -> Any:
    """Return a fused function whose calls allocate nothing and whose kernel does nothing."""
    from fuser.backends.cpu.machine import layout

    fused, words_at = served(given)
    context = fused._native
    size = len(layout.FIELDS["API"])
    api = (ctypes.c_int64 * size)(*(ctypes.c_int64 * size).from_address(context._word("api")))
    api[layout.place("API", "new_array")] = entries.addresses["give_out"]
    context._keep.append(api)
    context._set("api", ctypes.addressof(api))
    ctypes.c_int64.from_address(words_at).value = entries.addresses["no_kernel"]
    return fused


class Calls:
    """Everything that is timed, by name."""

    def __init__(self) -> None:
        """Make and try each of them once."""
        entries = NativeEntries()
        self.given = tuple(np.full(ELEMENTS, each, np.float32) for each in (1.0, 2.0, 3.0))
        self.held = np.full_like(self.given[0], 7.0)
        entries.hold(self.held)
        whole, _ = served(self.given)
        twin, words_at = served(self.given)
        self._result = twin(*self.given)  # where the kernel alone writes
        alive = (twin, self._result, self.given)
        self.by_name: dict[str, Callable[..., Any]] = {
            "whole": whole, "entry": entries.make("give_back"),
            "bare": without_work(self.given, entries),
            "given out": entries.make("allocate", entries.addresses["give_out"]),
            "allocation": entries.make("allocate", entries.new_array),
            "kernel": entries.make("run_kernel", words_at=words_at, keep=alive),
        }
        self._try()

    def _try(self) -> None:
        """Make sure that each does what it is called, and no more."""
        self._result[:] = 0
        self.by_name["kernel"](*self.given)
        ran = bool((self._result == 5.0).all())
        bare = self.by_name["bare"](*self.given)
        if not ran or bare is not self.held or not (self.held == 7.0).all():
            raise RuntimeError("the native entry is not taken apart as it is built today")

    def seconds_of(self, name: str) -> float:
        """Return the seconds of one call."""
        return timed_calls(self.by_name[name], self.given, CALLS)[0] / CALLS


def measure(rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """Yield the anatomy of a call served without Python, as fields of the record."""
    if not supported():
        return
    calls = Calls()
    with collector_off():
        timed_rounds(list(calls.by_name), calls.seconds_of, 20)  # warm
        found = timed_rounds(list(calls.by_name), calls.seconds_of, rounds)
    yield {
        "subject": f"a*b + c on {ELEMENTS} float32", "path": "native", "method": "ablation",
        **closed_sum(found, FORMS, "whole").fields(),
    }
