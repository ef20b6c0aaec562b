"""The dispatcher's second half, as text: memory, loop nests, results.

A table's template is what `sequence` runs; each call fills a copy of it on the stack. Values are
converted (`values`) before anything is allocated: what Python has to see goes there with nothing
done yet. While a table serves, its context's count of running
calls says so, and its memory is not given back. A table with the status flag writes only into
new arrays, so that Python can begin anew after a status as well.

Calls whose work is short (`brief`) do what is common to all of them, and nothing else. A table
that needs no temporaries, no status and no pool has a scratch: a second copy of its template,
which every such call fills and runs in place. The GIL is held from the first word that is written
to the end of the kernel, and nothing between them runs Python, so that no other call can write
there; what may run Python, allocating the results, comes before.
"""

from __future__ import annotations

from fuser.backends.cpu.entries import match

TEXT = """\
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @addresses(ptr %table, ptr %bases, ptr %words) alwaysinline {
entry:
  %count = get i64 %table TABLE.operands
  %list = get ptr %table TABLE.operand_list
  for %k below %count else done
  %operand = row OPERAND %list %k
  %place = get i64 %operand OPERAND.place
  %base = get i64 %operand OPERAND.base
  %within.at = get i64 %operand OPERAND.within
  %address = at i64 %bases %base
  %within = at i64 %words %within.at
  %sum = add i64 %address, %within
  set i64 %sum %words %place
  next %k
done:
  ret void
}

define internal i32 @run(ptr %context, ptr %api, ptr %table, ptr %words, i1 %long,
                         ptr %team) alwaysinline {
entry:
  %nests = get i64 %table TABLE.nests
  %queue = get ptr %context CONTEXT.queue
  %gathers = icmp ne ptr %queue, null
  br i1 %gathers, label %gather, label %now
gather:
  %waits = call i1 @gather(ptr %queue, ptr %api, ptr %table, ptr %words, i64 %nests)
  br i1 %waits, label %later, label %now
later:
  ret i32 0
now:
  br i1 %long, label %released, label %held
held:
  %is.one = icmp eq i64 %nests, 1
  br i1 %is.one, label %one, label %several
one:
  %kernel = load ptr, ptr %words
  %outer = get i64 %words HEAD.outer
  %inner = get i64 %words HEAD.inner
  %block = getelementptr i8, ptr %words, i64 HEAD.size
  %only = call i32 %kernel(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  ret i32 %only
several:
  %status = call i32 @sequence(ptr %words, i64 %nests, ptr %team)
  ret i32 %status
released:
  %release = get ptr %api API.release
  %thread = call ptr %release()
  %late = call i32 @sequence(ptr %words, i64 %nests, ptr %team)
  %acquire = get ptr %api API.acquire
  call void %acquire(ptr %thread)
  ret i32 %late
}

define internal ptr @serve(ptr %context, ptr %api, ptr %table, ptr %args, ptr %bases,
                           ptr %symbols, i64 %work) {
entry:
  %made = alloca [LAYOUT.MOST_OUTPUTS x ptr]
  %room = alloca [LAYOUT.MOST_RANK x i64]
  %count = get i64 %table TABLE.words
  %template = get ptr %table TABLE.template
  %words = alloca i64, i64 %count, align 16
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %words, ptr %template, i64 %bytes, i1 false)
  call void @lay_out(ptr %table, ptr %symbols, ptr %words)
  %limit = get i64 %table TABLE.limit
  %patience = get i64 %table TABLE.patience
  %short = icmp ult i64 %work, %limit
  br i1 %short, label %values, label %slow
values:
  %scalars = get i64 %table TABLE.scalars
  %no.scalars = icmp eq i64 %scalars, 0
  br i1 %no.scalars, label %outputs, label %convert
convert:
  %converted = call i1 @convert(ptr %api, ptr %table, ptr %bases, ptr %symbols, ptr %words)
  br i1 %converted, label %outputs, label %slow
outputs:
  %allocated = call i1 @results(ptr %api, ptr %table, ptr %args, ptr %bases, ptr %symbols,
                                ptr %made, ptr %room)
  br i1 %allocated, label %temporaries, label %error
temporaries:
  %output.count = get i64 %table TABLE.outputs
  %record.count = get i64 %table TABLE.records
  %first = add i64 %record.count, %output.count
  %temporary.count = get i64 %table TABLE.temporaries
  %no.temporaries = icmp eq i64 %temporary.count, 0
  br i1 %no.temporaries, label %launch, label %measure
measure:
  %need = call i64 @room(ptr %table, ptr %bases, ptr %symbols, i64 %first)
  %roomy = add i64 %need, 64
  %little = icmp ult i64 %roomy, 32768
  br i1 %little, label %on.stack, label %on.heap
on.stack:
  %stack = alloca i8, i64 %roomy, align 64
  br label %placed
on.heap:
  %pool.malloc = get ptr %api API.pool_malloc
  %have.pool = icmp ne ptr %pool.malloc, null
  %pooled.from = get i64 %api API.pooled_bytes
  %large = icmp uge i64 %roomy, %pooled.from
  %pooled = and i1 %have.pool, %large
  br i1 %pooled, label %in.pool, label %in.heap
in.pool:
  %block = call ptr %pool.malloc(ptr null, i64 %roomy)
  br label %heap
in.heap:
  %malloc = get ptr %api API.malloc
  %chunk = call ptr %malloc(i64 %roomy)
  br label %heap
heap:
  %got = phi ptr [ %block, %in.pool ], [ %chunk, %in.heap ]
  %free.pool = phi i1 [ true, %in.pool ], [ false, %in.heap ]
  %none = icmp eq ptr %got, null
  br i1 %none, label %no.memory, label %placed
placed:
  %space = phi ptr [ %stack, %on.stack ], [ %got, %heap ]
  %heaped = phi i1 [ false, %on.stack ], [ true, %heap ]
  %back = phi i1 [ false, %on.stack ], [ %free.pool, %heap ]
  %number = ptrtoint ptr %space to i64
  %up = add i64 %number, 63
  %start = and i64 %up, -64
  br label %shift
shift:
  %t = phi i64 [ 0, %placed ], [ %t1, %shift ]
  %t.place = add i64 %first, %t
  %t.offset = at i64 %bases %t.place
  %t.address = add i64 %t.offset, %start
  set i64 %t.address %bases %t.place
  %t1 = add i64 %t, 1
  %t.more = icmp ult i64 %t1, %temporary.count
  br i1 %t.more, label %shift, label %launch
launch:
  %owned = phi i1 [ false, %temporaries ], [ %heaped, %shift ]
  %memory = phi ptr [ null, %temporaries ], [ %space, %shift ]
  %to.pool = phi i1 [ false, %temporaries ], [ %back, %shift ]
  %size = phi i64 [ 0, %temporaries ], [ %roomy, %shift ]
  call void @addresses(ptr %table, ptr %bases, ptr %words)
  %flags = get i64 %table TABLE.flags
  %long.bit = and i64 %flags, LAYOUT.LONG
  %always = icmp ne i64 %long.bit, 0
  %takes.long = icmp uge i64 %work, %patience
  %long = or i1 %always, %takes.long
  %team = get ptr %api API.team
  %status = call i32 @run(ptr %context, ptr %api, ptr %table, ptr %words, i1 %long, ptr %team)
  br i1 %owned, label %give.back, label %finished
give.back:
  br i1 %to.pool, label %free.pooled, label %free.plain
free.pooled:
  %pool.free = get ptr %api API.pool_free
  call void %pool.free(ptr null, ptr %memory, i64 %size)
  br label %finished
free.plain:
  %free = get ptr %api API.free
  call void %free(ptr %memory)
  br label %finished
finished:
  %met = icmp ne i32 %status, 0
  %watched.bit = and i64 %flags, LAYOUT.STATUS
  %watched = icmp ne i64 %watched.bit, 0
  %again = and i1 %met, %watched
  br i1 %again, label %discard, label %give
discard:
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %output.count)
  br label %slow
give:
  call void @hit(ptr %context)
  %result = call ptr @hand_over(ptr %api, ptr %table, ptr %args, ptr %made)
  ret ptr %result
no.memory:
  call void @forget(ptr %api, ptr %table, ptr %made, i64 %output.count)
  %say = get ptr %api API.no_memory
  %null = call ptr %say()
  ret ptr null
error:
  ret ptr null
slow:
  ret ptr inttoptr (i64 1 to ptr)
}

define ptr @dispatch(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) {
entry:
  %bases = alloca [LAYOUT.MOST_BASES x i64], align 16
  %symbols = alloca [LAYOUT.MOST_SYMBOLS x i64], align 16
  %flat = alloca [LAYOUT.MOST_ARGUMENTS x ptr], align 16
  %context = get ptr %self FUNCTION.context
  %api = get ptr %context CONTEXT.api
  %n = and i64 %nargsf, 9223372036854775807
  %mode.word = get ptr %context CONTEXT.mode
  %mode = load i64, ptr %mode.word
  %expected = get i64 %context CONTEXT.expected
  %same.mode = icmp eq i64 %mode, %expected
  br i1 %same.mode, label %names, label %slow
names:
  %tables = get ptr %context CONTEXT.tables
  %count = get i64 %context CONTEXT.count
  %plain = icmp eq ptr %kwnames, null
  br i1 %plain, label %start, label %named
named:
  %name.count = get i64 %kwnames OBJECT.length
  br label %start
start:
  %given = phi i64 [ 0, %names ], [ %name.count, %named ]
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %k1, %next ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %try, label %plainly
""" + match.COMPARE + """\
  br i1 %matched, label %restricted, label %next
restricted:
  %conditions = get i64 %table TABLE.conditions
  %no.conditions = icmp eq i64 %conditions, 0
  br i1 %no.conditions, label %found, label %evaluate
evaluate:
  %held.all = call i1 @holds(ptr %table, ptr %bases, ptr %symbols)
  br i1 %held.all, label %found, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
found:
  %is.first = icmp eq i64 %k, 0
  br i1 %is.first, label %serve, label %to.front
to.front:
  %other = load ptr, ptr %tables
  set ptr %other %tables %k
  store ptr %table, ptr %tables
  br label %serve
serve:
  %before = get i64 %context CONTEXT.running
  %more = add i64 %before, 1
  put i64 %more %context CONTEXT.running
  %held = get i64 %table TABLE.held
  %holds = icmp ne i64 %held, 0
  br i1 %holds, label %hold, label %choose
hold:
  call void @hold(ptr %api, ptr %table, ptr %values, i1 true)
  br label %choose
choose:
  %callee = get ptr %table TABLE.callee
  %is.kernels = icmp eq ptr %callee, null
  br i1 %is.kernels, label %kernels, label %ask
ask:
  %launches = get i64 %table TABLE.launches
  %is.native = icmp ne i64 %launches, 0
  br i1 %is.native, label %on.device, label %in.python
on.device:
  %launched = call ptr @on_device(ptr %context, ptr %api, ptr %table, ptr %values, ptr %bases,
                                  ptr %symbols)
  %declined = icmp eq ptr %launched, inttoptr (i64 1 to ptr)
  br i1 %declined, label %in.python, label %served
in.python:
  %answered = call ptr @ask(ptr %context, ptr %api, ptr %table, ptr %values)
  br label %served
kernels:
  %prologue = get ptr %table TABLE.prologue
  %no.prologue = icmp eq ptr %prologue, null
  br i1 %no.prologue, label %begin, label %prepare
prepare:
  %computed = call ptr @prepare(ptr %api, ptr %table, ptr %values, ptr %bases)
  %unready = icmp eq ptr %computed, null
  br i1 %unready, label %served, label %begin
begin:
  %numbers = phi ptr [ null, %kernels ], [ %computed, %prepare ]
  %scale = getelementptr i8, ptr %table, i64 TABLE.work_factor
  %work = call i64 @scaled(ptr %scale, ptr %symbols)
  %brief = get i64 %table TABLE.brief
  %is.brief = icmp ult i64 %work, %brief
  br i1 %is.brief, label %briefly, label %fully
briefly:
  %soon = call ptr @brief(ptr %context, ptr %api, ptr %table, ptr %values, ptr %bases,
                          ptr %symbols)
  br label %served
fully:
  %late = call ptr @serve(ptr %context, ptr %api, ptr %table, ptr %values, ptr %bases,
                          ptr %symbols, i64 %work)
  br label %served
served:
  %result = phi ptr [ %soon, %briefly ], [ %late, %fully ],
                    [ %answered, %in.python ], [ %launched, %on.device ],
                    [ inttoptr (i64 1 to ptr), %prepare ]
  %kept = phi ptr [ %numbers, %briefly ], [ %numbers, %fully ], [ null, %in.python ],
                  [ null, %on.device ], [ null, %prepare ]
  %has.numbers = icmp ne ptr %kept, null
  br i1 %has.numbers, label %drop.numbers, label %release
drop.numbers:
  %decref = get ptr %api API.decref
  call void %decref(ptr %kept)
  br label %release
release:
  br i1 %holds, label %let.go, label %leave
let.go:
  call void @hold(ptr %api, ptr %table, ptr %values, i1 false)
  br label %leave
leave:
  %during = get i64 %context CONTEXT.running
  %less = sub i64 %during, 1
  put i64 %less %context CONTEXT.running
  %refused = icmp eq ptr %result, inttoptr (i64 1 to ptr)
  br i1 %refused, label %next, label %give
give:
  ret ptr %result
plainly:
  %known = call ptr @plain(ptr %context, ptr %api, ptr %args, i64 %n, ptr %kwnames, i64 %given,
                           ptr %bases, ptr %symbols)
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %refuse, label %slow
refuse:
  %python = get ptr %context CONTEXT.vectorcall
  %theirs = call ptr %python(ptr %known, ptr %args, i64 %n, ptr %kwnames)
  ret ptr %theirs
slow:
  %slow.object = get ptr %context CONTEXT.slow
  %vectorcall = get ptr %context CONTEXT.vectorcall
  %answer = call ptr %vectorcall(ptr %slow.object, ptr %args, i64 %n, ptr %kwnames)
  ret ptr %answer
}

define internal ptr @brief(ptr %context, ptr %api, ptr %table, ptr %args, ptr %bases,
                           ptr %symbols) {
entry:
  %made = alloca [LAYOUT.MOST_OUTPUTS x ptr]
  %room = alloca [LAYOUT.MOST_RANK x i64]
  %cell = alloca [2 x i64], align 16
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
  %status = call i32 @run(ptr %context, ptr %api, ptr %table, ptr %words, i1 false, ptr null)
  call void @hit(ptr %context)
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
