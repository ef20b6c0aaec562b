"""The dispatcher's results, as text: arrays to allocate, how they are handed over or forgotten."""

from __future__ import annotations

TEXT = """\
define internal ptr @dims_of(ptr %output, ptr %symbols, ptr %room) alwaysinline {
entry:
  %known = get ptr %output OUTPUT.dims
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %done, label %symbolic
symbolic:
  %rank = get i64 %output OUTPUT.rank
  %codes = get ptr %output OUTPUT.codes
  for %k below %rank else done
  %code = at i64 %codes %k
  %length = at i64 %symbols %code
  set i64 %length %room %k
  next %k
done:
  %dims = phi ptr [ %known, %entry ], [ %room, %k.loop ]
  ret ptr %dims
}

define internal ptr @small_array(ptr %api, ptr %output, ptr %dims) alwaysinline {
entry:
  %rank = get i32 %output OUTPUT.rank
  %strides = get ptr %output OUTPUT.strides
  %type = get ptr %api API.ndarray
  %descr = get ptr %output OUTPUT.descr
  %incref = get ptr %api API.incref
  call void %incref(ptr %descr)
  %new = get ptr %api API.new_array
  %made = call ptr %new(ptr %type, ptr %descr, i32 %rank, ptr %dims, ptr %strides,
                        ptr null, i32 0, ptr null)
  ret ptr %made
}

define internal ptr @new_array(ptr %api, ptr %output, ptr %dims) alwaysinline {
entry:
  %large = get i64 %output OUTPUT.pooled
  %is.large = icmp ne i64 %large, 0
  br i1 %is.large, label %choose, label %plain
choose:
  %capsule = get ptr %api API.capsule
  %no.pool = icmp eq ptr %capsule, null
  br i1 %no.pool, label %plain, label %from.pool
plain:
  %made = call ptr @small_array(ptr %api, ptr %output, ptr %dims)
  ret ptr %made
from.pool:
  %set.handler = get ptr %api API.set_handler
  %decref = get ptr %api API.decref
  %before = call ptr %set.handler(ptr %capsule)
  %none = icmp eq ptr %before, null
  br i1 %none, label %failed, label %in.pool
in.pool:
  %got = call ptr @small_array(ptr %api, ptr %output, ptr %dims)
  %ours = call ptr %set.handler(ptr %before)
  call void %decref(ptr %before)
  %nothing = icmp eq ptr %ours, null
  br i1 %nothing, label %done, label %drop
drop:
  call void %decref(ptr %ours)
  br label %done
done:
  ret ptr %got
failed:
  ret ptr null
}

define internal void @forget(ptr %api, ptr %table, ptr %made, i64 %count) {
entry:
  %decref = get ptr %api API.decref
  for %k below %count else done
  %object = at ptr %made %k
  call void %decref(ptr %object)
  next %k
done:
  ret void
}

define internal ptr @given(ptr %api, ptr %record.list, i64 %given, ptr %args) alwaysinline {
entry:
  %record = row RECORD %record.list %given
  %target = call ptr @argument(ptr %api, ptr %record, ptr %args)
  %incref = get ptr %api API.incref
  call void %incref(ptr %target)
  ret ptr %target
}

define internal i1 @results(ptr %api, ptr %table, ptr %args, ptr %bases, ptr %symbols,
                          ptr %made, ptr %room) alwaysinline {
entry:
  %count = get i64 %table TABLE.outputs
  %list = get ptr %table TABLE.output_list
  %records = get i64 %table TABLE.records
  %record.list = get ptr %table TABLE.record_list
  for %k below %count else yes
  %output = row OUTPUT %list %k
  %given = get i64 %output OUTPUT.given
  %fresh = icmp slt i64 %given, 0
  br i1 %fresh, label %allocate, label %take
take:
  %target = call ptr @given(ptr %api, ptr %record.list, i64 %given, ptr %args)
  br label %keep
allocate:
  %dims = call ptr @dims_of(ptr %output, ptr %symbols, ptr %room)
  %new = call ptr @new_array(ptr %api, ptr %output, ptr %dims)
  %none = icmp eq ptr %new, null
  br i1 %none, label %failed, label %keep
keep:
  %array = phi ptr [ %target, %take ], [ %new, %allocate ]
  set ptr %array %made %k
  %data = get ptr %array ARRAY.data
  %place = add i64 %records, %k
  set ptr %data %bases %place
  next %k
yes:
  ret i1 true
failed:
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %k)
  ret i1 false
}

define internal ptr @compose(ptr %api, ptr %table, ptr %args, ptr %made) {
entry:
  %parts = alloca [LAYOUT.MOST_LEAVES x ptr]
  %outputs = get i64 %table TABLE.outputs
  %count = get i64 %table TABLE.leaves
  %list = get ptr %table TABLE.leaf_list
  for %k below %count else all
  %leaf = row LEAF %list %k
  %kind = get i64 %leaf LEAF.kind
  %index = get i64 %leaf LEAF.index
  switch i64 %kind, label %constant [
    i64 LAYOUT.MADE, label %output
    i64 LAYOUT.GIVEN, label %argument ]
output:
  %result = at ptr %made %index
  br label %next
argument:
  %given = at ptr %args %index
  br label %next
constant:
  %object = inttoptr i64 %index to ptr
  br label %next
next:
  %part = phi ptr [ %result, %output ], [ %given, %argument ], [ %object, %constant ]
  set ptr %part %parts %k
  next %k
all:
  %function = get ptr %table TABLE.assembled
  %is.plain = icmp eq ptr %function, null
  br i1 %is.plain, label %plain, label %assemble
assemble:
  %vectorcall = get ptr %api API.vectorcall
  %assembled = call ptr %vectorcall(ptr %function, ptr %parts, i64 %count, ptr null)
  br label %finished
plain:
  %flags = get i64 %table TABLE.flags
  %tuple.bit = and i64 %flags, LAYOUT.TUPLE
  %is.tuple = icmp ne i64 %tuple.bit, 0
  br i1 %is.tuple, label %tuple, label %single
single:
  %only = load ptr, ptr %parts
  %incref.one = get ptr %api API.incref
  call void %incref.one(ptr %only)
  br label %finished
tuple:
  %new.tuple = get ptr %api API.new_tuple
  %incref = get ptr %api API.incref
  %first = get i64 %api API.tuple_items
  %together = call ptr %new.tuple(i64 %count)
  %none = icmp eq ptr %together, null
  br i1 %none, label %finished, label %fill
fill:
  %items = getelementptr i8, ptr %together, i64 %first
  for %f below %count else finished
  %item = at ptr %parts %f
  call void %incref(ptr %item)
  set ptr %item %items %f
  next %f
finished:
  %answer = phi ptr [ %assembled, %assemble ], [ %only, %single ], [ null, %tuple ],
                    [ %together, %f.loop ]
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %outputs)
  ret ptr %answer
}

define internal ptr @hand_over(ptr %api, ptr %table, ptr %args, ptr %made) alwaysinline {
entry:
  %flags = get i64 %table TABLE.flags
  %count = get i64 %table TABLE.outputs
  %list = get ptr %table TABLE.output_list
  for %k below %count else all
  %output = row OUTPUT %list %k
  %generic = get i64 %output OUTPUT.generic
  %plain = icmp eq i64 %generic, 0
  br i1 %plain, label %k.next, label %convert
convert:
  %array = at ptr %made %k
  %to.scalar = get ptr %api API.to_scalar
  %scalar = call ptr %to.scalar(ptr %array)
  set ptr %scalar %made %k
  next %k
all:
  %composed.bit = and i64 %flags, LAYOUT.COMPOSED
  %is.composed = icmp ne i64 %composed.bit, 0
  br i1 %is.composed, label %compose, label %single
compose:
  %composed = call ptr @compose(ptr %api, ptr %table, ptr %args, ptr %made)
  ret ptr %composed
single:
  %only = load ptr, ptr %made
  ret ptr %only
}
"""
