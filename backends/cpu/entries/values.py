"""What the dispatcher computes from a matching call, as text: lengths, overlaps, scalars.

Nothing is allocated or written here but the call's own copy of the template.

Before that come numbers that Python computes from arguments, and guards (`prepare`). A table whose
kernels take an expression over scalars (`1 - beta`), or that holds for some values of them only,
has a Python function (`fuser.calls.result_assembly.prepare`). It gives a tuple of numbers, which
is kept while the call runs, or None where the table does not hold.
"""

from __future__ import annotations

TEXT = """\
define internal i64 @scaled(ptr %row, ptr %symbols) alwaysinline {
entry:
  %factor = get i64 %row SCALED.factor
  %place = get i64 %row SCALED.place
  %symbol = at i64 %symbols %place
  %value = mul i64 %factor, %symbol
  ret i64 %value
}

define internal i1 @holds(ptr %table, ptr %bases, ptr %symbols) alwaysinline {
entry:
  %steps = get i64 %table TABLE.steps
  %step.list = get ptr %table TABLE.step_list
  for %k below %steps else look
  %row = row STEP %step.list %k
  %place = get i64 %row STEP.place
  %more = get i64 %row STEP.more
  %factor = get i64 %row STEP.factor
  %left = get i64 %row STEP.left
  %right = get i64 %row STEP.right
  %divisor.at = get i64 %row STEP.divisor
  %one = at i64 %symbols %left
  %other = at i64 %symbols %right
  %before = at i64 %symbols %place
  %both = mul i64 %one, %other
  %term = mul i64 %factor, %both
  %kept = mul i64 %more, %before
  %sum = add i64 %kept, %term
  %whole = icmp eq i64 %divisor.at, 0
  br i1 %whole, label %keep, label %divide
divide:
  %divisor = at i64 %symbols %divisor.at
  %positive = icmp sgt i64 %divisor, 0
  br i1 %positive, label %quotient, label %no
quotient:
  %towards.zero = sdiv i64 %sum, %divisor
  %rest = srem i64 %sum, %divisor
  %is.below = icmp slt i64 %rest, 0
  %correction = sext i1 %is.below to i64
  %floor = add i64 %towards.zero, %correction
  br label %keep
keep:
  %value = phi i64 [ %sum, %k.body ], [ %floor, %quotient ]
  set i64 %value %symbols %place
  next %k
look:
  %count = get i64 %table TABLE.ranges
  %list = get ptr %table TABLE.range_list
  for %n below %count else yes
  %n.row = row RANGE %list %n
  %n.place = get i64 %n.row RANGE.place
  %number = at i64 %symbols %n.place
  %low = get i64 %n.row RANGE.low
  %width = get i64 %n.row RANGE.width
  %above = sub i64 %number, %low
  %fits = icmp ule i64 %above, %width
  br i1 %fits, label %n.next, label %no
  next %n
yes:
  %overlaps = get i64 %table TABLE.overlaps
  %none = icmp eq i64 %overlaps, 0
  br i1 %none, label %all.apart, label %beside
beside:
  %apart = call i1 @apart(ptr %table, ptr %bases, ptr %symbols)
  ret i1 %apart
all.apart:
  ret i1 true
no:
  ret i1 false
}

define internal void @lay_out(ptr %table, ptr %symbols, ptr %words) alwaysinline {
entry:
  %count = get i64 %table TABLE.lines
  %list = get ptr %table TABLE.line_list
  for %k below %count else done
  %line = row LINE %list %k
  %word = get i64 %line LINE.word
  %value = call i64 @scaled(ptr %line, ptr %symbols)
  set i64 %value %words %word
  next %k
done:
  ret void
}

declare i64 @llvm.umin.i64(i64, i64)

define internal i64 @half_of(double %value) {
entry:
  %one = shl i64 1, 42
  %bits = bitcast double %value to i64
  %high = lshr i64 %bits, 48
  %sign = and i64 %high, 32768
  %magnitude = and i64 %bits, 9223372036854775807
  %absolute = bitcast i64 %magnitude to double
  %is.nan = fcmp uno double %value, %value
  br i1 %is.nan, label %nan, label %number
nan:
  %payload = lshr i64 %magnitude, 42
  %kept = and i64 %payload, 1023
  %is.none = icmp eq i64 %kept, 0
  %nothing = zext i1 %is.none to i64
  %some = or i64 %kept, %nothing
  %nan.bits = or i64 %some, 31744
  br label %done
number:
  %is.tiny = fcmp olt double %absolute, 0x3F10000000000000
  br i1 %is.tiny, label %tiny, label %normal
tiny:
  %shifted = fadd double %absolute, 0x41B0000000000000
  %shifted.bits = bitcast double %shifted to i64
  %steps = and i64 %shifted.bits, 2047
  br label %done
normal:
  %unrounded = lshr i64 %magnitude, 42
  %odd = and i64 %unrounded, 1
  %half.step = lshr i64 %one, 1
  %below = sub i64 %half.step, 1
  %nearly = add i64 %magnitude, %below
  %raised = add i64 %nearly, %odd
  %rounded = lshr i64 %raised, 42
  %rebased = sub i64 %rounded, 1032192
  %most = call i64 @llvm.umin.i64(i64 %rebased, i64 31744)
  br label %done
done:
  %size = phi i64 [ %nan.bits, %nan ], [ %steps, %tiny ], [ %most, %normal ]
  %half = or i64 %size, %sign
  ret i64 %half
}

define internal i1 @convert(ptr %api, ptr %table, ptr %bases, ptr %symbols, ptr %words) {
entry:
  %overflow = alloca i32
  %true = get ptr %api API.true
  %to.integer = get ptr %api API.to_integer
  %count = get i64 %table TABLE.scalars
  %list = get ptr %table TABLE.scalar_list
  for %k below %count else yes
  %scalar = row SCALAR %list %k
  %record = get i64 %scalar SCALAR.record
  %place = get i64 %scalar SCALAR.place
  %source = get i64 %scalar SCALAR.source
  %target = get i64 %scalar SCALAR.target
  %object = at ptr %bases %record
  switch i64 %source, label %length [
    i64 LAYOUT.FROM_FLOAT, label %float
    i64 LAYOUT.FROM_INT, label %integer
    i64 LAYOUT.FROM_BOOL, label %truth ]
float:
  %float.value = get double %object OBJECT.value
  br label %real
integer:
  %integer.value = call i64 %to.integer(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %is.over = icmp ne i32 %over, 0
  br i1 %is.over, label %no, label %whole
truth:
  %is.true = icmp eq ptr %object, %true
  %truth.value = zext i1 %is.true to i64
  br label %whole
length:
  %length.value = at i64 %words %place
  br label %whole
whole:
  %value = phi i64 [ %integer.value, %integer ], [ %truth.value, %truth ],
                   [ %length.value, %length ]
  %low = get i64 %scalar SCALAR.low
  %high = get i64 %scalar SCALAR.high
  %above = icmp sge i64 %value, %low
  %below = icmp sle i64 %value, %high
  %fits = and i1 %above, %below
  br i1 %fits, label %fitting, label %no
fitting:
  %stays = icmp eq i64 %target, LAYOUT.TO_INTEGER
  br i1 %stays, label %store.integer, label %as.float
store.integer:
  set i64 %value %words %place
  br label %k.next
as.float:
  %converted = sitofp i64 %value to double
  br label %real
real:
  %double = phi double [ %float.value, %float ], [ %converted, %as.float ]
  switch i64 %target, label %store.double [
    i64 LAYOUT.TO_SINGLE, label %store.single
    i64 LAYOUT.TO_HALF, label %store.half ]
store.half:
  %half = call i64 @half_of(double %double)
  set i64 %half %words %place
  br label %k.next
store.single:
  %single = fptrunc double %double to float
  set i64 0 %words %place
  set float %single %words %place
  br label %k.next
store.double:
  set double %double %words %place
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @apart(ptr %table, ptr %bases, ptr %symbols) {
entry:
  %count = get i64 %table TABLE.overlaps
  %list = get ptr %table TABLE.overlap_list
  for %k below %count else yes
  %pair = row OVERLAP %list %k
  %written = get i64 %pair OVERLAP.written
  %w = at i64 %bases %written
  %low.w = get i64 %pair OVERLAP.low_w
  %bytes.w = getelementptr i8, ptr %pair, i64 OVERLAP.factor_w
  %reach.w = call i64 @scaled(ptr %bytes.w, ptr %symbols)
  %w.from = sub i64 %w, %low.w
  %w.to = add i64 %w, %reach.w
  %read = get i64 %pair OVERLAP.read
  %r = at i64 %bases %read
  %low.r = get i64 %pair OVERLAP.low_r
  %bytes.r = getelementptr i8, ptr %pair, i64 OVERLAP.factor_r
  %reach.r = call i64 @scaled(ptr %bytes.r, ptr %symbols)
  %r.from = sub i64 %r, %low.r
  %r.to = add i64 %r, %reach.r
  %before = icmp ule i64 %w.to, %r.from
  %after = icmp uge i64 %w.from, %r.to
  %apart = or i1 %before, %after
  br i1 %apart, label %k.next, label %together
together:
  %allowed = get i64 %pair OVERLAP.same
  %may = icmp ne i64 %allowed, 0
  %same = icmp eq i64 %w, %r
  %fine = and i1 %may, %same
  br i1 %fine, label %k.next, label %no
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i64 @room(ptr %table, ptr %bases, ptr %symbols, i64 %first) {
entry:
  %count = get i64 %table TABLE.temporaries
  %list = get ptr %table TABLE.temporary_list
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %used = phi i64 [ 0, %entry ], [ %rounded, %next ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %next, label %done
next:
  %bytes = row SCALED %list %k
  %place = add i64 %first, %k
  set i64 %used %bases %place
  %size = call i64 @scaled(ptr %bytes, ptr %symbols)
  %end = add i64 %used, %size
  %up = add i64 %end, 63
  %rounded = and i64 %up, -64
  %k1 = add i64 %k, 1
  br label %loop
done:
  ret i64 %used
}

define internal ptr @called(ptr %api, ptr %table, ptr %args, ptr %function) {
entry:
  %parts = alloca [LAYOUT.MOST_LEAVES x ptr]
  %count = get i64 %table TABLE.numbers
  %slots = get ptr %table TABLE.number_list
  for %k below %count else ask
  %slot = at i64 %slots %k
  %part = at ptr %args %slot
  set ptr %part %parts %k
  next %k
ask:
  %vectorcall = get ptr %api API.vectorcall
  %found = call ptr %vectorcall(ptr %function, ptr %parts, i64 %count, ptr null)
  ret ptr %found
}

define internal ptr @prepare(ptr %api, ptr %table, ptr %args, ptr %bases) {
entry:
  %function = get ptr %table TABLE.prologue
  %found = call ptr @called(ptr %api, ptr %table, ptr %args, ptr %function)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %error, label %look
error:
  %clear = get ptr %api API.clear_error
  call void %clear()
  ret ptr null
look:
  %none = get ptr %api API.none
  %is.none = icmp eq ptr %found, %none
  br i1 %is.none, label %refused, label %take
refused:
  %decref = get ptr %api API.decref
  call void %decref(ptr %found)
  ret ptr null
take:
  %computed = get i64 %table TABLE.computed
  %first.base = get i64 %table TABLE.computed_first
  %first = get i64 %api API.tuple_items
  %items = getelementptr i8, ptr %found, i64 %first
  for %n below %computed else done
  %item = at ptr %items %n
  %place = add i64 %first.base, %n
  set ptr %item %bases %place
  next %n
done:
  ret ptr %found
}
"""
