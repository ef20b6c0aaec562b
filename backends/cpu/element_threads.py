"""Iterations of an element loop on several threads, as LLVM IR text.

What iterations read of the function around them is handed over in words. The caller runs the first
iterations itself, a few at a time, until it knows how long the others will take; those that take
long enough are shared with the team, in more parts than there are threads. What they compute does
not depend on it. Only the caller looks at Ctrl-C; the others look whether it has met one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.machine import team_code

#: Words before what is handed over: the iteration with which the team begins, whether to stop, the
#: caller's thread.
_SHIFT, _STOP, _CALLER, _FIRST = range(4)
#: Parts that a thread gets of a loop on average.
_PARTS = 8


class Words:
    """What iterations read, in memory of the caller's."""

    def __init__(self, name: str) -> None:
        """Begin with none, in a variable of this name."""
        self.name = name
        self._count = _FIRST

    @property
    def room(self) -> str:
        """The memory."""
        return f"  {self.name} = alloca [{self._count} x i64], align 16"

    def put(self, b: Body, value: Value) -> None:
        """Add one."""
        self._store(b, self._count, value)
        self._count += 1

    def _store(self, b: Body, place: int, value: Value) -> None:
        """Write one."""
        at = b.value(f"getelementptr i64, ptr {self.name}, i64 {place}", "ptr", 1)
        b.line(f"store {value.typed}, ptr {at.text}")

    def run(self, b: Body, function: str, count: Value, unit: int, team: Value) -> Value:
        """Run all iterations; 0, or why some have ended.

        Args:
            b: where to append.
            function: what runs those of a range, by its name.
            count: how many there are.
            unit: how many run together: parts have a multiple of that.
            team: where the team's function and the number of its threads lie; null without one.
        """
        for place in (_SHIFT, _STOP):
            self._store(b, place, b.iconst(count, 0))
        b.module.declare("pthread_self", "i64", ())
        b.module.declare("clock_gettime", "i32", ("i32", "ptr"))
        b.module.helpers |= HELPERS
        self._store(b, _CALLER, b.value("call i64 @pthread_self()", "i64", 1))
        listed = f"ptr @{function}, ptr {self.name}, {count.typed}, i64 {unit}, {team.typed}"
        return b.value(f"call i32 @share({listed})", "i32", 1)


def get(b: Body, place: int, kind: str) -> Value:
    """Read one of the words in the function that runs iterations."""
    at = b.value(f"getelementptr i64, ptr %block, i64 {_FIRST + place}", "ptr", 1)
    return b.value(f"load {kind}, ptr {at.text}", kind, 1)


def entry(name: str, known: Sequence[tuple[str, str]]) -> str:
    """The function that threads call, which reads the first words; of some types and names."""
    lines = [f"define internal i32 @{name}(ptr %block, i64 %begin, i64 %end, i64 %i, i64 %j) #0 {{",
             "  %shift = load i64, ptr %block",
             "  %first = add i64 %begin, %shift",
             "  %last = add i64 %end, %shift"]  # fmt: skip
    for place, (kind, text) in enumerate(known):
        lines.append(f"  {text}.at = getelementptr i64, ptr %block, i64 {_FIRST + place}")
        lines.append(f"  {text} = load {kind}, ptr {text}.at")
    given = ", ".join(f"{kind} {text}" for kind, text in known)
    given = f"{given}, ptr %block, i64 %first, i64 %last"
    lines += [f"  %status = call i32 @{name}.work({given})", "  ret i32 %status", "}"]
    return "\n".join(lines)


