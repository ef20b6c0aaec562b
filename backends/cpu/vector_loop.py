"""The loops around a section's vector body, and the elements that fill no whole vector.

The body stands in the text once. Whole vectors run on the arrays; what is left over is copied to
a scratch vector (an element repeated, so that no lane holds garbage), goes through the same body,
and is copied back. Where no result lies in memory that is read, what is left over of a row that
has a whole vector is instead the end of one more vector, whose first elements are computed twice.

Whole vectors of light bodies begin where a result's memory is aligned to vectors: stores that
cross lines of the cache take up to twice as long. What is before that in a row, its head, is the
start of one more vector. Where vectors must not overlap, the heads of long rows are a call of
their own, before that of what is aligned.
"""

from __future__ import annotations

from collections.abc import Iterable

from fuser.backends.cpu import conversion, shared_functions
from fuser.backends.cpu.body import UNROLLED, Body, Module, iota, mangled, vector_type
from fuser.backends.cpu.section import Section
from fuser.backends.cpu.shared_functions import ROWS
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT

#: Rows, or vectors of one, from which on it is worth looking whether vectors may overlap.
_ROWS, _LONG_ROW = 4, 32
#: Vectors after the head of a row, at least: where vectors overlap and what is written takes so
#: many bytes, where it takes less, and where vectors must not overlap.
_AFTER_HEAD, _FIRST_CACHE_BYTES = (3, 8, 32), 1 << 16
#: What vectors are: the middle of a row, its head, its end, what is left over in scratch memory.
_MIDDLE, _HEAD, _END, _SCRATCH = range(4)


def emit_section(
    module: Module, nest: LoopNest, name: str, linkage: str = "", stream: bool = False,
    lanes: int = 0,
) -> int:  # fmt: skip
    """Append the function of a map loop nest to a module; returns how many lanes its vectors have.

    The arguments are those of `Section`.
    """
    section = Section(module, nest, name, linkage, stream, lanes)
    section.compute()
    module.functions.append(VectorLoop(section).text())
    return section.lanes


#: What `fuser_rows_flat` is told of one row, and `fuser_rows_nested` of several too.
_SHAPE = ("some.lanes", "aligned", "shift", "line", "far", "far.least", "near.least",
          "apart.least", "loads", "count")  # fmt: skip
