"""The team's code: threads that wait for jobs, share their chunks and leave the caller's processor.

`workers.py` says how the team works and starts it.
"""

from __future__ import annotations

#: Looks of a worker for its next job before it sleeps: 80 us, between calls of a small function, or
#: between loop nests of a time step while the caller does a short one alone.
SPINS = 8000
#: Jobs in a row that no worker joined, after which workers leave the caller's processor.
MISSED = 2
#: Added to a number of helpers: chunks are taken in order; those in line may be computed as one.
ORDERED, TOGETHER = 256, 512
#: The same: workers that sleep are not worth waking for this, unless such work comes so often in a
#: row, in so many ticks of the processor's clock each: awake, they will spin until the next.
BRIEF, OFTEN, TICKS = 1024, 4, 60_000
#: Chunks that are computed as one at most: less is spent between them, and nobody waits for long.
AT_ONCE = 4
#: Workers at most, and bytes of a set of processors.
MOST_WORKERS, SET_BYTES = 255, 1024

SYSCALLS = {
    "x86_64": {"futex": 202, "gettid": 186, "getaffinity": 204, "setaffinity": 203},
    "aarch64": {"futex": 98, "gettid": 178, "getaffinity": 123, "setaffinity": 122},
}

_TEXT = """\
%job = type {{ ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64 }}
@job = internal global %job zeroinitializer, align 64
@generation = global i32 0, align 64
@next = internal global [256 x [8 x i64]] zeroinitializer, align 64
@ticket = global i32 0, align 64
@finished = global i32 0, align 64
@sleeping = global i32 0, align 64
@alive = global i32 0, align 64
@brief.at = global i64 0, align 64
@brief.run = internal global i32 0
@busy = global i32 0, align 64
@status = internal global i32 0
@spins = global i32 {spins}
@tasks = global [256 x i32] zeroinitializer, align 64
@caller.place = internal global i32 -1, align 64
@crowded = internal global i32 0
@missed = internal global i32 0

declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
{declared}
declare void @llvm.x86.sse2.pause()

; A thread does its own share, then takes of the others' while more than %kept chunks are left
; there: their operands lie in another's cache, and who shares in the work does its own last one.
define internal void @chunks(i64 %me, i64 %kept) {{
entry:
  %fn = load ptr, ptr @job
  %block = load ptr, ptr getelementptr (i8, ptr @job, i64 8)
  %outer = load i64, ptr getelementptr (i8, ptr @job, i64 16)
  %inner = load i64, ptr getelementptr (i8, ptr @job, i64 24)
  %ochunk = load i64, ptr getelementptr (i8, ptr @job, i64 32)
  %ichunk = load i64, ptr getelementptr (i8, ptr @job, i64 40)
  %iparts = load i64, ptr getelementptr (i8, ptr @job, i64 48)
  %total = load i64, ptr getelementptr (i8, ptr @job, i64 56)
  %shares = load i64, ptr getelementptr (i8, ptr @job, i64 64)
  %most.once = load i64, ptr getelementptr (i8, ptr @job, i64 72)
  br label %share
share:
  %k = phi i64 [ 0, %entry ], [ %k1, %empty ]
  %ahead = add i64 %me, %k
  %s = urem i64 %ahead, %shares
  %place = getelementptr [8 x i64], ptr @next, i64 %s
  %s1 = add i64 %s, 1
  %most = mul i64 %s1, %total
  %end = udiv i64 %most, %shares
  %is.own = icmp eq i64 %k, 0
  %spare = select i1 %is.own, i64 0, i64 %kept
  br label %loop
loop:
  %seen.next = load atomic i64, ptr %place monotonic, align 8
  %first.kept = add i64 %seen.next, %spare
  %left = icmp ult i64 %first.kept, %end
  br i1 %left, label %take, label %empty
take:  ; half of what is left, but at most so many, and one at least
  %rest = sub i64 %end, %seen.next
  %half = lshr i64 %rest, 1
  %is.much = icmp ugt i64 %half, %most.once
  %wanted = select i1 %is.much, i64 %most.once, i64 %half
  %is.none = icmp eq i64 %wanted, 0
  %count = select i1 %is.none, i64 1, i64 %wanted
  %c = atomicrmw add ptr %place, i64 %count acq_rel
  %some = icmp ult i64 %c, %end
  br i1 %some, label %work, label %empty
work:
  %after = add i64 %c, %count
  %is.past = icmp ugt i64 %after, %end
  %until = select i1 %is.past, i64 %end, i64 %after
  %last = sub i64 %until, 1
  %o.last = udiv i64 %last, %iparts
  %i.last = urem i64 %last, %iparts
  %o = udiv i64 %c, %iparts
  %i = urem i64 %c, %iparts
  %ob = mul i64 %o, %ochunk
  %ol = mul i64 %o.last, %ochunk
  %oe0 = add i64 %ol, %ochunk
  %ocut = icmp ult i64 %oe0, %outer
  %oe = select i1 %ocut, i64 %oe0, i64 %outer
  %ib = mul i64 %i, %ichunk
  %il = mul i64 %i.last, %ichunk
  %ie0 = add i64 %il, %ichunk
  %icut = icmp ult i64 %ie0, %inner
  %ie = select i1 %icut, i64 %ie0, i64 %inner
  %got = call i32 %fn(ptr %block, i64 %ob, i64 %oe, i64 %ib, i64 %ie)
  %seen = atomicrmw or ptr @status, i32 %got acq_rel
  br label %loop
empty:
  %k1 = add i64 %k, 1
  %others = icmp ult i64 %k1, %shares
  br i1 %others, label %share, label %done
done:
  ret void
}}

define internal i32 @wait(ptr %word, i32 %old) {{
entry:
  %limit = load i32, ptr @spins
  br label %spin
spin:
  %n = phi i32 [ 0, %entry ], [ %n1, %again ]
  %now = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %now, %old
  br i1 %changed, label %done, label %again
again:
  {pause}
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, %limit
  br i1 %more, label %spin, label %sleep
sleep:
  %s = atomicrmw add ptr @sleeping, i32 1 seq_cst
  %check = load atomic i32, ptr %word seq_cst, align 4
  %still = icmp eq i32 %check, %old
  br i1 %still, label %futex, label %awake
futex:
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 128,
              i32 %old, ptr null, ptr null, i32 0)
  br label %awake
awake:
  %t = atomicrmw sub ptr @sleeping, i32 1 seq_cst
  %after = load atomic i32, ptr %word acquire, align 4
  %moved = icmp ne i32 %after, %old
  br i1 %moved, label %done, label %sleep
done:
  %result = phi i32 [ %now, %spin ], [ %after, %awake ]
  ret i32 %result
}}

define internal void @wake(ptr %word, i32 %count) {{
entry:
  fence seq_cst
  %s = load atomic i32, ptr @sleeping seq_cst, align 4
  %any = icmp ne i32 %s, 0
  br i1 %any, label %call, label %done
call:
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129,
              i32 %count, ptr null, ptr null, i32 0)
  br label %done
done:
  ret void
}}

; Workers are moved from the caller's processor to others that it may use, and may return.
define void @spread(i32 %here) {{
entry:
  %set = alloca [{set_bytes} x i8], align 8
  %bytes = call i64 (i64, ...) @syscall(i64 {getaffinity}, i32 0, i64 {set_bytes}, ptr %set)
  %byte = lshr i32 %here, 3
  %wide = zext i32 %byte to i64
  %got = icmp slt i64 %wide, %bytes
  br i1 %got, label %clear, label %done
clear:
  %place = getelementptr i8, ptr %set, i32 %byte
  %old = load i8, ptr %place
  %low = and i32 %here, 7
  %bit = shl i32 1, %low
  %narrow = trunc i32 %bit to i8
  %others = xor i8 %narrow, -1
  %new = and i8 %old, %others
  br label %next
next:
  %k = phi i64 [ 0, %clear ], [ %k1, %move ]
  %entry.place = getelementptr i32, ptr @tasks, i64 %k
  %task = load atomic i32, ptr %entry.place monotonic, align 4
  %some = icmp ne i32 %task, 0
  br i1 %some, label %move, label %done
move:  ; refused where no other processor is allowed
  store i8 %new, ptr %place
  %moved = call i64 (i64, ...) @syscall(i64 {setaffinity}, i32 %task, i64 %bytes, ptr %set)
  store i8 %old, ptr %place
  %freed = call i64 (i64, ...) @syscall(i64 {setaffinity}, i32 %task, i64 %bytes, ptr %set)
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, {most}
  br i1 %more, label %next, label %done
done:
  ret void
}}

define ptr @worker(ptr %seen.at.start) {{
entry:
  %start = ptrtoint ptr %seen.at.start to i64
  %first = trunc i64 %start to i32
  %number = lshr i64 %start, 32
  %task = call i64 (i64, ...) @syscall(i64 {gettid})
  %task.number = trunc i64 %task to i32
  %row = sub i64 %number, 1
  %entry.place = getelementptr i32, ptr @tasks, i64 %row
  store atomic i32 %task.number, ptr %entry.place release, align 4
  %born = atomicrmw add ptr @alive, i32 1 acq_rel
  br label %loop
loop:
  %seen = phi i32 [ %first, %entry ], [ %now, %next ]
  %now = call i32 @wait(ptr @generation, i32 %seen)
  %t0 = load atomic i32, ptr @ticket acquire, align 4
  br label %take
take:
  %t = phi i32 [ %t0, %loop ], [ %other, %again ]
  %job.count = and i32 %t, -256
  %same = icmp eq i32 %job.count, %now
  %free = and i32 %t, 255
  %some = icmp ne i32 %free, 0
  %wanted = and i1 %same, %some
  br i1 %wanted, label %try, label %next
try:
  %less = sub i32 %t, 1
  %pair = cmpxchg ptr @ticket, i32 %t, i32 %less acq_rel acquire
  %other = extractvalue {{ i32, i1 }} %pair, 0
  %got = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %got, label %join, label %again
again:
  br label %take
join:
  %shares = load i64, ptr getelementptr (i8, ptr @job, i64 64)
  %mine = urem i64 %number, %shares
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr @caller.place monotonic, align 4
  %together = icmp eq i32 %here, %there
  br i1 %together, label %tell, label %share
tell:
  store atomic i32 1, ptr @crowded monotonic, align 4
  br label %share
share:
  call void @chunks(i64 %mine, i64 1)
  %before = atomicrmw add ptr @finished, i32 1 acq_rel
  call void @wake(ptr @finished, i32 1)
  br label %next
next:
  br label %loop
}}

define i32 @team(ptr %fn, ptr %block, i64 %outer, i64 %inner, i64 %ochunk, i64 %ichunk,
                 i64 %iparts, i64 %total, i32 %wanted) {{
entry:
  %helpers = and i32 %wanted, 255
  %brief.bit = and i32 %wanted, {brief}
  %is.brief = icmp ne i32 %brief.bit, 0
  br i1 %is.brief, label %look, label %share
look:  ; whether enough workers are awake, or will be wanted again soon
  %alive = load atomic i32, ptr @alive monotonic, align 4
  %sleeping = load atomic i32, ptr @sleeping monotonic, align 4
  %awake = sub i32 %alive, %sleeping
  %parked = icmp slt i32 %awake, %helpers
  br i1 %parked, label %count, label %share
count:
  %tick = {clock}
  %before = load atomic i64, ptr @brief.at monotonic, align 8
  %since = sub i64 %tick, %before
  %soon = icmp ult i64 %since, {ticks}
  %row = load atomic i32, ptr @brief.run monotonic, align 4
  %longer = add i32 %row, 1
  %run = select i1 %soon, i32 %longer, i32 0
  store atomic i32 %run, ptr @brief.run monotonic, align 4
  %often = icmp uge i32 %run, {often}
  br i1 %often, label %share, label %by.itself
by.itself:
  %b = call i32 %fn(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  %tock = {clock}
  store atomic i64 %tock, ptr @brief.at monotonic, align 8
  ret i32 %b
share:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %lead, label %alone
alone:
  %a = call i32 %fn(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  ret i32 %a
lead:
  store ptr %fn, ptr @job
  store ptr %block, ptr getelementptr (i8, ptr @job, i64 8)
  store i64 %outer, ptr getelementptr (i8, ptr @job, i64 16)
  store i64 %inner, ptr getelementptr (i8, ptr @job, i64 24)
  store i64 %ochunk, ptr getelementptr (i8, ptr @job, i64 32)
  store i64 %ichunk, ptr getelementptr (i8, ptr @job, i64 40)
  store i64 %iparts, ptr getelementptr (i8, ptr @job, i64 48)
  store i64 %total, ptr getelementptr (i8, ptr @job, i64 56)
  store i32 0, ptr @status
  %more.helpers = zext i32 %helpers to i64
  %all.shares = add i64 %more.helpers, 1
  %ordered.bit = and i32 %wanted, {ordered}
  %ordered = icmp ne i32 %ordered.bit, 0
  %together.bit = and i32 %wanted, {together}
  %may.join = icmp ne i32 %together.bit, 0
  %one.column = icmp eq i64 %iparts, 1
  %one.row = icmp eq i64 %iparts, %total
  %in.line = or i1 %one.column, %one.row
  %joins = and i1 %may.join, %in.line
  %most.once = select i1 %joins, i64 {at_once}, i64 1
  store i64 %most.once, ptr getelementptr (i8, ptr @job, i64 72)
  %shares = select i1 %ordered, i64 1, i64 %all.shares
  store i64 %shares, ptr getelementptr (i8, ptr @job, i64 64)
  br label %deal
deal:
  %s = phi i64 [ 0, %lead ], [ %s1, %deal ]
  %part = mul i64 %s, %total
  %begin = udiv i64 %part, %shares
  %place = getelementptr [8 x i64], ptr @next, i64 %s
  store atomic i64 %begin, ptr %place monotonic, align 8
  %s1 = add i64 %s, 1
  %more = icmp ult i64 %s1, %shares
  br i1 %more, label %deal, label %call
call:
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr @caller.place monotonic, align 4
  store atomic i32 0, ptr @finished monotonic, align 4
  %g = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %g, 256
  %tickets = or i32 %new, %helpers
  store atomic i32 %tickets, ptr @ticket release, align 4
  store atomic i32 %new, ptr @generation seq_cst, align 4
  call void @wake(ptr @generation, i32 %helpers)
  call void @chunks(i64 0, i64 1)
  %old = atomicrmw xchg ptr @ticket, i32 %new acq_rel
  %unused = and i32 %old, 255
  %joined = sub i32 %helpers, %unused
  %none = icmp eq i32 %joined, 0
  %missed.before = load i32, ptr @missed
  %missed.more = add i32 %missed.before, 1
  %missed.now = select i1 %none, i32 %missed.more, i32 0
  store i32 %missed.now, ptr @missed
  %missing = icmp eq i32 %missed.now, {missed}
  %crowd = load atomic i32, ptr @crowded monotonic, align 4
  %close = icmp ne i32 %crowd, 0
  %apart.wanted = or i1 %missing, %close
  br i1 %apart.wanted, label %leave, label %until
leave:
  store atomic i32 0, ptr @crowded monotonic, align 4
  call void @spread(i32 %here)
  br label %until
until:
  %done = load atomic i32, ptr @finished acquire, align 4
  %all = icmp eq i32 %done, %joined
  br i1 %all, label %finish, label %pause
pause:
  %ignored = call i32 @wait(ptr @finished, i32 %done)
  br label %until
finish:  ; what nobody came for
  call void @chunks(i64 0, i64 0)
  %found = load i32, ptr @status
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %found
}}
"""


def text(machine: str) -> str:
    """LLVM IR for a kind of processor, one of `SYSCALLS`."""
    intel = machine == "x86_64"
    code = _TEXT.format(
        **SYSCALLS[machine],
        pause="call void @llvm.x86.sse2.pause()" if intel else "fence seq_cst",
        spins=SPINS,
        missed=MISSED,
        most=MOST_WORKERS,
        ordered=ORDERED,
        together=TOGETHER,
        at_once=AT_ONCE,
        set_bytes=SET_BYTES,
        brief=BRIEF,
        often=OFTEN,
        ticks=TICKS,
        declared="declare i64 @llvm.readcyclecounter()" if intel else "",
        clock="call i64 @llvm.readcyclecounter()" if intel else "add i64 0, 0",
    )
    return code if intel else code.replace("declare void @llvm.x86.sse2.pause()\n", "")
