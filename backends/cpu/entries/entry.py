"""The native entry of fused functions: from the interpreter's call to the kernel without Python.

One dispatcher serves every fused function. What it compares and calls stands in tables that are
reached through the callable object, so its text holds no address. On any mismatch it calls the
Python slow path with the same arguments.

A function has one table for each way of calling it that has been seen: for all lengths of
contiguous arrays (`general`), or for exactly these lengths and strides (`exact`).
The one that served last is looked at first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.backend import MISSED, CompileError, PlainCall, PythonCall, ServedCall
from fuser.backends.cpu import sequence
from fuser.backends.cpu.entries import (
    batches,
    device_launch,
    match,
    python_calls,
    results,
    serve,
    values,
)
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout, pool
from fuser.backends.cpu.machine.arrays import layout_is_known
from fuser.backends.cpu.machine.loader import load_forever
from fuser.base import config, counters, forks
from fuser.base.trees import Same
from fuser.calls import native_call

#: Tables of one function; when there are more, all are made anew as they are wanted.
TABLE_LIMIT = 512
#: Tables for many lengths that one kind of call has: binding chooses otherwise for other lengths.
GENERAL_LIMIT = 8
#: Kinds of calls that one function remembers to have looked at.
TRIED_LIMIT = 4096
#: Lengths of one function's reductions that have tables of their own, and so share work among
#: threads, although it is short. Binding one takes 0.45 ms, as much as sharing saves in 75 calls.
MANY_LENGTHS = 32

_PARTS = (match, values, results, python_calls, device_launch)
TEXT = sequence.TEXT.replace("define i32 @sequence", "define internal i32 @sequence") + (
    layout.spell_out("".join(part.TEXT for part in _PARTS) + batches.GATHER + serve.TEXT)
)


class _Entry:
    """The compiled dispatcher, and the table of what it calls."""

    def __init__(self) -> None:
        self.address = load_forever(TEXT, ("dispatch",))["dispatch"]
        table = pool.numpy_api()
        library = ctypes.CDLL(None)
        self.vectorcall = _address(ctypes.pythonapi.PyObject_Vectorcall)
        python = {
            name: _address(getattr(ctypes.pythonapi, symbol)) for name, symbol in _PYTHON.items()
        }
        self.api = layout.array(
            [
                layout.words(
                    "API", ndarray=id(np.ndarray), true=id(True),
                    tuple_items=tuple.__basicsize__, new_array=int(table[94]),
                    to_scalar=int(table[76]), set_handler=int(table[304]),
                    new_scalar=int(table[60]), pooled_bytes=pool.THRESHOLD, text=id(str),
                    none=id(None), missed=id(MISSED), vectorcall=self.vectorcall,
                    malloc=_address(library.malloc), free=_address(library.free), **python,
                )
            ]
        )  # fmt: skip
        self.pooled = False

    def use_team(self, address: int) -> None:
        """Share long work with the threads whose function this is; 0 changes nothing."""
        if address:
            self.api[layout.place("API", "team")] = address

    def use_device(self, fields: Mapping[str, int]) -> None:
        """Compare arrays in a device's memory, and launch there, as these say."""
        for name, value in fields.items():
            self.api[layout.place("API", f"device_{name}")] = value

    def use_pool(self) -> None:
        """Take large memory from the pool, or not, as the settings say."""
        self.pooled = True
        found = pool.pool()
        values = {"capsule": 0, "pool_malloc": 0, "pool_free": 0} if found is None else (
            found.native()
        )
        for name, value in values.items():
            self.api[layout.place("API", name)] = value


#: What the dispatcher calls of Python's C API.
_PYTHON = {
    "incref": "Py_IncRef",
    "decref": "Py_DecRef",
    "new_tuple": "PyTuple_New",
    "get_item": "PyDict_GetItemWithError",
    "get_attribute": "PyObject_GetAttr",
    "clear_error": "PyErr_Clear",
    "compare_text": "PyUnicode_Compare",
    "dict_next": "PyDict_Next",
    "to_integer": "PyLong_AsLongLongAndOverflow",
    "release": "PyEval_SaveThread",
    "acquire": "PyEval_RestoreThread",
    "no_memory": "PyErr_NoMemory",
    "error_occurred": "PyErr_Occurred",
    "from_integer": "PyLong_FromLongLong",
}