_LOOPS = ("loops", "outer", "lengths.at", "strides.at")
#: Each result's row beside each row that is read.
_FLAT = """
  br label %result
result:
  %k = phi i64 [ %loads, %entry ], [ %k1, %read.all ]
  %apart = phi i1 [ true, %entry ], [ %still, %read.all ]
  %size.at = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.at
  %bytes = mul i64 %iend, %size
  %first.at = getelementptr i64, ptr %block, i64 %k
  %first = load i64, ptr %first.at
  %end = add i64 %first, %bytes
  br label %look
look:
  %l = phi i64 [ 0, %result ], [ %l1, %other ]
  %still = phi i1 [ %apart, %result ], [ %still.apart, %other ]
  %more = icmp ult i64 %l, %loads
  br i1 %more, label %other, label %read.all
other:
  %other.size.at = getelementptr i64, ptr %sizes, i64 %l
  %other.size = load i64, ptr %other.size.at
  %other.bytes = mul i64 %iend, %other.size
  %begin.at = getelementptr i64, ptr %block, i64 %l
  %begin = load i64, ptr %begin.at
  %until = add i64 %begin, %other.bytes
  %before = icmp ule i64 %end, %begin
  %after = icmp ule i64 %until, %first
  %beside = or i1 %before, %after
  %still.apart = and i1 %still, %beside
  %l1 = add i64 %l, 1
  br label %look
read.all:
  %k1 = add i64 %k, 1
  %more.results = icmp ult i64 %k1, %count
  br i1 %more.results, label %result, label %all
"""
#: The same of all rows: from where to where an operand's lie is noted, then compared.
_NESTED = """
  %lengths = getelementptr i64, ptr %block, i64 %lengths.at
  %strides = getelementptr i64, ptr %block, i64 %strides.at
  %twice = shl i64 %count, 1
  %spans = alloca i64, i64 %twice
  br label %operand
operand:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %apart = phi i1 [ true, %entry ], [ %still, %next ]
  %all.steps = phi i64 [ 0, %entry ], [ %steps.next, %next ]
  %size.at = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.at
  %pointer.at = getelementptr i64, ptr %block, i64 %k
  %base = load i64, ptr %pointer.at
  %own.strides.at = mul i64 %k, %loops
  %own.strides = getelementptr i64, ptr %strides, i64 %own.strides.at
  br label %axis
axis:
  %d = phi i64 [ 0, %operand ], [ %d1, %along ]
  %first = phi i64 [ %base, %operand ], [ %first1, %along ]
  %last = phi i64 [ %base, %operand ], [ %last1, %along ]
  %steps = phi i64 [ 0, %operand ], [ %steps1, %along ]
  %some.axis = icmp slt i64 %d, %outer
  br i1 %some.axis, label %along, label %spanned
along:
  %length.at = getelementptr i64, ptr %lengths, i64 %d
  %length = load i64, ptr %length.at
  %step.at = getelementptr i64, ptr %own.strides, i64 %d
  %step = load i64, ptr %step.at
  %length.less = sub i64 %length, 1
  %reach = mul i64 %length.less, %step
  %back = icmp slt i64 %reach, 0
  %down = select i1 %back, i64 %reach, i64 0
  %up = select i1 %back, i64 0, i64 %reach
  %first1 = add i64 %first, %down
  %last1 = add i64 %last, %up
  %steps1 = or i64 %steps, %step
  %d1 = add i64 %d, 1
  br label %axis
spanned:
  %row.bytes = mul i64 %iend, %size
  %end = add i64 %last, %row.bytes
  %own.place = shl i64 %k, 1
  %own = getelementptr i64, ptr %spans, i64 %own.place
  store i64 %first, ptr %own
  %own.end = getelementptr i64, ptr %own, i64 1
  store i64 %end, ptr %own.end
  %is.aligned = icmp eq i64 %k, %aligned
  %steps.next = select i1 %is.aligned, i64 %steps, i64 %all.steps
  %is.load = icmp ult i64 %k, %loads
  br i1 %is.load, label %next, label %look
look:
  %l = phi i64 [ 0, %spanned ], [ %l1, %other ]
  %more = icmp ult i64 %l, %loads
  br i1 %more, label %other, label %next
other:
  %at.place = shl i64 %l, 1
  %at = getelementptr i64, ptr %spans, i64 %at.place
  %until.at = getelementptr i64, ptr %at, i64 1
  %begin = load i64, ptr %at
  %until = load i64, ptr %until.at
  %before = icmp ule i64 %end, %begin
  %after = icmp ule i64 %until, %first
  %beside = or i1 %before, %after
  %l1 = add i64 %l, 1
  br i1 %beside, label %look, label %next
next:
  %still = phi i1 [ %apart, %spanned ], [ %apart, %look ], [ false, %other ]
  %k1 = add i64 %k, 1
  %more.operands = icmp ult i64 %k1, %count
  br i1 %more.operands, label %operand, label %all
"""


