"""Calls whose work is short, as text: what is common to all of them, and nothing else.

A table that needs no temporaries, no status and no pool has a scratch: a second copy of its
template, which every such call fills and runs in place. The GIL is held from the first word that
is written to the end of the kernel, and nothing between them runs Python, so that no other call
can write there; what may run Python, allocating the results, comes before.
"""

from __future__ import annotations

TEXT = """\
define internal ptr @brief(ptr %context, ptr %api, ptr %table, ptr %args, ptr %bases,
                           ptr %symbols) {
entry:
  %made = alloca [LAYOUT.MOST_OUTPUTS x ptr]
  %room = alloca [LAYOUT.MOST_RANK x i64]
  %cell = alloca [2 x i64], align 16
  %pairs = get i64 %table TABLE.overlaps
  %no.pairs = icmp eq i64 %pairs, 0
  br i1 %no.pairs, label %outputs, label %overlaps
overlaps:
  %apart = call i1 @apart(ptr %table, ptr %bases, ptr %symbols)
  br i1 %apart, label %outputs, label %slow
outputs:
  %results = get i64 %table TABLE.outputs
  %list = get ptr %table TABLE.output_list
  %given = get i64 %list OUTPUT.given
  %is.fresh = icmp slt i64 %given, 0
  %is.one = icmp eq i64 %results, 1
  %simple = and i1 %is.fresh, %is.one
  br i1 %simple, label %one, label %several
one:
  %generic = get i64 %list OUTPUT.generic
  %flags = get i64 %table TABLE.flags
  %nested = and i64 %flags, LAYOUT.COMPOSED
  %is.number = icmp ne i64 %generic, 0
  %is.bare = icmp eq i64 %nested, 0
  %no.array = and i1 %is.number, %is.bare
  br i1 %no.array, label %number, label %array
number:
  %number.at = get i64 %table TABLE.records
  set ptr %cell %bases %number.at
  br label %fill
array:
  %dims = call ptr @dims_of(ptr %list, ptr %symbols, ptr %room)
  %new = call ptr @small_array(ptr %api, ptr %list, ptr %dims)
  %none = icmp eq ptr %new, null
  br i1 %none, label %error, label %keep
keep:
  %data = get ptr %new ARRAY.data
  %records = get i64 %table TABLE.records
  set ptr %data %bases %records
  store ptr %new, ptr %made
  br label %fill
several:
  %allocated = call i1 @results(ptr %api, ptr %table, ptr %args, ptr %bases, ptr %symbols,
                                ptr %made, ptr %room)
  br i1 %allocated, label %fill, label %error
fill:
  %bare = phi i1 [ true, %number ], [ false, %keep ], [ false, %several ]
  %words = get ptr %table TABLE.scratch
  call void @lay_out(ptr %table, ptr %symbols, ptr %words)
  %scalars = get i64 %table TABLE.scalars
  %no.scalars = icmp eq i64 %scalars, 0
  br i1 %no.scalars, label %launch, label %convert
convert:
  %converted = call i1 @convert(ptr %api, ptr %table, ptr %bases, ptr %symbols, ptr %words)
  br i1 %converted, label %launch, label %discard
launch:
  call void @addresses(ptr %table, ptr %bases, ptr %words)
  %nests = get i64 %table TABLE.nests
  %is.single = icmp eq i64 %nests, 1
  br i1 %is.single, label %run, label %run.all
run:
  %kernel = load ptr, ptr %words
  %outer = get i64 %words HEAD.outer
  %inner = get i64 %words HEAD.inner
  %block = getelementptr i8, ptr %words, i64 HEAD.size
  %status = call i32 %kernel(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  br label %count
run.all:
  %statuses = call i32 @sequence(ptr %words, i64 %nests, ptr null)
  br label %count
count:
  %hits = get i64 %context CONTEXT.hits
  %hits1 = add i64 %hits, 1
  put i64 %hits1 %context CONTEXT.hits
  br i1 %bare, label %make, label %hand
make:
  %descr = get ptr %list OUTPUT.descr
  %new.scalar = get ptr %api API.new_scalar
  %scalar = call ptr %new.scalar(ptr %cell, ptr %descr, ptr null)
  ret ptr %scalar
hand:
  %handed = get i64 %table TABLE.handed
  %as.it.is = icmp eq i64 %handed, 0
  br i1 %as.it.is, label %give, label %wrap
give:
  %first = load ptr, ptr %made
  ret ptr %first
wrap:
  %result = call ptr @hand_over(ptr %api, ptr %table, ptr %args, ptr %made)
  ret ptr %result
discard:
  br i1 %bare, label %slow, label %drop
drop:
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %results)
  br label %slow
error:
  ret ptr null
slow:
  ret ptr inttoptr (i64 1 to ptr)
}
"""
