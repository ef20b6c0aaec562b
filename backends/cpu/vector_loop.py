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
#: What a vector belongs to: the middle of a row, what is left over, the head.
_MIDDLE, _LEFT, _HEAD = range(3)


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


def apart_text(rank: int) -> str:
    """The module of `fuser_rows_<rank>`: it notes which addresses the rows of an operand span.

    It gives whether these lie apart from those of the first operands, `%loads` of them, which were
    noted before; of one of these it gives true.

    Args:
        rank: how many axes rows are counted along, each by a length and a stride.
    """
    axes = "".join(f", i64 %length{d}, i64 %step{d}" for d in range(rank))
    lines = []
    first = last = "%base"
    for d in range(rank):
        lines += [
            f"  %steps{d} = sub i64 %length{d}, 1",
            f"  %reach{d} = mul i64 %steps{d}, %step{d}",
            f"  %back{d} = icmp slt i64 %reach{d}, 0",
            f"  %down{d} = select i1 %back{d}, i64 %reach{d}, i64 0",
            f"  %up{d} = select i1 %back{d}, i64 0, i64 %reach{d}",
            f"  %first{d} = add i64 {first}, %down{d}",
            f"  %last{d} = add i64 {last}, %up{d}",
        ]
        first, last = f"%first{d}", f"%last{d}"
    reached = "\n".join(lines)
    return f"""\
define i1 @{ROWS}{rank}(ptr %spans, i64 %k, i64 %loads, ptr %row, i64 %bytes{axes}) {{
entry:
  %base = ptrtoint ptr %row to i64
{reached}
  %end = add i64 {last}, %bytes
  %own = getelementptr [2 x i64], ptr %spans, i64 %k
  store i64 {first}, ptr %own
  %own.end = getelementptr i64, ptr %own, i64 1
  store i64 %end, ptr %own.end
  %is.load = icmp ult i64 %k, %loads
  br i1 %is.load, label %yes, label %look
look:
  %l = phi i64 [ 0, %entry ], [ %l1, %other ]
  %more = icmp ult i64 %l, %loads
  br i1 %more, label %other, label %yes
other:
  %at = getelementptr [2 x i64], ptr %spans, i64 %l
  %until.at = getelementptr i64, ptr %at, i64 1
  %begin = load i64, ptr %at
  %until = load i64, ptr %until.at
  %before = icmp ule i64 %end, %begin
  %after = icmp ule i64 %until, {first}
  %beside = or i1 %before, %after
  %l1 = add i64 %l, 1
  br i1 %beside, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


shared_functions.register(ROWS, lambda rank, _: apart_text(int(rank)))


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
            *([f"  %spans = alloca [{2 * len(self.moving)} x i64]"] if self.overlapping else []),
            *top.lines,
            "  %n = sub i64 %iend, %ibegin",
            f"  %vectors = udiv i64 %n, {self.lanes}",
            f"  %rest = urem i64 %n, {self.lanes}",
            "  %last = sub i64 %rest, 1",
            "  %done.elements = sub i64 %n, %rest",
            *(["  %kept.head = alloca i64", "  %kept.rest = alloca i64",
               "  store i64 %rest, ptr %kept.rest"] if self.aligns else []),
            *(self._mask() if self._masked() else []),
            *(self._last_places() if self.counted else []),
            *(self._look(top.block) if self.overlapping else []),
            "  %some = icmp ult i64 %obegin, %oend",
            "  br i1 %some, label %place, label %done",
            *self._begin_rows(
                "ready" if self.aligns else "begin" if self.overlapping else top.block
            ),
            *(f"  store {start.typed}, ptr %carry{number}"
              for number, (start, _) in section.carried.items()),
            *middle.lines,
            *(self._head() if self.aligns else []),
            "  %whole = icmp ne i64 %vectors, 0",
            "  br i1 %whole, label %vec, label %left",
            *self._vector_loop("row.whole" if self.aligns else middle.block),
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
        steps = [outer[-1] if outer else "0" for outer in section.outer]
        lines = [
            "row.end:",
            "  %o1 = add i64 %o, 1",
            *(f"  %next{k} = getelementptr i8, ptr %row{k}, i64 {step}"
              for k, step in enumerate(steps)),
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

    def _head(self) -> list[str]:
        """The elements before the first that is aligned; whole vectors begin after them."""
        return [
            "  br i1 %aligning, label %head.look, label %row.whole",
            "head.look:",
            *self._to_line("head", f"%row{self.aligned}"),
            "  %from.line = sub i64 %n, %head",
            f"  %past.vectors = urem i64 %from.line, {self.lanes}",
            "  store i64 %head, ptr %kept.head",
            "  store i64 %past.vectors, ptr %kept.rest",
            "  %some.head = icmp ne i64 %head, 0",
            "  br i1 %some.head, label %vec, label %middle",
            "middle:",
            "  %before = load i64, ptr %kept.head",
            "  %after.head = sub i64 %n, %before",
            f"  %middle.vectors = udiv i64 %after.head, {self.lanes}",
            *(f"  %middle{k} = getelementptr {self.kinds[k]}, ptr %row{k}, i64 %before"
              for k in self.moving),
            "  br label %vec",
            "row.whole:",
        ]  # fmt: skip

    def _to_line(self, name: str, place: str) -> list[str]:
        """How many elements lie before the first that is aligned."""
        return [
            f"  %{name}.address = ptrtoint ptr {place} to i64",
            f"  %{name}.back = sub i64 0, %{name}.address",
            f"  %{name}.bytes = and i64 %{name}.back, {self._line_bytes - 1}",
            f"  %{name} = udiv i64 %{name}.bytes, {self.sizes[self.aligned]}",
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

    def _vector_loop(self, row_block: str) -> list[str]:
        """The loop over whole vectors, entered again once for what is left over."""
        inside = self.section.bodies[2]
        vec = inside.block
        lines = ["vec:"]
        more = ", [ {}, %back ]" if self.overlapping else ""
        more += ", [ {}, %head.look ], [ {}, %middle ]" if self.aligns else ""
        lines.append(
            f"  %left.vectors = phi i64 [ %vectors, %{row_block} ], [ %left.next, %{vec} ], "
            f"[ 1, %tail.run ]{more.format(1, 1, '%middle.vectors')}"
        )
        lines.append(
            f"  %phase = phi i8 [ {_MIDDLE}, %{row_block} ], [ %phase, %{vec} ], "
            f"[ {_LEFT}, %tail.run ]{more.format(_LEFT, _HEAD, _MIDDLE)}"
        )
        for k in self.moving:
            left = f"%tail{k}" if k in self.counted else f"%scratch{k}"
            lines.append(
                f"  %q{k} = phi ptr [ %row{k}, %{row_block} ], [ %qn{k}, %{vec} ], "
                f"[ {left}, %tail.run ]{more.format(f'%back{k}', f'%row{k}', f'%middle{k}')}"
            )
        for k in self.strided:
            step = self.section.inner[k]
            left = step if k in self.counted else str(self.sizes[k])
            lines.append(
                f"  %st{k} = phi i64 [ {step}, %{row_block} ], [ %st{k}, %{vec} ], "
                f"[ {left}, %tail.run ]"
            )
        for k, flag in zip(self.section.pairs, self.section.turns, strict=True):
            lines.append(
                f"  %turns{k} = phi i1 [ {flag}, %{row_block} ], [ %turns{k}, %{vec} ], "
                "[ false, %tail.run ]"
            )
        for number, (start, after) in self.section.carried.items():
            lines.append(
                f"  %before{number} = phi {start.type} [ {start.text}, %{row_block} ], "
                f"[ {after.text}, %{vec} ], [ %carried{number}, %tail.run ]"
            )
        if self.counted:
            every = iota(self.lanes)
            lines.append(
                f"  %places = phi {every.type} [ {every.text}, %{row_block} ], "
                f"[ %places, %{vec} ], [ %last.places, %tail.run ]"
            )
        lines.extend(inside.lines)
        end = "landed" if self.aligns else "row.end"
        for k in self.moving:
            step = str(self.lanes * self.sizes[k])
            if k in self.strided:
                lines.append(f"  %step{k} = mul i64 %st{k}, {self.lanes}")
                step = f"%step{k}"
            lines.append(f"  %qn{k} = getelementptr i8, ptr %q{k}, i64 {step}")
        lines += [
            "  %left.next = sub i64 %left.vectors, 1",
            "  %more.vectors = icmp ne i64 %left.next, 0",
            "  br i1 %more.vectors, label %vec, label %vec.end",
            "vec.end:",
            f"  %in.middle = icmp eq i8 %phase, {_MIDDLE}",
            f"  br i1 %in.middle, label %left, label %{'over' if self.overlapping else 'tail.out'}",
            *(["over:", f"  br i1 %again, label %{end}, label %tail.out"]
              if self.overlapping else []),
            *(["landed:", f"  %from.head = icmp eq i8 %phase, {_HEAD}",
               "  br i1 %from.head, label %middle, label %row.end"] if self.aligns else []),
        ]  # fmt: skip
        return lines

    def _look(self, block: str) -> list[str]:
        """Whether the last vector of a row may overlap the one before it: `%again`.

        What is written has to lie apart from all that is read: before it, or after it.
        """
        lines = [
            f"  %last.vector = sub i64 %n, {self.lanes}",
            "  %row.count = sub i64 %oend, %obegin",
            f"  %many.rows = icmp sge i64 %row.count, {_ROWS}",
            f"  %long.row = icmp sge i64 %n, {_LONG_ROW * self.lanes}",
            f"  %many = or i1 %many.rows, {'%long.row' if self.aligns else 'false'}",
            f"  %n.rest = urem i64 %n, {self.lanes}",
            f"  %some.vectors = icmp sge i64 %n, {self.lanes}",
            *self._odd(),
            "  %odd = and i1 %some.rest, %some.vectors",
            "  %worth = and i1 %odd, %many",
            "  br i1 %worth, label %look, label %begin",
            "look:",
        ]
        lengths, apart = self.section.lengths, "true"
        name, count = f"{ROWS}{len(lengths)}", len(self.section.nest.loads)
        words = ("ptr", "i64", "i64", "ptr", "i64", *["i64"] * (2 * len(lengths)))
        self.section.module.declare(name, "i1", words)
        loads = sum(k < count for k in self.moving)
        for place, k in enumerate(self.moving):
            pairs = zip(lengths, self.section.outer[k], strict=True)
            outer = "".join(f", i64 {length}, i64 {step}" for length, step in pairs)
            lines += [
                f"  %row.bytes{k} = mul i64 %iend, {self.sizes[k]}",
                (f"  %apart{k} = call i1 @{name}(ptr %spans, i64 {place}, i64 {loads}, "
                 f"ptr {self.section.pointers[k]}, i64 %row.bytes{k}{outer})"),
            ]
            if k >= count:
                lines.append(f"  %all.apart{k} = and i1 {apart}, %apart{k}")
                apart = f"%all.apart{k}"
        return [
            *lines, "  br label %begin", "begin:",
            f"  %again = phi i1 [ false, %{block} ], [ {apart}, %look ]",
            *(self._aligning() if self.aligns else []),
        ]  # fmt: skip

    def _aligning(self) -> list[str]:
        """Whether rows are so long that their heads are computed apart.

        Within the first cache, stores that cross lines cost less, and rows have to be longer.
        Where vectors must not overlap, the heads of all rows are another call.
        """
        size, section = self.sizes[self.aligned], self.section
        far, near, apart = (k * self.lanes + self._line_bytes // size for k in _AFTER_HEAD)
        steps = section.outer[self.aligned]
        calls = [f"call i32 @{section.name}(ptr %block, i64 %obegin, i64 %oend, {span})"
                 for span in ("i64 %ibegin, i64 %split", "i64 %split, i64 %iend")]  # fmt: skip
        last = f"%steps{len(steps) - 1}" if steps else "0"
        return [
            "  %all.elements = mul i64 %n, %row.count",
            f"  %is.far = icmp sge i64 %all.elements, {_FIRST_CACHE_BYTES // size}",
            f"  %least = select i1 %is.far, i64 {far}, i64 {near}",
            "  %are.long = icmp sge i64 %n, %least",
            "  %aligning = and i1 %again, %are.long",
            f"  %is.long = icmp sge i64 %n, {apart}",
            "  %alone = xor i1 %again, true",
            "  %splitting = and i1 %is.long, %alone",
            "  br i1 %splitting, label %split.look, label %ready",
            "split.look:",
            f"  %skipped = mul i64 %ibegin, {size}",
            f"  %split.at = getelementptr i8, ptr {section.pointers[self.aligned]}, i64 %skipped",
            *self._to_line("heads", "%split.at"),
            *(f"  %steps{d} = or i64 {step}, {f'%steps{d - 1}' if d else '0'}"
              for d, step in enumerate(steps)),
            f"  %odd.steps = and i64 {last}, {self._line_bytes - 1}",
            "  %alike = icmp eq i64 %odd.steps, 0",
            "  %some.heads = icmp ne i64 %heads, 0",
            "  %splits = and i1 %alike, %some.heads",
            "  br i1 %splits, label %split.rows, label %ready",
            "split.rows:",
            "  %split = add i64 %ibegin, %heads",
            f"  %status.heads = {calls[0]}",
            f"  %status.rows = {calls[1]}",
            "  %status.both = or i32 %status.heads, %status.rows",
            "  ret i32 %status.both",
            "ready:",
        ]  # fmt: skip

    def _odd(self) -> list[str]:
        """Whether rows have elements that are no part of whole vectors: `%some.rest`."""
        if not self.aligns:
            return ["  %some.rest = icmp ne i64 %n.rest, 0"]
        k, section = self.aligned, self.section
        lines = [f"  %base = ptrtoint ptr {section.pointers[k]} to i64",
                 f"  %base.skipped = mul i64 %ibegin, {self.sizes[k]}",
                 "  %base.first = add i64 %base, %base.skipped"]  # fmt: skip
        found = "%base.first"
        for d, step in enumerate(section.outer[k]):
            lines.append(f"  %base.or{d} = or i64 {found}, {step}")
            found = f"%base.or{d}"
        return [
            *lines,
            f"  %base.odd = and i64 {found}, {section.module.features.vector_bytes - 1}",
            "  %some.odd = or i64 %base.odd, %n.rest",
            "  %some.rest = icmp ne i64 %some.odd, 0",
        ]

    def _left_over(self) -> list[str]:
        """Copy left-over elements in, and results out."""
        loads = [k for k in self.stored if k < len(self.section.nest.loads)]
        stores = [k for k in self.stored if k >= len(self.section.nest.loads)]
        lines = [
            "left:",
            *(["  %row.rest = load i64, ptr %kept.rest"] if self.aligns else []),
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
            "  br label %vec",
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
        lines = ["which:", "  br i1 %again, label %back, label %tail.in", "back:"]
        for k in self.moving:
            kind = self.kinds[k]
            lines.append(f"  %back{k} = getelementptr {kind}, ptr %row{k}, i64 %last.vector")
        return [*lines, "  br label %vec"]

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
        lines += ["  br label %tail.run", "tail.run:", *self._carried(), "  br label %vec"]
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
