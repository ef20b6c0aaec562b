"""Calls whose arrays are in a device's memory, launched natively.

What is called is the array library's own: which device and stream are current, new arrays, memory
of its pool, the launch, each with its errors. Their addresses come with the fields of its arrays
(`PythonCall.device_fields`). The kernels' arguments are a copy of the template on the stack, filled
as those of the CPU's kernels are.

A call for which a number does not convert, another device is current, or whose stream is captured
while it takes memory for itself is declined before anything is made: the table's Python function
does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuser.backend import DeviceCall, PythonCall
from fuser.backends.cpu.entries.containers import native
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.entries.tables import scalar_row
from fuser.backends.cpu.machine import layout

TEXT = """\
define internal ptr @new_on_device(ptr %api, ptr %output) {
entry:
  %lengths = alloca [3 x ptr]
  %begin = get ptr %output OUTPUT.dims
  %rank = get i64 %output OUTPUT.rank
  %end = getelementptr i64, ptr %begin, i64 %rank
  put ptr %begin %lengths 0
  put ptr %end %lengths 8
  put ptr %end %lengths 16
  %type = get ptr %api API.device_array
  %dtype = get ptr %output OUTPUT.descr
  %none = get ptr %api API.none
  %new = get ptr %api API.device_new
  %made = call ptr %new(ptr %type, ptr %lengths, ptr %dtype, ptr %none)
  ret ptr %made
}

define internal i64 @device_counters(ptr %api, ptr %function, i64 %stream) {
entry:
  %argument = alloca ptr
  %overflow = alloca i32
  %from.integer = get ptr %api API.from_integer
  %decref = get ptr %api API.decref
  %number = call ptr %from.integer(i64 %stream)
  %nothing = icmp eq ptr %number, null
  br i1 %nothing, label %failed, label %ask
ask:
  store ptr %number, ptr %argument
  %vectorcall = get ptr %api API.vectorcall
  %found = call ptr %vectorcall(ptr %function, ptr %argument, i64 1, ptr null)
  call void %decref(ptr %number)
  %none = icmp eq ptr %found, null
  br i1 %none, label %failed, label %give
give:
  %to.integer = get ptr %api API.to_integer
  %address = call i64 %to.integer(ptr %found, ptr %overflow)
  call void %decref(ptr %found)
  ret i64 %address
failed:
  ret i64 0
}

define internal ptr @on_device(ptr %context, ptr %api, ptr %table, ptr %args, ptr %bases,
                               ptr %symbols) {
entry:
  %made = alloca [LAYOUT.MOST_OUTPUTS x ptr]
  %list = alloca ptr
  %number = alloca i32
  %count = get i64 %table TABLE.words
  %template = get ptr %table TABLE.template
  %words = alloca i64, i64 %count, align 16
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %words, ptr %template, i64 %bytes, i1 false)
  %decref = get ptr %api API.decref
  %occurred = get ptr %api API.error_occurred
  %current = get ptr %api API.device_current
  %now = call i32 %current(i32 0)
  %device = get i32 %table TABLE.device
  %here = icmp eq i32 %now, %device
  br i1 %here, label %enqueue, label %decline
enqueue:
  %ask.stream = get ptr %api API.device_stream
  %stream = call i64 %ask.stream()
  %error = call ptr %occurred()
  %known = icmp eq ptr %error, null
  br i1 %known, label %memory, label %decline
memory:
  %room = get ptr %table TABLE.room
  %no.room = icmp eq ptr %room, null
  %is.default = icmp eq i64 %stream, 0
  %free = or i1 %no.room, %is.default
  br i1 %free, label %values, label %capture
capture:
  %capturing = get ptr %api API.device_capturing
  %captured = call i32 %capturing(i64 %stream, i32 0)
  %apart = icmp eq i32 %captured, 0
  br i1 %apart, label %values, label %decline
values:
  %converted = call i1 @convert(ptr %api, ptr %table, ptr %bases, ptr %symbols, ptr %words)
  br i1 %converted, label %outputs, label %decline
outputs:
  %results = get i64 %table TABLE.outputs
  %output.list = get ptr %table TABLE.output_list
  %record.list = get ptr %table TABLE.record_list
  %records = get i64 %table TABLE.records
  for %k below %results else scratch
  %output = row OUTPUT %output.list %k
  %given = get i64 %output OUTPUT.given
  %fresh = icmp slt i64 %given, 0
  br i1 %fresh, label %make, label %take
take:
  %target = call ptr @given(ptr %api, ptr %record.list, i64 %given, ptr %args)
  br label %keep
make:
  %new = call ptr @new_on_device(ptr %api, ptr %output)
  %none = icmp eq ptr %new, null
  br i1 %none, label %failed, label %keep
keep:
  %array = phi ptr [ %target, %take ], [ %new, %make ]
  set ptr %array %made %k
  %address = call i64 @device_address(ptr %api, ptr %array, ptr %number)
  %place = add i64 %records, %k
  set i64 %address %bases %place
  next %k
scratch:
  %scratch.at = add i64 %records, %results
  br i1 %no.room, label %counters, label %allocate
allocate:
  %alloc = get ptr %api API.device_alloc
  %pointer = call ptr %alloc(ptr %room, i32 0)
  %no.memory = icmp eq ptr %pointer, null
  br i1 %no.memory, label %failed, label %allocated
allocated:
  %begin.at = get i64 %api API.device_address
  %begin.field = getelementptr i8, ptr %pointer, i64 %begin.at
  %begin = load i64, ptr %begin.field
  set i64 %begin %bases %scratch.at
  br label %counters
