"""The native entry of fused functions: from the interpreter's call to the kernel without Python.

One dispatcher serves every fused function. What it compares and calls stands in tables that are
reached through the callable object, so its text holds no address. On any mismatch it calls the
Python slow path with the same arguments.

It serves calls with positional arguments (and `out=`), each an array or a Python float, where one
loop nest over contiguous arrays of one shape, or over one-dimensional strided arrays, gives one
array, and where the work is short. All else goes to Python.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache
from typing import Any

import numpy as np

from fuser import native_call
from fuser.backends.cpu.arrays import layout_is_known
from fuser.launch import Launch
from fuser.specs import CONTIGUOUS, STRIDED

#: Most specialisations of one function that the dispatcher looks through.
SPEC_LIMIT = 32
#: 8-byte words of the argument block on the stack.
BLOCK_WORDS = 256
#: Kinds of arguments in the tables.
ARRAY, FLOAT, ARRAY_STRIDED = 0, 1, 2

_TEXT = """\
define ptr @dispatch(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) {
entry:
  %block = alloca [256 x i64], align 16
  %ctx.place = getelementptr i8, ptr %self, i64 24
  %ctx = load ptr, ptr %ctx.place
  %n = and i64 %nargsf, 9223372036854775807
  %mode.place = getelementptr i8, ptr %ctx, i64 40
  %mode.word = load ptr, ptr %mode.place
  %mode = load i64, ptr %mode.word
  %expected.place = getelementptr i8, ptr %ctx, i64 48
  %expected = load i64, ptr %expected.place
  %same.mode = icmp eq i64 %mode, %expected
  br i1 %same.mode, label %keywords, label %slow
keywords:
  %plain = icmp eq ptr %kwnames, null
  br i1 %plain, label %start, label %named
named:
  %kw.size.place = getelementptr i8, ptr %kwnames, i64 16
  %kw.size = load i64, ptr %kw.size.place
  %kw.one = icmp eq i64 %kw.size, 1
  br i1 %kw.one, label %named.out, label %slow
named.out:
  %kw.place = getelementptr i8, ptr %kwnames, i64 24
  %kw = load ptr, ptr %kw.place
  %out.name.place = getelementptr i8, ptr %ctx, i64 80
  %out.name = load ptr, ptr %out.name.place
  %kw.out = icmp eq ptr %kw, %out.name
  br i1 %kw.out, label %take.out, label %slow
take.out:
  %out.slot = getelementptr ptr, ptr %args, i64 %n
  %out.given = load ptr, ptr %out.slot
  br label %start
start:
  %out = phi ptr [ null, %keywords ], [ %out.given, %take.out ]
  %array.type.place = getelementptr i8, ptr %ctx, i64 24
  %array.type = load ptr, ptr %array.type.place
  %float.type.place = getelementptr i8, ptr %ctx, i64 72
  %float.type = load ptr, ptr %float.type.place
  %count.place = getelementptr i8, ptr %ctx, i64 56
  %count = load i64, ptr %count.place
  %specs.place = getelementptr i8, ptr %ctx, i64 64
  %specs = load ptr, ptr %specs.place
  br label %spec.loop
spec.loop:
  %k = phi i64 [ 0, %start ], [ %k1, %spec.next ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %spec.try, label %slow
spec.next:
  %k1 = add i64 %k, 1
  br label %spec.loop
spec.try:
  %spec.slot = getelementptr ptr, ptr %specs, i64 %k
  %spec = load ptr, ptr %spec.slot
  %want.n = load i64, ptr %spec
  %n.ok = icmp eq i64 %want.n, %n
  br i1 %n.ok, label %args.start, label %spec.next
args.start:
  %nd.place = getelementptr i8, ptr %spec, i64 8
  %nd = load i64, ptr %nd.place
  %records.place = getelementptr i8, ptr %spec, i64 80
  %records = load ptr, ptr %records.place
  br label %arg.loop
arg.loop:
  %j = phi i64 [ 0, %args.start ], [ %j1, %arg.next ]
  %dims = phi ptr [ null, %args.start ], [ %dims.now, %arg.next ]
  %arg.some = icmp ult i64 %j, %n
  br i1 %arg.some, label %arg.check, label %matched
arg.check:
  %arg.slot = getelementptr ptr, ptr %args, i64 %j
  %arg = load ptr, ptr %arg.slot
  %type.place = getelementptr i8, ptr %arg, i64 8
  %type = load ptr, ptr %type.place
  %record = getelementptr [4 x i64], ptr %records, i64 %j
  %kind = load i64, ptr %record
  %is.float = icmp eq i64 %kind, 1
  br i1 %is.float, label %float.check, label %array.check
float.check:
  %float.ok = icmp eq ptr %type, %float.type
  br i1 %float.ok, label %arg.next, label %spec.next
array.check:
  %array.ok = icmp eq ptr %type, %array.type
  br i1 %array.ok, label %descr.check, label %spec.next
descr.check:
  %descr.place = getelementptr i8, ptr %arg, i64 56
  %descr = load ptr, ptr %descr.place
  %want.descr.place = getelementptr i8, ptr %record, i64 8
  %want.descr = load ptr, ptr %want.descr.place
  %descr.ok = icmp eq ptr %descr, %want.descr
  br i1 %descr.ok, label %rank.check, label %descr.slow
descr.slow:
  %num.place = getelementptr i8, ptr %descr, i64 28
  %num = load i32, ptr %num.place
  %want.num.place = getelementptr i8, ptr %want.descr, i64 28
  %want.num = load i32, ptr %want.num.place
  %order.place = getelementptr i8, ptr %descr, i64 26
  %order = load i8, ptr %order.place
  %num.ok = icmp eq i32 %num, %want.num
  %native = icmp ne i8 %order, 62
  %alike = and i1 %num.ok, %native
  br i1 %alike, label %rank.check, label %spec.next
rank.check:
  %rank.place = getelementptr i8, ptr %arg, i64 24
  %rank = load i32, ptr %rank.place
  %rank.wide = zext i32 %rank to i64
  %rank.ok = icmp eq i64 %rank.wide, %nd
  br i1 %rank.ok, label %layout.check, label %spec.next
layout.check:
  %flags.place = getelementptr i8, ptr %arg, i64 64
  %flags = load i32, ptr %flags.place
  %contiguous.bit = and i32 %flags, 1
  %contiguous = icmp ne i32 %contiguous.bit, 0
  %any.stride = icmp eq i64 %kind, 2
  %layout.ok = xor i1 %contiguous, %any.stride
  br i1 %layout.ok, label %dims.check, label %spec.next
dims.check:
  %dims.place = getelementptr i8, ptr %arg, i64 32
  %these = load ptr, ptr %dims.place
  %first = icmp eq ptr %dims, null
  br i1 %first, label %arg.next, label %dims.loop
dims.loop:
  %d = phi i64 [ 0, %dims.check ], [ %d1, %dims.same ]
  %d.some = icmp ult i64 %d, %nd
  br i1 %d.some, label %dims.compare, label %arg.next
dims.compare:
  %one.place = getelementptr i64, ptr %dims, i64 %d
  %one = load i64, ptr %one.place
  %other.place = getelementptr i64, ptr %these, i64 %d
  %other = load i64, ptr %other.place
  %equal = icmp eq i64 %one, %other
  br i1 %equal, label %dims.same, label %spec.next
dims.same:
  %d1 = add i64 %d, 1
  br label %dims.loop
arg.next:
  %dims.now = phi ptr [ %dims, %float.check ], [ %these, %dims.check ], [ %dims, %dims.loop ]
  %j1 = add i64 %j, 1
  br label %arg.loop
matched:
  br label %size.loop
size.loop:
  %e = phi i64 [ 0, %matched ], [ %e1, %size.next ]
  %elements = phi i64 [ 1, %matched ], [ %elements1, %size.next ]
  %e.some = icmp ult i64 %e, %nd
  br i1 %e.some, label %size.next, label %size.done
size.next:
  %length.place = getelementptr i64, ptr %dims, i64 %e
  %length = load i64, ptr %length.place
  %elements1 = mul i64 %elements, %length
  %e1 = add i64 %e, 1
  br label %size.loop
size.done:
  %limit.place = getelementptr i8, ptr %spec, i64 40
  %limit = load i64, ptr %limit.place
  %less.one = sub i64 %elements, 1
  %short = icmp ult i64 %less.one, %limit
  br i1 %short, label %out.start, label %slow
out.start:
  %out.descr.place = getelementptr i8, ptr %spec, i64 24
  %out.descr = load ptr, ptr %out.descr.place
  %itemsize.place = getelementptr i8, ptr %spec, i64 48
  %itemsize = load i64, ptr %itemsize.place
  %loads.place = getelementptr i8, ptr %spec, i64 32
  %loads = load i64, ptr %loads.place
  %load.map.place = getelementptr i8, ptr %spec, i64 56
  %load.map = load ptr, ptr %load.map.place
  %fresh = icmp eq ptr %out, null
  br i1 %fresh, label %allocate, label %out.check
out.check:
  %out.type.place = getelementptr i8, ptr %out, i64 8
  %out.type = load ptr, ptr %out.type.place
  %out.is.array = icmp eq ptr %out.type, %array.type
  br i1 %out.is.array, label %out.descr.check, label %slow
out.descr.check:
  %given.descr.place = getelementptr i8, ptr %out, i64 56
  %given.descr = load ptr, ptr %given.descr.place
  %given.rank.place = getelementptr i8, ptr %out, i64 24
  %given.rank = load i32, ptr %given.rank.place
  %given.rank.wide = zext i32 %given.rank to i64
  %given.flags.place = getelementptr i8, ptr %out, i64 64
  %given.flags = load i32, ptr %given.flags.place
  %given.bits = and i32 %given.flags, 1025
  %g1 = icmp eq ptr %given.descr, %out.descr
  %g2 = icmp eq i64 %given.rank.wide, %nd
  %g3 = icmp eq i32 %given.bits, 1025
  %g12 = and i1 %g1, %g2
  %g123 = and i1 %g12, %g3
  br i1 %g123, label %out.dims, label %slow
out.dims:
  %given.dims.place = getelementptr i8, ptr %out, i64 32
  %given.dims = load ptr, ptr %given.dims.place
  br label %out.dims.loop
out.dims.loop:
  %od = phi i64 [ 0, %out.dims ], [ %od1, %out.dims.same ]
  %od.some = icmp ult i64 %od, %nd
  br i1 %od.some, label %out.dims.compare, label %overlap.start
out.dims.compare:
  %od.one.place = getelementptr i64, ptr %dims, i64 %od
  %od.one = load i64, ptr %od.one.place
  %od.other.place = getelementptr i64, ptr %given.dims, i64 %od
  %od.other = load i64, ptr %od.other.place
  %od.equal = icmp eq i64 %od.one, %od.other
  br i1 %od.equal, label %out.dims.same, label %slow
out.dims.same:
  %od1 = add i64 %od, 1
  br label %out.dims.loop
overlap.start:
  %out.data.at = getelementptr i8, ptr %out, i64 16
  %out.from = load i64, ptr %out.data.at
  %out.bytes = mul i64 %elements, %itemsize
  %out.to = add i64 %out.from, %out.bytes
  br label %overlap.loop
overlap.loop:
  %v = phi i64 [ 0, %overlap.start ], [ %v1, %overlap.next ]
  %v.some = icmp ult i64 %v, %loads
  br i1 %v.some, label %overlap.check, label %run
overlap.check:
  %v.map = getelementptr i64, ptr %load.map, i64 %v
  %v.index = load i64, ptr %v.map
  %v.record = getelementptr [4 x i64], ptr %records, i64 %v.index
  %v.kind = load i64, ptr %v.record
  %v.strided = icmp eq i64 %v.kind, 2
  br i1 %v.strided, label %slow, label %overlap.range
overlap.range:
  %v.slot = getelementptr ptr, ptr %args, i64 %v.index
  %v.array = load ptr, ptr %v.slot
  %v.data.at = getelementptr i8, ptr %v.array, i64 16
  %v.from = load i64, ptr %v.data.at
  %v.item.place = getelementptr i8, ptr %v.record, i64 16
  %v.item = load i64, ptr %v.item.place
  %v.bytes = mul i64 %elements, %v.item
  %v.to = add i64 %v.from, %v.bytes
  %v.before = icmp ule i64 %v.to, %out.from
  %v.after = icmp uge i64 %v.from, %out.to
  %v.apart = or i1 %v.before, %v.after
  %v.same.place = icmp eq i64 %v.from, %out.from
  %v.same.item = icmp eq i64 %v.item, %itemsize
  %v.same = and i1 %v.same.place, %v.same.item
  %v.fine = or i1 %v.apart, %v.same
  br i1 %v.fine, label %overlap.next, label %slow
overlap.next:
  %v1 = add i64 %v, 1
  br label %overlap.loop
allocate:
  %incref.place = getelementptr i8, ptr %ctx, i64 32
  %incref = load ptr, ptr %incref.place
  call void %incref(ptr %out.descr)
  %new.place = getelementptr i8, ptr %ctx, i64 16
  %new = load ptr, ptr %new.place
  %nd.int = trunc i64 %nd to i32
  %made = call ptr %new(ptr %array.type, ptr %out.descr, i32 %nd.int, ptr %dims, ptr null,
                        ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %error, label %run
error:
  ret ptr null
run:
  %target = phi ptr [ %made, %allocate ], [ %out, %overlap.loop ]
  %operands = add i64 %loads, 1
  br label %fill.loop
fill.loop:
  %f = phi i64 [ 0, %run ], [ %f1, %fill.next ]
  %f.some = icmp ult i64 %f, %loads
  br i1 %f.some, label %fill.next, label %fill.out
fill.next:
  %f.map = getelementptr i64, ptr %load.map, i64 %f
  %f.index = load i64, ptr %f.map
  %f.slot = getelementptr ptr, ptr %args, i64 %f.index
  %f.array = load ptr, ptr %f.slot
  %f.data.at = getelementptr i8, ptr %f.array, i64 16
  %f.data = load i64, ptr %f.data.at
  %f.place = getelementptr i64, ptr %block, i64 %f
  store i64 %f.data, ptr %f.place
  %f.strides.at = getelementptr i8, ptr %f.array, i64 40
  %f.strides = load ptr, ptr %f.strides.at
  %f.stride = load i64, ptr %f.strides
  %f.word = add i64 %operands, %f
  %f.stride.place = getelementptr i64, ptr %block, i64 %f.word
  store i64 %f.stride, ptr %f.stride.place
  %f1 = add i64 %f, 1
  br label %fill.loop
fill.out:
  %t.data.at = getelementptr i8, ptr %target, i64 16
  %t.data = load i64, ptr %t.data.at
  %t.place = getelementptr i64, ptr %block, i64 %loads
  store i64 %t.data, ptr %t.place
  %t.word = add i64 %operands, %loads
  %t.stride.place = getelementptr i64, ptr %block, i64 %t.word
  store i64 %itemsize, ptr %t.stride.place
  %scalars.place = getelementptr i8, ptr %spec, i64 64
  %scalars = load i64, ptr %scalars.place
  %scalar.map.place = getelementptr i8, ptr %spec, i64 72
  %scalar.map = load ptr, ptr %scalar.map.place
  %scalar.first = add i64 %operands, %operands
  br label %scalar.loop
scalar.loop:
  %s = phi i64 [ 0, %fill.out ], [ %s1, %scalar.next ]
  %s.some = icmp ult i64 %s, %scalars
  br i1 %s.some, label %scalar.take, label %launch
scalar.take:
  %s.entry = getelementptr [2 x i64], ptr %scalar.map, i64 %s
  %s.index = load i64, ptr %s.entry
  %s.kind.place = getelementptr i8, ptr %s.entry, i64 8
  %s.kind = load i64, ptr %s.kind.place
  %s.slot = getelementptr ptr, ptr %args, i64 %s.index
  %s.object = load ptr, ptr %s.slot
  %s.value.at = getelementptr i8, ptr %s.object, i64 16
  %s.double = load double, ptr %s.value.at
  %s.word = add i64 %scalar.first, %s
  %s.place = getelementptr i64, ptr %block, i64 %s.word
  %s.single = icmp eq i64 %s.kind, 0
  br i1 %s.single, label %scalar.single, label %scalar.double
scalar.single:
  %s.float = fptrunc double %s.double to float
  store i64 0, ptr %s.place
  store float %s.float, ptr %s.place
  br label %scalar.next
scalar.double:
  store double %s.double, ptr %s.place
  br label %scalar.next
scalar.next:
  %s1 = add i64 %s, 1
  br label %scalar.loop
launch:
  %kernel.place = getelementptr i8, ptr %spec, i64 16
  %kernel = load ptr, ptr %kernel.place
  %status = call i32 %kernel(ptr %block, i64 0, i64 1, i64 0, i64 %elements)
  %hits.place = getelementptr i8, ptr %ctx, i64 88
  %hits = load i64, ptr %hits.place
  %hits1 = add i64 %hits, 1
  store i64 %hits1, ptr %hits.place
  br i1 %fresh, label %give, label %give.out
give.out:
  %incref.out.place = getelementptr i8, ptr %ctx, i64 32
  %incref.out = load ptr, ptr %incref.out.place
  call void %incref.out(ptr %target)
  br label %give
give:
  ret ptr %target
slow:
  %slow.object = load ptr, ptr %ctx
  %vectorcall.place = getelementptr i8, ptr %ctx, i64 8
  %vectorcall = load ptr, ptr %vectorcall.place
  %answer = call ptr %vectorcall(ptr %slow.object, ptr %args, i64 %n, ptr %kwnames)
  ret ptr %answer
}
"""


class _Entry:
    """The compiled dispatcher and the addresses that contexts hold."""

    def __init__(self) -> None:
        from fuser.backends.cpu.native import load_forever
        from fuser.backends.cpu.pool import numpy_api

        self.address = load_forever(_TEXT, ("dispatch",))["dispatch"]
        table = numpy_api()
        self.new_array = int(table[94])
        self.vectorcall = _python("PyObject_Vectorcall")
        self.incref = _python("Py_IncRef")


def _python(name: str) -> int:
    """The address of a function of Python's C API."""
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def _entry() -> _Entry | None:
    """The dispatcher, or None where arrays are not laid out as expected."""
    return _Entry() if native_call.supported() and layout_is_known() else None


class Context:
    """One fused function's tables; append-only, alive as long as the function."""

    def __init__(self, entry: _Entry, slow: Any) -> None:
        """Point at the slow path `slow`, a Python callable."""
        self._keep: list[Any] = [slow]
        self._specs = (ctypes.c_void_p * SPEC_LIMIT)()
        out = sys.intern("out")
        self._keep.append(out)
        self.words = (ctypes.c_int64 * 12)(
            id(slow), entry.vectorcall, entry.new_array, id(np.ndarray), entry.incref,
            ctypes.addressof(native_call.MODE_WORD), native_call.MODE_WORD.value, 0,
            ctypes.addressof(self._specs), id(float), id(out), 0,
        )  # fmt: skip
        self._lock = threading.Lock()

    @property
    def hits(self) -> int:
        """Calls that were served natively."""
        return int(self.words[11])

    def append(self, spec: Any, keep: list[Any]) -> bool:
        """Add a specialisation's table; False when there is no room."""
        with self._lock:
            count = int(self.words[7])
            if count >= SPEC_LIMIT:
                return False
            self._keep.extend([spec, *keep])
            self._specs[count] = ctypes.addressof(spec)
            self.words[7] = count + 1
            self.words[6] = native_call.MODE_WORD.value
        return True

    def renew(self) -> None:
        """Serve natively again after a change of settings that Python has now seen."""
        self.words[6] = native_call.MODE_WORD.value

    def detach(self) -> None:
        """Serve nothing natively until specialisations are added again; nothing is freed."""
        with self._lock:
            self.words[7] = 0


def install(function: Any, specialisation: Any, launch: Launch, leaves: Any) -> bool:
    """Serve calls like this one natively from now on, if the dispatcher can.

    Args:
        function: the fused function; its `_slow_call` is the slow path.
        specialisation: what the call ran.
        launch: how it ran.
        leaves: the call's arguments, all positional.

    Returns:
        Whether it was installed.
    """
    entry = _entry()
    table = None if entry is None else _table(specialisation, launch, leaves)
    if entry is None or table is None:
        return False
    context = function._native
    if context is None:
        context = function._native = Context(entry, function._slow_call)
    words, keep = table
    if not context.append(words, [*keep, specialisation, launch]):
        return False
    native_call.set_entry(function, entry.address, ctypes.addressof(context.words))
    return True


def _table(specialisation: Any, launch: Launch, leaves: Any) -> tuple[Any, list[Any]] | None:
    """A specialisation's table, or None where the dispatcher cannot serve it."""
    trace, spec = specialisation.trace, specialisation.spec
    if trace.value_guards or trace.writes or specialisation.names or specialisation.captured:
        return None
    if len(launch.groups) != 1 or len(spec.plan.groups[0].sections) != 1 or spec.may_raise:
        return None
    section = spec.plan.groups[0].sections[0]
    section_spec = launch.arg_specs[0].sections[0]
    single = len(trace.leaves) == 1 and type(trace.leaves[0]).__name__ == "OutNode"
    single = single and type(trace.structure).__name__ == "Leaf"  # not a tuple of one
    if not single or section_spec.rank != 1 or len(spec.plan.outputs) != 1:
        return None
    if any(part.views for part in section.loads) or not launch.groups[0].sections:
        return None
    if len(section.stores) != 1 or section.stores[0][1].views:
        return None  # parts of a join are several stores into one output
    shape = section.shape
    if not shape or any(node.shape != shape for node in section.load_nodes):
        return None
    if len(specialisation.array_leaves) != len(section.loads) or trace.graph.guards:
        return None
    bound = launch.groups[0].sections[0][1]
    return _fill(specialisation, launch, leaves, section, section_spec, bound)


def _fill(
    specialisation: Any, launch: Launch, leaves: Any, section: Any, section_spec: Any, bound: Any
) -> tuple[Any, list[Any]] | None:
    """Write the table of a specialisation that the dispatcher serves."""
    place_of = dict(specialisation.array_leaves)
    number_of = dict(specialisation.scalar_leaves)
    records = (ctypes.c_int64 * (4 * max(1, len(leaves))))()
    load_map, keep = (ctypes.c_int64 * max(1, len(section.loads)))(), []
    described: set[int] = set()
    for k, (part, desc) in enumerate(zip(section.loads, section_spec.tensors, strict=False)):
        place = place_of[part.buffer]
        strided = desc.access == STRIDED
        if desc.access not in (CONTIGUOUS, STRIDED) or (strided and len(section.shape) != 1):
            return None
        dtype = np.dtype(desc.dtype)
        keep.append(dtype)
        kind = ARRAY_STRIDED if strided else ARRAY
        records[4 * place : 4 * place + 3] = [kind, id(dtype), dtype.itemsize]
        load_map[k] = place
        described.add(place)
    scalar_map = (ctypes.c_int64 * (2 * max(1, len(bound.scalars))))()
    for k, (text, dtype) in enumerate(bound.scalars):
        if text not in number_of or dtype.name not in ("float32", "float64"):
            return None
        place = number_of[text]
        if type(leaves[place]) is not float:
            return None
        scalar_map[2 * k : 2 * k + 2] = [place, int(dtype.name == "float64")]
    for place in number_of.values():
        if type(leaves[place]) is not float:
            return None
        records[4 * place] = FLOAT
        described.add(place)
    words = 2 * (len(section.loads) + 1) + len(bound.scalars)
    if len(described) != len(leaves) or words > BLOCK_WORDS or not section.loads:
        return None
    kernel = launch.groups[0].kernel
    out_dtype = np.dtype(section_spec.tensors[-1].dtype)
    if section_spec.tensors[-1].access != CONTIGUOUS:
        return None
    keep.extend([out_dtype, records, load_map, scalar_map])
    spec = (ctypes.c_int64 * 11)(
        len(leaves), len(section.shape), kernel.addresses[0], id(out_dtype),  # type: ignore[attr-defined]
        len(section.loads), kernel.short_elements(0), out_dtype.itemsize,  # type: ignore[attr-defined]
        ctypes.addressof(load_map), len(bound.scalars), ctypes.addressof(scalar_map),
        ctypes.addressof(records),
    )  # fmt: skip
    return spec, keep