def _address(function: Any) -> int:
    """The address of a C function."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


class Context:
    """One fused function's tables, alive as long as the function."""

    def __init__(self, entry: _Entry, slow: Any) -> None:
        """Point at the slow path `slow`, a Python callable."""
        self._entry = entry
        self._keep: list[Any] = [slow]
        self._tables = (ctypes.c_void_p * TABLE_LIMIT)()
        self._plains = (ctypes.c_void_p * python_calls.PLAIN_LIMIT)()
        self._plain: dict[Any, tuple[Any, Any, Any]] = {}
        self._shared: list[tuple[Any, Any]] = []
        self._tried: set[Any] = set()
        self._families: dict[Any, int] = {}
        self._lengths = 0
        self._few: list[Any] = []  # tables of reductions that have met few lengths
        self._lock = forks.lock()
        self.words = layout.array(
            [
                layout.words(
                    "CONTEXT", slow=id(slow), vectorcall=entry.vectorcall,
                    mode=ctypes.addressof(config.MODE_WORD),
                    tables=ctypes.addressof(self._tables), api=ctypes.addressof(entry.api),
                    plains=ctypes.addressof(self._plains),
                )
            ]
        )  # fmt: skip

    def _word(self, name: str) -> int:
        return int(self.words[layout.place("CONTEXT", name)])

    def _set(self, name: str, value: int) -> None:
        self.words[layout.place("CONTEXT", name)] = value

    @property
    def hits(self) -> int:
        """Calls that were served natively."""
        return self._word("hits")

    @property
    def count(self) -> int:
        """How many tables there are."""
        return self._word("count")

    def add(self, call: ServedCall | PythonCall | PlainCall) -> bool:
        """Have calls like this one begin natively from now on; whether they will."""
        if forks.held_here(self._lock):  # a signal handler, or a finaliser
            return False
        if isinstance(call, PlainCall) and self.stale():
            self.renew()
        with self._lock:
            if isinstance(call, ServedCall):
                return self._add_served(call)
            return self._add_plain(call) if isinstance(call, PlainCall) else self._add_python(call)

    def _add_served(self, call: ServedCall) -> bool:
        """Serve calls like this one natively; whether they can be.

        The first time for all lengths, if that can be; where such a call comes again, for its
        own lengths and strides.
        """
        kinds = tuple(
            (type(array), array.flags.c_contiguous, array.ndim)
            if type(array) is np.ndarray else type(array)
            for array in call.arrays.values()
        )  # fmt: skip
        kinds_given = (Same(type(leaf)) for leaf in call.leaves)
        way = (id(call.specialisation), call.names, call.direct, *kinds_given)
        family = (way, kinds, *call.launch.arg_specs)
        layouts = ((np.shape(a), getattr(a, "strides", ())) for a in call.arrays.values())
        tries = self._families.get(family, 0)
        if tries < GENERAL_LIMIT and not _long(call, self._many):
            self._families[family] = tries + 1
            if self._make(call, family):
                return True
        shaping = call.specialisation.spec.shaping
        exact = (way, *layouts, *(call.sizes[name] for name in shaping))
        if exact in self._tried:
            return False
        if len(self._tried) >= TRIED_LIMIT:
            self._tried.clear()
            self._families.clear()
        self._tried.add(exact)
        return self._make(call)

    def _make(self, call: ServedCall, family: Any = None) -> bool:
        """Make and append one table; of a family, for all lengths that are bound alike."""
        from fuser.backends.cpu.entries.exact import exact_table
        from fuser.backends.cpu.entries.general import general_table

        if self.count >= TABLE_LIMIT and not self._start_anew():
            return False
        try:
            table, draft = general_table(call, self._many) if family else exact_table(call)
        except NotServed:
            return False
        if family:
            if (family, draft.key) in self._tried:  # it is there, and refused the call
                return False
            self._tried.add((family, draft.key))
        if not family and draft.table.largest_bytes >= pool.THRESHOLD:
            self._entry.use_pool()
        if draft.long:
            self._shared.append((draft.table, draft.template))
            self._entry.use_team(draft.team)
        if _is_one_reduction(call):
            self._count_length(table, bool(family))
        self._append(table, [table, draft.keep, draft.template, draft.scratch])
        return True

    def _add_python(self, call: PythonCall) -> bool:
        """Have a Python function serve calls like this one from now on; whether it will."""
        if self.count >= TABLE_LIMIT and not self._start_anew():
            return False
        try:
            table, keep = python_calls.python_table(call)
        except NotServed:
            return False
        if call.device_fields is not None:
            self._entry.use_device(call.device_fields)
        tally = counters.Tally(table, layout.place("TABLE", "calls"), call.counts)
        self._append(table, [table, keep, tally])
        return True

    def _add_plain(self, call: PlainCall) -> bool:
        """Send a number of calls like this one to the plain function; whether it will."""
        if call.key not in self._plain:
            if len(self._plain) >= python_calls.PLAIN_LIMIT:
                if call.seen & (call.seen - 1):
                    return False  # many kinds take turns: tables are seldom made anew
                self._plain.pop(next(iter(self._plain)))
            try:
                made, keep = python_calls.plain_table(call)
            except NotServed:
                return False
            tally = counters.Tally(made, layout.place("TABLE", "calls"), call.counts, call.told)
            self._set("plain_count", 0)
            self._plain[call.key] = made, keep, tally
            for place, (each, _, _) in enumerate(self._plain.values()):
                self._plains[place] = ctypes.addressof(each)
            self._set("plain_count", len(self._plain))
        self._plain[call.key][0][layout.place("TABLE", "left")] = call.number
        return True

    def _append(self, table: Any, keep: list[Any]) -> None:
        """One more table."""
        self._keep.extend(keep)
        place = self.count
        self._tables[place] = ctypes.addressof(table)
        self._set("count", place + 1)
        self._set("expected", config.MODE_WORD.value)

    @property
    def _many(self) -> bool:
        """Whether reductions have met many lengths."""
        return self._lengths >= MANY_LENGTHS

    def _count_length(self, table: Any, general: bool) -> None:
        """Note a reduction's table; of many lengths, the general one serves longer work."""
        from fuser.backends.cpu.entries.general import PARTS, SEVERAL_NS

        if general:
            self._few.append(table)
            return
        self._lengths += 1
        if self._lengths == MANY_LENGTHS:
            for each in self._few:
                each[layout.place("TABLE", "limit")] = SEVERAL_NS * PARTS

    def _start_anew(self) -> bool:
        """Forget all tables, unless one is in use."""
        if self._word("running"):
            return False
        self._set("count", 0)
        del self._keep[1:]
        self._shared.clear()
        self._tried.clear()
        self._families.clear()
        return True

    def stale(self) -> bool:
        """Whether settings have changed since tables were last made or renewed."""
        return self._word("expected") != config.MODE_WORD.value

    def renew(self) -> None:
        """Serve natively again after a change of settings that Python has now seen."""
        if forks.held_here(self._lock):
            return
        with self._lock:
            if self._entry.pooled:
                self._entry.use_pool()
            mode = config.MODE_WORD.value
            for table, template in self._shared:
                self._entry.use_team(table.share_out())
                template[:] = table.words
            self._set("expected", mode)

    def gather_in(self, queue: int) -> None:
        """Have loop nests wait in a queue, see `batches`."""
        self._set("queue", queue)

    def detach(self) -> None:
        """Serve nothing natively until tables are added again; nothing is freed."""
        self._set("count", 0)  # no lock: who holds it may wait for what this thread has begun
        self._set("plain_count", 0)
        self._plain = {}
        self._tried.clear()
        self._families.clear()