counters:
  %kept = phi ptr [ null, %scratch ], [ %pointer, %allocated ]
  %zeros = get ptr %table TABLE.counters
  %uncounted = icmp eq ptr %zeros, null
  br i1 %uncounted, label %ready, label %count.blocks
count.blocks:
  %counted = call i64 @device_counters(ptr %api, ptr %zeros, i64 %stream)
  %counters.at = add i64 %scratch.at, 1
  set i64 %counted %bases %counters.at
  %uncountable = icmp eq i64 %counted, 0
  br i1 %uncountable, label %failed, label %ready
ready:
  %ensure = get ptr %api API.device_context
  %ensured = call ptr %ensure()
  %no.context = icmp eq ptr %ensured, null
  br i1 %no.context, label %failed, label %launch
launch:
  call void %decref(ptr %ensured)
  call void @addresses(ptr %table, ptr %bases, ptr %words)
  %launches = get i64 %table TABLE.launches
  %launch.list = get ptr %table TABLE.launch_list
  %driver = get ptr %api API.device_launch
  for %n below %launches else finished
  %row = row LAUNCH %launch.list %n
  %handle = get i64 %row LAUNCH.handle
  %blocks = get i32 %row LAUNCH.blocks
  %threads = get i32 %row LAUNCH.threads
  %shared = get i32 %row LAUNCH.shared
  %first = get i64 %row LAUNCH.block
  %block = getelementptr i64, ptr %words, i64 %first
  %phase.at = get i64 %row LAUNCH.phase_at
  %phase = get i64 %row LAUNCH.phase
  set i64 %phase %words %phase.at
  store ptr %block, ptr %list
  %arguments = ptrtoint ptr %list to i64
  %done = call ptr %driver(i64 %handle, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1,
                           i32 %shared, i64 %stream, i64 %arguments, i64 0, i32 0)
  %wrong = icmp eq ptr %done, null
  br i1 %wrong, label %failed, label %launched
launched:
  call void %decref(ptr %done)
  next %n
finished:
  call void @release_memory(ptr %api, ptr %kept)
  call void @counted(ptr %context, ptr %table)
  %result = call ptr @hand_over(ptr %api, ptr %table, ptr %args, ptr %made)
  ret ptr %result
failed:
  %many = phi i64 [ %k, %make ], [ %results, %allocate ], [ %results, %count.blocks ],
                  [ %results, %ready ], [ %results, %n.body ]
  %held = phi ptr [ null, %make ], [ null, %allocate ], [ %kept, %count.blocks ],
                  [ %kept, %ready ], [ %kept, %n.body ]
  call void @release_memory(ptr %api, ptr %held)
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %many)
  ret ptr null
decline:
  %clear = get ptr %api API.clear_error
  call void %clear()
  ret ptr inttoptr (i64 1 to ptr)
}

define internal void @release_memory(ptr %api, ptr %pointer) {
entry:
  %nothing = icmp eq ptr %pointer, null
  br i1 %nothing, label %done, label %drop
drop:
  %decref = get ptr %api API.decref
  call void %decref(ptr %pointer)
  br label %done
done:
  ret void
}
"""


def describe(
    call: PythonCall, device: DeviceCall, record_of: Mapping[str, int], records: int,
    slots: Sequence[int], keep: list[Any],
) -> tuple[dict[str, list[list[int]]], dict[str, int]]:  # fmt: skip
    """What a table needs beside its records to launch natively: lists of rows, and words.

    Args:
        call: what it serves.
        device: its launches.
        record_of: places of the arguments' records by name.
        records: how many there are.
        slots: where each leaf of the arguments is.
        keep: takes what the table points at.

    Raises:
        NotServed: there is more than the dispatcher has room for.
    """
    outputs = [*device.wanted, *(name for name in device.made if name not in device.wanted)]
    base_of = {name: records + k for k, name in enumerate(outputs)} | dict(record_of)
    base_of |= {"": records + len(outputs), "counters": records + len(outputs) + 1}
    function, leaves = device.compared.function, device.compared.leaves
    if (
        len(outputs) > layout.MOST_OUTPUTS or base_of["counters"] >= layout.MOST_BASES
        or len(device.template) > layout.MOST_WORDS
        or len(device.wanted) + len(leaves) > layout.MOST_LEAVES
    ):  # fmt: skip
        raise NotServed
    made = []
    for name in outputs:
        if name not in device.made:
            made.append(layout.words("OUTPUT", given=record_of[name]))
            continue
        lengths, dtype = device.made[name]
        made.append(layout.words("OUTPUT", given=-1, descr=id(dtype), rank=len(lengths),
                                 dims=native(keep, [lengths])))  # fmt: skip
        keep.append(dtype)
    parts = [(layout.MADE, k) for k in range(len(device.wanted))]
    parts += [(layout.GIVEN, slots[leaf]) for leaf in leaves]
    rows = {
        "outputs": made,
        "operands": [
            layout.words("OPERAND", place=word, base=base_of[name], within=word)
            for word, name in device.operands
        ],
        "scalars": [
            scalar_row(word, dtype, type(call.leaves[leaf]), leaf)
            for word, leaf, dtype in device.scalars
        ],
        "launches": [layout.words("LAUNCH", **launch) for launch in device.launches],
        "leaves": [layout.words("LEAF", kind=kind, index=index) for kind, index in parts],
    }
    room = device.scratch_bytes or None
    keep += [device, room]
    return rows, {
        "words": len(device.template), "template": native(keep, [device.template]),
        "device": device.device, "room": 0 if room is None else id(room),
        "counters": 0 if device.counters is None else id(device.counters),
        "flags": layout.COMPOSED, "handed": int(function is not None),
        "assembled": 0 if function is None else id(function),
    }  # fmt: skip