def rows_text(kind: str) -> str:
    """The module of `fuser_rows_<kind>`: what rows allow, from where operands lie.

    `%shape` are the words that `VectorLoop.shape` lists. The result's last bit says whether a
    row's last vector may overlap the one before it: all that is written lies apart from all that
    is read. The bits before it are then what of an address has to be zero where whole vectors
    begin, 0 for rows that are too short to have a head. Where vectors must not overlap they are
    how many elements all the rows' heads have, 0 where these are no call of their own.

    Args:
        kind: "nested" where there are loops around that over elements, else "flat".
    """
    words: tuple[str, ...] = (*_SHAPE, *_LOOPS)
    looks, steps = _NESTED, "%steps.next"
    if kind == "flat":
        words, looks, steps = _SHAPE, _FLAT, "0"
    shape = "\n".join(
        f"  %{name}.word = getelementptr i64, ptr %shape, i64 {k}\n"
        f"  %{name} = load i64, ptr %{name}.word" for k, name in enumerate(words)
    )  # fmt: skip
    return f"""\
define i64 @{ROWS}{kind}(ptr %block, ptr %shape, i64 %rows, i64 %ibegin, i64 %iend) {{
entry:
{shape}
  %sizes = getelementptr i64, ptr %shape, i64 {len(words)}{looks}all:
  %n = sub i64 %iend, %ibegin
  %rest = and i64 %n, %some.lanes
  %aligned.at = getelementptr i64, ptr %block, i64 %aligned
  %aligned.base = load i64, ptr %aligned.at
  %skipped.bytes = shl i64 %ibegin, %shift
  %address = add i64 %aligned.base, %skipped.bytes
  %bits = or i64 %address, {steps}
  %odd.bits = and i64 %bits, %line
  %odd = or i64 %odd.bits, %rest
  %some.odd = icmp ne i64 %odd, 0
  %again = and i1 %still, %some.odd
  %elements = mul i64 %n, %rows
  %is.far = icmp sge i64 %elements, %far
  %if.again = select i1 %is.far, i64 %far.least, i64 %near.least
  %least = select i1 %again, i64 %if.again, i64 %apart.least
  %is.long = icmp sge i64 %n, %least
  %odd.steps = and i64 {steps}, %line
  %alike = icmp eq i64 %odd.steps, 0
  %missing = sub i64 0, %address
  %head.bytes = and i64 %missing, %line
  %heads = lshr i64 %head.bytes, %shift
  %alike.heads = select i1 %alike, i64 %heads, i64 0
  %if.long = select i1 %again, i64 %line, i64 %alike.heads
  %found = select i1 %is.long, i64 %if.long, i64 0
  %shifted = shl i64 %found, 1
  %kind = zext i1 %again to i64
  %answer = or i64 %shifted, %kind
  ret i64 %answer
}}
"""


shared_functions.register(ROWS, lambda kind, _: rows_text(kind))