HELPERS = {
    "poll.shared": f"""define internal i1 @poll.shared(ptr %block) noinline cold #0 {{
  %me = call i64 @pthread_self()
  %caller.at = getelementptr i64, ptr %block, i64 {_CALLER}
  %caller = load i64, ptr %caller.at
  %stop.at = getelementptr i64, ptr %block, i64 {_STOP}
  %mine = icmp eq i64 %me, %caller
  br i1 %mine, label %ask, label %see
ask:
  %raised = call i1 @poll()
  br i1 %raised, label %stop, label %on
stop:
  store atomic i64 1, ptr %stop.at monotonic, align 8
  ret i1 true
on:
  ret i1 false
see:
  %seen = load atomic i64, ptr %stop.at monotonic, align 8
  %stops = icmp ne i64 %seen, 0
  ret i1 %stops
}}""",
    "now": """define internal i64 @now() noinline #0 {
  %time = alloca [2 x i64]
  %got = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time
  %ns.at = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %ns.at
  %whole = mul i64 %s, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}""",
    "share": f"""define internal i32 @share(ptr %fn, ptr %block, i64 %count, i64 %unit, ptr %team)
    noinline #0 {{
entry:
  %is.team = icmp ne ptr %team, null
  %several = icmp sgt i64 %count, %unit
  %may = and i1 %is.team, %several
  br i1 %may, label %ask, label %alone
ask:
  %helpers.at = getelementptr i64, ptr %team, i64 1
  %helpers = load i64, ptr %helpers.at
  %help = icmp ne i64 %helpers, 0
  br i1 %help, label %begin, label %alone
alone:
  %whole = call i32 %fn(ptr %block, i64 0, i64 %count, i64 0, i64 1)
  ret i32 %whole
begin:
  %few = lshr i64 %count, 4
  %down = sub i64 0, %unit
  %blocks = and i64 %few, %down
  %none.yet = icmp eq i64 %blocks, 0
  %first = select i1 %none.yet, i64 %unit, i64 %blocks
  %t0 = call i64 @now()
  br label %some
some:
  %done = phi i64 [ 0, %begin ], [ %end, %further ]
  %size = phi i64 [ %first, %begin ], [ %next, %further ]
  %t = phi i64 [ %t0, %begin ], [ %t1, %further ]
  %end.whole = add i64 %done, %size
  %past = icmp ugt i64 %end.whole, %count
  %end = select i1 %past, i64 %count, i64 %end.whole
  %status = call i32 %fn(ptr %block, i64 %done, i64 %end, i64 0, i64 1)
  %stopped = icmp ne i32 %status, 0
  %left = sub i64 %count, %end
  %all = icmp eq i64 %left, 0
  %ends = or i1 %stopped, %all
  br i1 %ends, label %out, label %look
out:
  ret i32 %status
look:
  %t1 = call i64 @now()
  %spent = sub i64 %t1, %t
  %ran = sub i64 %end, %done
  %spent.f = sitofp i64 %spent to double
  %ran.f = sitofp i64 %ran to double
  %left.f = sitofp i64 %left to double
  %each = fdiv double %spent.f, %ran.f
  %wait = fmul double %each, %left.f
  %long = fcmp oge double %wait, {float(tuning.PARALLEL_NS)}
  br i1 %long, label %shared, label %further
further:  ; later iterations may take longer than the first
  %short = fcmp olt double %wait, {tuning.PARALLEL_NS / 32}
  %twice = shl i64 %size, 1
  %next = select i1 %short, i64 %left, i64 %twice
  br label %some
shared:
  store i64 %end, ptr %block
  %threads = add i64 %helpers, 1
  %parts = mul i64 %threads, {_PARTS}
  %part = udiv i64 %left, %parts
  %part.blocks = and i64 %part, %down
  %is.small = icmp eq i64 %part.blocks, 0
  %chunk = select i1 %is.small, i64 %unit, i64 %part.blocks
  %up = add i64 %left, %chunk
  %up.less = sub i64 %up, 1
  %total = udiv i64 %up.less, %chunk
  %others = sub i64 %total, 1
  %more = icmp ult i64 %others, %helpers
  %wanted = select i1 %more, i64 %others, i64 %helpers
  %brief = fcmp olt double %wait, {float(tuning.BRIEF_NS)}
  %bit = select i1 %brief, i64 {team_code.BRIEF}, i64 0
  %both = or i64 %wanted, %bit
  %word = trunc i64 %both to i32
  %run = load ptr, ptr %team
  %found = call i32 %run(ptr %fn, ptr %block, i64 %left, i64 1, i64 %chunk, i64 1, i64 1,
                         i64 %total, i32 %word)
  ret i32 %found
}}""",
}