def _long(call: ServedCall, many: bool) -> bool:
    """Whether a call's work is too long for a table of all lengths."""
    from fuser.backends.cpu.entries.general import longest_ns

    spent = sum(
        group.kernel.work_ns(number, section.extent)
        for group in call.launch.groups
        for number, section in group.sections
    )
    return bool(spent >= longest_ns(call, many))


def _is_one_reduction(call: ServedCall) -> bool:
    """Whether a call is one loop nest, which reduces."""
    nests = [nest for group in call.launch.groups for nest in group.kernel.nests]
    return len(nests) == 1 and nests[0].strategy != "map"


_loaded: list[_Entry | None] = []
_load_lock = forks.lock()


def load() -> _Entry | None:
    """The dispatcher, compiled or read from the disk cache when it is first wanted."""
    if _loaded:
        return _loaded[0]
    if forks.imports_here():  # others may hold the lock and wait for that import
        return None
    with _load_lock:
        if not _loaded:
            known = native_call.supported() and layout_is_known()
            try:
                _loaded.append(_Entry() if known else None)
            except Exception as error:  # the system lets no more code run, or the mistake is ours
                _loaded.append(None)  # and would be made again by every call
                if not isinstance(error, CompileError):
                    raise
                if error.code == "compile-failed" and config.current().check:
                    raise AssertionError(str(error)) from error  # the text is wrong: it is ours
        return _loaded[0]


def install(function: Any, call: ServedCall | PythonCall | PlainCall) -> bool:
    """Have calls like this one begin at the dispatcher from now on, if it can serve them.

    A process that calls each function once never needs the dispatcher: it is loaded when
    something is called for the second time.

    Args:
        function: the fused function; its `_slow_call` is the slow path.
        call: how such a call runs.

    Returns:
        Whether it is installed, or may be at the next call.
    """
    if isinstance(call, ServedCall):
        if call.launch.sequence is None:
            return False
        if not _loaded and not call.specialisation.repeated:
            call.specialisation.repeated = True
            return True
    try:
        entry = load()
        if entry is None:
            return False
        context = function._native
        if context is None:
            made = Context(entry, function._slow_call)
            context = function._native = function._native or made  # one step: the first stays
        added = bool(context.add(call))
    except CompileError:  # the system lets no more code run: this way, the call has run already
        return False
    native_call.set_entry(function, entry.address, ctypes.addressof(context.words))
    return added