class VectorLoop:
    """Puts the levels of a section together."""

    def __init__(self, section: Section) -> None:
        """Take a section whose bodies are complete."""
        self.section = section
        accesses = [desc.access for desc in section.operands]
        self.moving = [k for k, access in enumerate(accesses) if access != INVARIANT]
        self.lanes = section.lanes
        self.kinds = [conversion.MEMORY[desc.dtype] for desc in section.operands]
        self.sizes = [conversion.bytes_of(desc.dtype) for desc in section.operands]
        self.strided = [k for k in self.moving if accesses[k] != CONTIGUOUS]
        self.beside = [k for k in self.moving if accesses[k] == CONTIGUOUS]
        self.counted = [k for k in self.moving if section.operands[k].counted]
        self.stored = [k for k in self.moving if k not in self.counted]
        """What has memory that vectors are read from, or written to."""
        nest = section.nest
        plain = nest.strategy == "map" and self.lanes > 1 and not (
            self.strided or self.counted or section.carried or section.stream
        )
        light = nest.repeated is None and not any(i.row.heavy for i in nest.body)
        self.aligned = max(
            (k for k in self.moving if k >= len(nest.loads) and plain and light),
            key=lambda k: (self.sizes[k], -k), default=-1,
        )
        """The result whose memory whole vectors are aligned to; -1 for none."""
        self.aligns = self.aligned >= 0
        self.overlapping = plain and (nest.rank > 1 or self.aligns)
        """Whether rows may end with a vector of which some elements are computed twice."""

    def text(self) -> str:
        """The function."""
        top, middle, _ = self.section.bodies
        section = self.section
        flagged = any(body.flagged for body in self.section.bodies)
        unrolled = f"{UNROLLED} " if section.nest.strategy == "scatter" and self.lanes == 1 else ""
        lines = [
            (f"define {section.linkage}i32 @{section.name}(ptr %block, i64 %obegin, "
            f"i64 %oend, i64 %ibegin, i64 %iend) {unrolled}#0 {{"),
            "entry:",
            *(["  %flag = alloca i64", "  store i32 0, ptr %flag"] if flagged else []),
            *(f"  %carry{number} = alloca {value.scalar}"
              for number, (value, _) in section.carried.items()),
            *(f"  %scratch{k} = alloca {self._scratch(k)}, align 64" for k in self.stored),
            *top.lines,
            "  %n = sub i64 %iend, %ibegin",
            f"  %rest = urem i64 %n, {self.lanes}",
            "  %last = sub i64 %rest, 1",
            "  %done.elements = sub i64 %n, %rest",
            *(self._mask() if self._masked() else []),
            *(self._last_places() if self.counted else []),
            *(self._look(top.block) if self.overlapping else []),
            "  %some = icmp ult i64 %obegin, %oend",
            "  br i1 %some, label %place, label %done",
            *self._begin_rows("begin" if self.overlapping else top.block),
            *(f"  store {start.typed}, ptr %carry{number}"
              for number, (start, _) in section.carried.items()),
            *middle.lines,
            *self._row(middle.block),
            *self._vector_loop(middle.block),
            *self._left_over(),
            *self._next_row(),
            "done:",
            *(["  %status = load i32, ptr %flag"] if flagged else []),
            "  ret i32 %status" if flagged else "  ret i32 0",
            "}",
        ]
        return "\n".join(lines)

    @property
    def _wraps(self) -> bool:
        """Whether there are loops around that of the rows."""
        return len(self.section.lengths) > 1

    def _begin_rows(self, block: str) -> list[str]:
        """Each operand's address in the first row, and in each one after the rows' loop has ended.

        Else the next row lies one stride on: where an operand begins is not computed anew for
        every row, which takes as long as some vectors do.
        """
        body, section = Body(self.section.module, "p"), self.section
        if not section.lengths:
            section.lay_rows(body, "0", "row")
            return ["place:", *body.lines, "  br label %row", "row:"]
        first = "%o.place" if self._wraps else "%obegin"
        place = section.lay_rows(body, first, "start")
        from_end = "row.more" if self._wraps else "row.end"
        lines = ["place:"]
        if self._wraps:
            lines.append(f"  %o.place = phi i64 [ %obegin, %{block} ], [ %o1, %row.more ]")
            body.line(f"%here = sub i64 {section.lengths[-1]}, {place}")
            body.line("%until = add i64 %o.place, %here")
        return [
            *lines, *body.lines, "  br label %row", "row:",
            f"  %o = phi i64 [ {first}, %place ], [ %o1, %{from_end} ]",
            *(f"  %row{k} = phi ptr [ %start{k}, %place ], [ %next{k}, %{from_end} ]"
              for k in range(len(section.operands))),
        ]  # fmt: skip

    def _next_row(self) -> list[str]:
        """Go on with the next row, one stride on."""
        section = self.section
        if not section.lengths:
            return ["row.end:", "  br label %done"]
        lines = [
            "row.end:",
            "  %o1 = add i64 %o, 1",
            *(f"  %next{k} = getelementptr i8, ptr %row{k}, i64 {outer[-1]}"
              for k, outer in enumerate(section.outer)),
            "  %more.rows = icmp ult i64 %o1, %oend",
            f"  br i1 %more.rows, label %{'row.more' if self._wraps else 'row'}, label %done",
        ]  # fmt: skip
        if self._wraps:
            lines += [
                "row.more:",
                "  %beside = icmp ult i64 %o1, %until",
                "  br i1 %beside, label %row, label %place",
            ]
        return lines

    def _row(self, block: str) -> list[str]:
        """Begin a row: with its head, if it has one, else with the first whole vector."""
        if not self.aligns:
            return [
                f"  %some.vectors = icmp uge i64 %n, {self.lanes}",
                "  br i1 %some.vectors, label %vectors, label %left",
            ]
        return [
            f"  %address = ptrtoint ptr %row{self.aligned} to i64",
            "  %up = sub i64 0, %address",
            "  %head.bytes = and i64 %up, %line",
            f"  %head = udiv i64 %head.bytes, {self.sizes[self.aligned]}",
            "  %after.head = sub i64 %n, %head",
            f"  %row.rest = urem i64 %after.head, {self.lanes}",
            "  %row.done = sub i64 %n, %row.rest",
            "  %some.head = icmp ne i64 %head, 0",
            "  br i1 %some.head, label %vectors, label %middle",
            "middle:",
            f"  %some.vectors = icmp uge i64 %after.head, {self.lanes}",
            "  br i1 %some.vectors, label %vectors, label %left",
        ]

    @property
    def _line_bytes(self) -> int:
        """What whole vectors are aligned to: their own size, at most a native one's."""
        size = self.lanes * self.sizes[self.aligned]
        return min(self.section.module.features.vector_bytes, size)

    def _tails(self, stem: str, operands: Iterable[int]) -> list[str]:
        """Where left-over elements of operands begin, as `%<stem><k>`."""
        lines = []
        for k in operands:
            kind, place = self.kinds[k], "%done.elements"
            if k in self.strided:
                kind, place = "i8", f"%{stem}.past{k}"
                lines.append(f"  {place} = mul i64 %done.elements, {self.section.inner[k]}")
            lines.append(f"  %{stem}{k} = getelementptr {kind}, ptr %row{k}, i64 {place}")
        return lines

    def _scratch(self, k: int) -> str:
        """The type of an operand's left-over vector."""
        return f"[{self.lanes} x {self.kinds[k]}]"

    def _vector_loop(self, row: str) -> list[str]:
        """The loop over whole vectors, entered again for those of which a row has one each."""
        inside, section = self.section.bodies[2], self.section
        vec, lanes = inside.block, self.lanes
        done = "%row.done" if self.aligns else "%done.elements"
        # Where they come from, what they are, from which element to which.
        ways = [("middle" if self.aligns else row, _MIDDLE, "%head" if self.aligns else "0", done)]
        if self.aligns:
            ways.append((row, _HEAD, "0", str(lanes)))
        if self.overlapping:
            ways.append(("back", _END, "%last.vector", "%n"))
        scratch = ("tail.run", _SCRATCH, "0", str(lanes))

        def joined(kind: str, in_row: str, in_scratch: str) -> str:
            found = [f"[ {in_row}, %{block} ]" for block, *_ in ways]
            return f"phi {kind} " + ", ".join([*found, f"[ {in_scratch}, %tail.run ]"])

        lines = ["vectors:"]
        for name, kind, place in (("part", "i8", 1), ("from", "i64", 2), ("to", "i64", 3)):
            found = ", ".join(f"[ {way[place]}, %{way[0]} ]" for way in [*ways, scratch])
            lines.append(f"  %{name} = phi {kind} {found}")
        for k in self.moving:
            left = f"%tail{k}" if k in self.counted else f"%scratch{k}"
            lines.append(f"  %base{k} = {joined('ptr', f'%row{k}', left)}")
        for k in self.strided:
            step = section.inner[k]
            left = step if k in self.counted else str(self.sizes[k])
            lines.append(f"  %st{k} = {joined('i64', step, left)}")
        for k, flag in zip(section.pairs, section.turns, strict=True):
            lines.append(f"  %turns{k} = {joined('i1', flag, 'false')}")
        for number, (start, _) in section.carried.items():
            found = joined(start.type, start.text, f"%carried{number}")
            lines.append(f"  %begun{number} = {found}")
        if self.counted:
            every = iota(lanes)
            lines.append(f"  %places = {joined(every.type, every.text, '%last.places')}")
        lines += ["  br label %vec", "vec:"]
        lines.append(f"  %at = phi i64 [ %from, %vectors ], [ %at.next, %{vec} ]")
        for k in self.strided:
            lines.append(f"  %q{k} = phi ptr [ %base{k}, %vectors ], [ %qn{k}, %{vec} ]")
        for number, (start, after) in section.carried.items():
            lines.append(
                f"  %before{number} = phi {start.type} [ %begun{number}, %vectors ], "
                f"[ {after.text}, %{vec} ]"
            )
        for k in self.beside:
            lines.append(f"  %q{k} = getelementptr {self.kinds[k]}, ptr %base{k}, i64 %at")
        lines.extend(inside.lines)
        for k in self.strided:
            lines.append(f"  %step{k} = mul i64 %st{k}, {lanes}")
            lines.append(f"  %qn{k} = getelementptr i8, ptr %q{k}, i64 %step{k}")
        lines += [
            f"  %at.next = add i64 %at, {lanes}",
            "  %more.vectors = icmp ne i64 %at.next, %to",
            "  br i1 %more.vectors, label %vec, label %vec.end",
            "vec.end:",
            f"  %in.middle = icmp eq i8 %part, {_MIDDLE}",
            f"  br i1 %in.middle, label %left, label %{'over' if self.overlapping else 'tail.out'}",
        ]
        ends = [("over", _SCRATCH, "tail.out")] if self.overlapping else []
        ends += [("landed", _HEAD, "middle")] if self.aligns else []
        others = [*(block for block, *_ in ends), "row.end"][1:]
        for (block, part, to), other in zip(ends, others, strict=False):
            lines += [
                f"{block}:", f"  %is.{block} = icmp eq i8 %part, {part}",
                f"  br i1 %is.{block}, label %{to}, label %{other}",
            ]  # fmt: skip
        return lines

    def _look(self, block: str) -> list[str]:
        """Whether the last vector of a row may overlap the one before it: `%again`.

        What is written has to lie apart from all that is read: before it, or after it. Also found
        is which bits of an address the elements of a row's head fill: `%line`. Where vectors must
        not overlap, the heads of all rows are another call.
        """
        section = self.section
        module = section.module
        rows = f"{ROWS}{'nested' if section.nest.rank > 1 else 'flat'}"
        module.declare(rows, "i64", ("ptr", "ptr", "i64", "i64", "i64"))
        shape = self.shape
        table = f"{section.name}.shape"
        words = ", ".join(f"i64 {word}" for word in shape)
        module.helpers[table] = f"@{table} = internal constant [{len(shape)} x i64] [{words}]"
        many = f"  %long.row = icmp sge i64 %n, {_LONG_ROW * self.lanes}"
        lines = [
            f"  %last.vector = sub i64 %n, {self.lanes}",
            "  %row.count = sub i64 %oend, %obegin",
            f"  %many.rows = icmp sge i64 %row.count, {_ROWS}",
            f"  %a.vector = icmp sge i64 %n, {self.lanes}",
            *([many, "  %many = or i1 %many.rows, %long.row"] if self.aligns else []),
            f"  %worth = and i1 %a.vector, %{'many' if self.aligns else 'many.rows'}",
            "  br i1 %worth, label %look, label %begin",
            "look:",
            (f"  %looked = call i64 @{rows}(ptr %block, ptr @{table}, i64 %row.count, "
             "i64 %ibegin, i64 %iend)"),
        ]
        if self.aligns:
            calls = [f"call i32 @{section.name}(ptr %block, i64 %obegin, i64 %oend, {span})"
                     for span in ("i64 %ibegin, i64 %split", "i64 %split, i64 %iend")]  # fmt: skip
            lines += [
                "  %looked.again = trunc i64 %looked to i1",
                "  br i1 %looked.again, label %begin, label %look.apart",
                "look.apart:",
                "  %heads = lshr i64 %looked, 1",
                "  %some.heads = icmp ne i64 %heads, 0",
                "  br i1 %some.heads, label %split.rows, label %begin",
                "split.rows:",
                "  %split = add i64 %ibegin, %heads",
                f"  %status.heads = {calls[0]}",
                f"  %status.rows = {calls[1]}",
                "  %status.both = or i32 %status.heads, %status.rows",
                "  ret i32 %status.both",
            ]
        apart = ", [ 0, %look.apart ]" if self.aligns else ""
        return [
            *lines,
            *([] if self.aligns else ["  br label %begin"]),
            "begin:",
            f"  %found = phi i64 [ 0, %{block} ], [ %looked, %look ]{apart}",
            "  %again = trunc i64 %found to i1",
            *(["  %line = lshr i64 %found, 1"] if self.aligns else []),
        ]

    @property
    def shape(self) -> list[int]:
        """What `fuser_rows` is told of the nest: the places and sizes of what vectors touch."""
        section = self.section
        aligned, line, far, near, apart, size = 0, 0, 0, 0, 0, 1
        assert not self.lanes & self.lanes - 1, self.lanes
        if self.aligns:
            aligned, size = self.aligned, self.sizes[self.aligned]
            line = self._line_bytes - 1
            far, near, apart = (k * self.lanes + self._line_bytes // size for k in _AFTER_HEAD)
        count, rank, outer = len(section.operands), section.nest.rank, len(section.lengths)
        lengths = count + rank - 1 - outer
        return [
            self.lanes - 1, aligned, size.bit_length() - 1, line, _FIRST_CACHE_BYTES // size,
            far, near, apart, len(section.nest.loads), count,
            *([rank, outer, lengths, lengths + rank - 1] if rank > 1 else []),
            *(self.sizes[k] if k in self.moving else 0 for k in range(count)),
        ]  # fmt: skip

    def _left_over(self) -> list[str]:
        """Copy left-over elements in, and results out."""
        loads = [k for k in self.stored if k < len(self.section.nest.loads)]
        stores = [k for k in self.stored if k >= len(self.section.nest.loads)]
        lines = [
            "left:",
            f"  %any.rest = icmp ne i64 %{'row.rest' if self.aligns else 'rest'}, 0",
            (f"  br i1 %any.rest, label %{'which' if self.overlapping else 'tail.in'}, "
            "label %row.end"),
            *(self._back() if self.overlapping else []),
            "tail.in:",
            *self._tails("tail", self.moving),
        ]
        if self._masked():
            return lines + self._masked_tail(loads, stores)
        lines += [
            "  br label %copy",
            "copy:",
            "  %j = phi i64 [ 0, %tail.in ], [ %j1, %copy ]",
            "  %inside = icmp ult i64 %j, %rest",
            "  %m = select i1 %inside, i64 %j, i64 %last",
        ]
        for k in loads:
            lines += self._copy(k, "%m", "%j", into=True)
        lines += [
            "  %j1 = add i64 %j, 1",
            f"  %more.in = icmp ult i64 %j1, {self.lanes}",
            "  br i1 %more.in, label %copy, label %tail.run",
            "tail.run:",
            *self._carried(),
            "  br label %vectors",
            "tail.out:",
            *self._tails("out", stores),
            "  br label %out",
            "out:",
            "  %w = phi i64 [ 0, %tail.out ], [ %w.next, %out ]",
        ]
        for k in stores:
            lines += self._copy(k, "%w", "%w", into=False)
        lines += [
            "  %w.next = add i64 %w, 1",
            "  %more.out = icmp ult i64 %w.next, %rest",
            "  br i1 %more.out, label %out, label %row.end",
        ]
        return lines

    def _carried(self) -> list[str]:
        """Results of the last whole vector, where there is one."""
        return [f"  %carried{number} = load {value.scalar}, ptr %carry{number}"
                for number, (value, _) in self.section.carried.items()]  # fmt: skip

    def _back(self) -> list[str]:
        """Begin the last vector so that it ends with its row."""
        return ["which:", "  br i1 %again, label %back, label %tail.in", "back:",
                "  br label %vectors"]  # fmt: skip

    def _masked(self) -> bool:
        """Whether left-over elements move by masked instructions."""
        return self.section.module.features.masked and self.lanes > 1 and all(
            self.section.operands[k].access == CONTIGUOUS for k in self.stored
        )

    def _mask(self) -> list[str]:
        """The lanes that left-over elements fill."""
        lanes = self.lanes
        places = ", ".join(f"i8 {lane}" for lane in range(lanes))
        mask = vector_type("i8", lanes)
        return [
            "  %rest.byte = trunc i64 %rest to i8",
            f"  %rest.one = insertelement {mask} poison, i8 %rest.byte, i64 0",
            (f"  %rest.all = shufflevector {mask} %rest.one, {mask} poison, "
            f"<{lanes} x i32> zeroinitializer"),
            f"  %mask = icmp ult {mask} <{places}>, %rest.all",
        ]

    def _last_places(self) -> list[str]:
        """Places of left-over elements, counted from the first one; the last is repeated."""
        every, lanes = iota(self.lanes), self.lanes
        if lanes == 1:
            return ["  %last.places = add i64 0, 0"]
        return [
            f"  %last.one = insertelement {every.type} poison, i64 %last, i64 0",
            (f"  %last.all = shufflevector {every.type} %last.one, {every.type} poison, "
            f"<{lanes} x i32> zeroinitializer"),
            f"  %last.less = icmp ult {every.typed}, %last.all",
            (f"  %last.places = select <{lanes} x i1> %last.less, {every.typed}, "
            f"{every.type} %last.all"),
        ]

    def _masked_tail(self, loads: list[int], stores: list[int]) -> list[str]:
        """Left-over elements through masked loads and stores; other lanes repeat the first."""
        lanes = self.lanes
        lines: list[str] = []
        for k in loads:
            memory = self.kinds[k]
            vector = vector_type(memory, lanes)
            symbol = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
            self.section.module.declare(symbol, vector, ("ptr", "i32", f"<{lanes} x i1>", vector))
            lines += [
                f"  %first{k} = load {memory}, ptr %tail{k}, align 1",
                f"  %one{k} = insertelement {vector} poison, {memory} %first{k}, i64 0",
                (f"  %all{k} = shufflevector {vector} %one{k}, {vector} poison, "
                f"<{lanes} x i32> zeroinitializer"),
                (f"  %tv{k} = call {vector} @{symbol}(ptr %tail{k}, i32 1, "
                f"<{lanes} x i1> %mask, {vector} %all{k})"),
                f"  store {vector} %tv{k}, ptr %scratch{k}, align 64",
            ]
        lines += ["  br label %tail.run", "tail.run:", *self._carried(), "  br label %vectors"]
        lines += ["tail.out:", *self._tails("out", stores)]
        for k in stores:
            memory = self.kinds[k]
            vector = vector_type(memory, lanes)
            symbol = f"llvm.masked.store.{mangled(memory, lanes)}.p0"
            self.section.module.declare(symbol, "void", (vector, "ptr", "i32", f"<{lanes} x i1>"))
            lines += [
                f"  %tv{k} = load {vector}, ptr %scratch{k}, align 64",
                (f"  call void @{symbol}({vector} %tv{k}, ptr %out{k}, i32 1, "
                f"<{lanes} x i1> %mask)"),
            ]
        return [*lines, "  br label %row.end"]

    def _copy(self, k: int, place: str, slot: str, *, into: bool) -> list[str]:
        """Move one element between an array and its scratch vector."""
        memory = self.kinds[k]
        array = [
            f"  %ao{k} = mul i64 {place}, {self.section.inner[k]}",
            f"  %aa{k} = getelementptr i8, ptr %{'tail' if into else 'out'}{k}, i64 %ao{k}",
            f"  %sa{k} = getelementptr {memory}, ptr %scratch{k}, i64 {slot}",
        ]
        source, target = (f"%aa{k}", f"%sa{k}") if into else (f"%sa{k}", f"%aa{k}")
        move = [
            f"  %e{k} = load {memory}, ptr {source}, align 1",
            f"  store {memory} %e{k}, ptr {target}, align 1",
        ]
        return array + move
