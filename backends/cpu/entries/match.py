"""The dispatcher's first half, as text: does a table serve this call?

Arguments are compared on the array structs: type, dtype (by pointer, then by number and byte
order: unpickled arrays have dtype objects of their own), rank, flags, lengths, strides. Those of
arrays in a device's memory are compared where their library keeps them, in two C++ vectors, and so
is the device; their addresses are multiples of their elements' size. What is
found on the way is kept: addresses of data (or the object, for Python numbers) in `bases`, values
of length symbols in `symbols`; symbol 0 is the number 1.

An argument inside of a tuple, list or dict becomes one of its own. A table that takes containers
has a row for each of them. The call's arguments are copied to a list of the dispatcher's, and the
items of each container are put behind them. Lists and dicts may lose their items while a call
runs: those are held meanwhile.
"""

from __future__ import annotations

#: Compares a call with one table, wherever tables are gone through: from `try`, with `%tables` and
#: the number `%k`, to `%matched`; `next` is for a table that does not fit.
COMPARE = """\
try:
  %table = at ptr %tables %k
  %want.n = get i64 %table TABLE.nargs
  %want.names = get i64 %table TABLE.names
  %n.fits = icmp eq i64 %n, %want.n
  %names.fit = icmp eq i64 %given, %want.names
  %fits = and i1 %n.fits, %names.fit
  br i1 %fits, label %keywords, label %next
keywords:
  %no.names = icmp eq i64 %given, 0
  br i1 %no.names, label %containers, label %compare
compare:
  %wanted = get ptr %table TABLE.name_list
  %alike = call i1 @names_match(ptr %api, ptr %wanted, ptr %kwnames, i64 %given)
  br i1 %alike, label %containers, label %next
containers:
  %unpacks = get i64 %table TABLE.unpacks
  %is.flat = icmp eq i64 %unpacks, 0
  br i1 %is.flat, label %arguments, label %unpack
unpack:
  %unpacked = call i1 @unpack(ptr %api, ptr %table, ptr %args, ptr %flat)
  br i1 %unpacked, label %arguments, label %next
arguments:
  %values = phi ptr [ %args, %containers ], [ %flat, %unpack ]
  %matched = call i1 @matches(ptr %api, ptr %table, ptr %values, ptr %bases, ptr %symbols)
"""

TEXT = """\
define internal i1 @names_match(ptr %api, ptr %wanted, ptr %names, i64 %count) {
entry:
  %first = get i64 %api API.tuple_items
  %items = getelementptr i8, ptr %names, i64 %first
  for %k below %count else yes
  %one = at ptr %items %k
  %other = at ptr %wanted %k
  %same = icmp eq ptr %one, %other
  br i1 %same, label %k.next, label %by.text
by.text:
  %function = get ptr %api API.compare_text
  %order = call i32 %function(ptr %one, ptr %other)
  %alike = icmp eq i32 %order, 0
  br i1 %alike, label %k.next, label %no
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @guards_hold(ptr %api, ptr %table, i64 %first) {
entry:
  %count = get i64 %table TABLE.guards
  %list = get ptr %table TABLE.guard_list
  br label %loop
loop:
  %k = phi i64 [ %first, %entry ], [ %k1, %next ], [ %past, %skipped ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %check, label %yes
check:
  %guard = row GUARD %list %k
  %scope = get ptr %guard GUARD.scope
  %name = get ptr %guard GUARD.name
  %expected = get ptr %guard GUARD.expected
  %kind = get i64 %guard GUARD.kind
  switch i64 %kind, label %attribute [
    i64 LAYOUT.IN_DICT, label %namespace
    i64 LAYOUT.IN_CELL, label %cell
    i64 LAYOUT.WORD, label %word
    i64 LAYOUT.SKIPPING, label %skipping
    i64 LAYOUT.NOTING, label %noting ]
word:
  %there = load ptr, ptr %scope
  %as.it.was = icmp eq ptr %there, %expected
  br i1 %as.it.was, label %next, label %no
skipping:
  %tag = load ptr, ptr %scope
  %unchanged = icmp eq ptr %tag, %expected
  br i1 %unchanged, label %skipped, label %next
skipped:
  %rows = ptrtoint ptr %name to i64
  %past = add i64 %k, %rows
  br label %loop
noting:
  %latest = load ptr, ptr %scope
  %back = ptrtoint ptr %name to i64
  %first.row = sub i64 %k, %back
  %skipper = row GUARD %list %first.row
  %none = icmp eq ptr %latest, null
  %noted = select i1 %none, ptr inttoptr (i64 -1 to ptr), ptr %latest
  put ptr %noted %skipper GUARD.expected
  br label %next
cell:
  %content = get ptr %scope CELL.content
  br label %found
namespace:
  %get.item = get ptr %api API.get_item
  %item = call ptr %get.item(ptr %scope, ptr %name)
  br label %found
attribute:
  %get.attribute = get ptr %api API.get_attribute
  %value = call ptr %get.attribute(ptr %scope, ptr %name)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %failed, label %drop
drop:
  %decref = get ptr %api API.decref
  call void %decref(ptr %value)
  br label %found
failed:
  %clear = get ptr %api API.clear_error
  call void %clear()
  br label %no
found:
  %now = phi ptr [ %content, %cell ], [ %item, %namespace ], [ %value, %drop ]
  %same = icmp eq ptr %now, %expected
  br i1 %same, label %next, label %no
next:
  %k1 = add i64 %k, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @layout_matches(ptr %record, ptr %array, i64 %kind, i64 %span,
                                   ptr %symbols) alwaysinline {
entry:
  %axes = get ptr %record RECORD.axes
  %rank = get i64 %record RECORD.rank
  %dims = get ptr %array ARRAY.lengths
  %strides = get ptr %array ARRAY.strides
  %is.exact = icmp eq i64 %kind, LAYOUT.EXACT_ARRAY
  br i1 %is.exact, label %exact, label %strided
strided:
  %flags = get i32 %array ARRAY.flags
  %contiguous.bit = and i32 %flags, LAYOUT.IS_CONTIGUOUS
  %contiguous = icmp ne i32 %contiguous.bit, 0
  %stride = load i64, ptr %strides
  %stride.at = at i64 %axes 1
  set i64 %stride %symbols %stride.at
  %steady = icmp eq i64 %stride, 0
  %raised = add i64 %stride, LAYOUT.MOST_STRIDE
  %far = icmp ugt i64 %raised, LAYOUT.STRIDE_SPAN
  %odd = or i1 %steady, %far
  %refused = or i1 %odd, %contiguous
  br i1 %refused, label %no, label %axis
axis:
  %length = load i64, ptr %dims
  %symbol = load i64, ptr %axes
  %new = icmp slt i64 %symbol, 0
  br i1 %new, label %define, label %compare
define:
  %place = xor i64 %symbol, -1
  set i64 %length %symbols %place
  %more = sub i64 %length, LAYOUT.LEAST_LENGTH
  %fits = icmp ult i64 %more, %span
  ret i1 %fits
compare:
  %wanted = at i64 %symbols %symbol
  %same = icmp eq i64 %length, %wanted
  ret i1 %same
exact:
  %wanted.strides = getelementptr i64, ptr %axes, i64 %rank
  br label %exact.loop
exact.loop:
  %x = phi i64 [ 0, %exact ], [ %x1, %exact.axis ]
  %alike = phi i1 [ true, %exact ], [ %alike.too, %exact.axis ]
  %x.some = icmp ult i64 %x, %rank
  %x.go = and i1 %x.some, %alike
  br i1 %x.go, label %exact.axis, label %exact.done
exact.axis:
  %x.length = at i64 %dims %x
  %x.wanted = at i64 %axes %x
  %x.stride = at i64 %strides %x
  %x.step = at i64 %wanted.strides %x
  %x.a = icmp eq i64 %x.length, %x.wanted
  %x.b = icmp eq i64 %x.stride, %x.step
  %alike.too = and i1 %x.a, %x.b
  %x1 = add i64 %x, 1
  br label %exact.loop
exact.done:
  ret i1 %alike
no:
  ret i1 false
}

define internal i1 @vector_matches(ptr %object, i64 %offset, ptr %wanted, i64 %count) {
entry:
  %vector = getelementptr i8, ptr %object, i64 %offset
  %begin = get i64 %vector 0
  %end = get i64 %vector 8
  %bytes = sub i64 %end, %begin
  %wanted.bytes = shl i64 %count, 3
  %as.many = icmp eq i64 %bytes, %wanted.bytes
  br i1 %as.many, label %words, label %no
words:
  %found = inttoptr i64 %begin to ptr
  for %k below %count else yes
  %one = at i64 %found %k
  %other = at i64 %wanted %k
  %same = icmp eq i64 %one, %other
  br i1 %same, label %k.next, label %no
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i64 @device_address(ptr %api, ptr %object, ptr %number) {
entry:
  %data.at = get i64 %api API.device_data
  %data = getelementptr i8, ptr %object, i64 %data.at
  %pointer = load ptr, ptr %data
  %number.at = get i64 %api API.device_number
  %number.field = getelementptr i8, ptr %pointer, i64 %number.at
  %device = load i32, ptr %number.field
  store i32 %device, ptr %number
  %address.at = get i64 %api API.device_address
  %address.field = getelementptr i8, ptr %pointer, i64 %address.at
  %address = load i64, ptr %address.field
  ret i64 %address
}

define internal i1 @device_array_matches(ptr %api, ptr %record, ptr %object, ptr %bases, i64 %k) {
entry:
  %number = alloca i32
  %dtype.at = get i64 %api API.device_dtype
  %field = getelementptr i8, ptr %object, i64 %dtype.at
  %dtype = load i64, ptr %field
  %expected = get i64 %record RECORD.expected
  %alike = icmp eq i64 %dtype, %expected
  br i1 %alike, label %lengths, label %no
lengths:
  %axes = get ptr %record RECORD.axes
  %rank = get i64 %record RECORD.rank
  %lengths.at = get i64 %api API.device_lengths
  %as.long = call i1 @vector_matches(ptr %object, i64 %lengths.at, ptr %axes, i64 %rank)
  br i1 %as.long, label %strides, label %no
strides:
  %steps = getelementptr i64, ptr %axes, i64 %rank
  %strides.at = get i64 %api API.device_strides
  %laid = call i1 @vector_matches(ptr %object, i64 %strides.at, ptr %steps, i64 %rank)
  br i1 %laid, label %address, label %no
address:
  %begin = call i64 @device_address(ptr %api, ptr %object, ptr %number)
  set i64 %begin %bases %k
  %beyond = getelementptr i64, ptr %steps, i64 %rank
  %wanted = load i32, ptr %beyond
  %device = load i32, ptr %number
  %here = icmp eq i32 %device, %wanted
  %mask = get i64 %beyond 8
  %off = and i64 %begin, %mask
  %aligned = icmp eq i64 %off, 0
  %fits = and i1 %here, %aligned
  ret i1 %fits
no:
  ret i1 false
}

define internal i1 @dtype_matches(i64 %descr.at, i64 %wanted.at) {
  %descr = inttoptr i64 %descr.at to ptr
  %wanted = inttoptr i64 %wanted.at to ptr
  %number = get i32 %descr DTYPE.number
  %wanted.number = get i32 %wanted DTYPE.number
  %order = get i8 %descr DTYPE.order
  %alike = icmp eq i32 %number, %wanted.number
  %wanted.order = get i8 %wanted DTYPE.order
  %big = icmp eq i8 %order, 62
  %wanted.big = icmp eq i8 %wanted.order, 62
  %both = icmp eq i1 %big, %wanted.big
  %equal = and i1 %alike, %both
  ret i1 %equal
}

define internal i1 @integer_matches(ptr %api, ptr %record, ptr %object, i64 %k, ptr %bases,
                                    ptr %symbols) {
entry:
  %overflow = alloca i32
  %wide = get i64 %record RECORD.flags
  %is.scalar = icmp ne i64 %wide, 0
  br i1 %is.scalar, label %scalar, label %number
scalar:
  %data = getelementptr i8, ptr %object, i64 OBJECT.value
  set ptr %data %bases %k
  %stored = load i64, ptr %data
  br label %check
number:
  set ptr %object %bases %k
  %convert = get ptr %api API.to_integer
  %converted = call i64 %convert(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %check, label %no
check:
  %value = phi i64 [ %stored, %scalar ], [ %converted, %number ]
  %place = get i64 %record RECORD.expected
  set i64 %value %symbols %place
  %most = get i64 %record RECORD.rank
  %raised = add i64 %value, %most
  %span = shl i64 %most, 1
  %inside = icmp ule i64 %raised, %span
  ret i1 %inside
no:
  ret i1 false
}

define internal ptr @argument(ptr %api, ptr %record, ptr %args) alwaysinline {
entry:
  %slot = get i64 %record RECORD.slot
  %hidden = icmp slt i64 %slot, 0
  br i1 %hidden, label %elsewhere, label %given
given:
  %argument = at ptr %args %slot
  ret ptr %argument
elsewhere:
  %kept = get ptr %record RECORD.object
  ret ptr %kept
}

define internal i1 @matches(ptr %api, ptr %table, ptr %args, ptr %bases,
                            ptr %symbols) alwaysinline {
entry:
  %count = get i64 %table TABLE.records
  %records = get ptr %table TABLE.record_list
  %span = get i64 %table TABLE.span
  store i64 1, ptr %symbols
  for %k below %count else yes
  %record = row RECORD %records %k
  %object = call ptr @argument(ptr %api, ptr %record, ptr %args)
  %type = get ptr %object OBJECT.type
  %wanted.type = get ptr %record RECORD.type
  %type.fits = icmp eq ptr %type, %wanted.type
  br i1 %type.fits, label %kinds, label %no
kinds:
  %kind = get i64 %record RECORD.kind
  %expected = get i64 %record RECORD.expected
  %an.array = icmp ule i64 %kind, LAYOUT.ANY_ARRAY
  br i1 %an.array, label %array, label %other
other:
  switch i64 %kind, label %generic [
    i64 LAYOUT.NUMBER, label %number
    i64 LAYOUT.OBJECT, label %identity
    i64 LAYOUT.INTEGER, label %integer
    i64 LAYOUT.DEVICE_ARRAY, label %device ]
number:
  set ptr %object %bases %k
  br label %k.next
integer:
  %inside = call i1 @integer_matches(ptr %api, ptr %record, ptr %object, i64 %k, ptr %bases,
                                     ptr %symbols)
  br i1 %inside, label %k.next, label %no
device:
  %there = call i1 @device_array_matches(ptr %api, ptr %record, ptr %object, ptr %bases, i64 %k)
  br i1 %there, label %k.next, label %no
identity:
  %address = ptrtoint ptr %object to i64
  %same = icmp eq i64 %address, %expected
  br i1 %same, label %k.next, label %no
generic:
  %value = getelementptr i8, ptr %object, i64 OBJECT.value
  set ptr %value %bases %k
  br label %k.next
array:
  %descr = get i64 %object ARRAY.dtype
  %rank = get i32 %object ARRAY.rank
  %wide = zext i32 %rank to i64
  %wanted.rank = get i64 %record RECORD.rank
  %mask = get i64 %record RECORD.flags
  %flags = get i32 %object ARRAY.flags
  %wide.flags = zext i32 %flags to i64
  %lacking.of = xor i64 %wide.flags, -1
  %lacking = and i64 %lacking.of, %mask
  %off = xor i64 %wide, %wanted.rank
  %wrong = or i64 %off, %lacking
  %foreign = xor i64 %descr, %expected
  %unlike = or i64 %wrong, %foreign
  %right = icmp eq i64 %unlike, 0
  br i1 %right, label %data, label %other.descr
other.descr:
  %fitting = icmp eq i64 %wrong, 0
  %alike = call i1 @dtype_matches(i64 %descr, i64 %expected)
  %fine = and i1 %fitting, %alike
  br i1 %fine, label %data, label %no
data:
  %data.address = get ptr %object ARRAY.data
  set ptr %data.address %bases %k
  switch i64 %kind, label %layout [
    i64 LAYOUT.CONTIGUOUS_ARRAY, label %contiguous
    i64 LAYOUT.ANY_ARRAY, label %k.next ]
layout:
  %fits = call i1 @layout_matches(ptr %record, ptr %object, i64 %kind, i64 %span,
                                  ptr %symbols)
  br i1 %fits, label %k.next, label %no
contiguous:
  %dims = get ptr %object ARRAY.lengths
  %axes = get ptr %record RECORD.axes
  for %x below %wide else k.next
  %extent = at i64 %dims %x
  %symbol = at i64 %axes %x
  %new = icmp slt i64 %symbol, 0
  br i1 %new, label %define, label %compare
define:
  %place = xor i64 %symbol, -1
  set i64 %extent %symbols %place
  %more = sub i64 %extent, LAYOUT.LEAST_LENGTH
  %possible = icmp ult i64 %more, %span
  br i1 %possible, label %x.next, label %no
compare:
  %wanted = at i64 %symbols %symbol
  %same.length = icmp eq i64 %extent, %wanted
  br i1 %same.length, label %x.next, label %no
  next %x
  next %k
yes:
  %guards = get i64 %table TABLE.guards
  %guard.list = get ptr %table TABLE.guard_list
  for %g below %guards else found.all
  %guard = row GUARD %guard.list %g
  %guard.kind = get i64 %guard GUARD.kind
  %is.word = icmp eq i64 %guard.kind, LAYOUT.WORD
  br i1 %is.word, label %word, label %guarded
word:
  %scope = get ptr %guard GUARD.scope
  %there.now = load ptr, ptr %scope
  %as.expected = get ptr %guard GUARD.expected
  %as.it.was = icmp eq ptr %there.now, %as.expected
  br i1 %as.it.was, label %g.next, label %no
  next %g
guarded:
  %held = call i1 @guards_hold(ptr %api, ptr %table, i64 %g)
  ret i1 %held
found.all:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @keys_match(ptr %api, ptr %one, ptr %other) {
entry:
  %same = icmp eq ptr %one, %other
  br i1 %same, label %yes, label %types
types:
  %text = get ptr %api API.text
  %one.type = get ptr %one OBJECT.type
  %other.type = get ptr %other OBJECT.type
  %one.text = icmp eq ptr %one.type, %text
  %other.text = icmp eq ptr %other.type, %text
  %both = and i1 %one.text, %other.text
  br i1 %both, label %compare, label %no
compare:
  %function = get ptr %api API.compare_text
  %order = call i32 %function(ptr %one, ptr %other)
  %alike = icmp eq i32 %order, 0
  ret i1 %alike
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @unpack_dict(ptr %api, ptr %dict, ptr %keys, i64 %length, ptr %places) {
entry:
  %position = alloca i64
  %key.at = alloca ptr
  %value.at = alloca ptr
  store i64 0, ptr %position
  %following = get ptr %api API.dict_next
  for %k below %length else yes
  %more = call i32 %following(ptr %dict, ptr %position, ptr %key.at, ptr %value.at)
  %found = icmp ne i32 %more, 0
  br i1 %found, label %compare, label %no
compare:
  %key = load ptr, ptr %key.at
  %wanted = at ptr %keys %k
  %fits = call i1 @keys_match(ptr %api, ptr %key, ptr %wanted)
  br i1 %fits, label %keep, label %no
keep:
  %value = load ptr, ptr %value.at
  set ptr %value %places %k
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @unpack(ptr %api, ptr %table, ptr %args, ptr %flat) {
entry:
  %given = get i64 %table TABLE.given
  %bytes = shl i64 %given, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %flat, ptr %args, i64 %bytes, i1 false)
  %count = get i64 %table TABLE.unpacks
  %list = get ptr %table TABLE.unpack_list
  for %k below %count else yes
  %row = row UNPACK %list %k
  %slot = get i64 %row UNPACK.slot
  %place = get i64 %row UNPACK.place
  %places = getelementptr i64, ptr %flat, i64 %place
  %object = at ptr %flat %slot
  %type = get ptr %object OBJECT.type
  %wanted.type = get ptr %row UNPACK.type
  %type.fits = icmp eq ptr %type, %wanted.type
  br i1 %type.fits, label %size, label %no
size:
  %length = get i64 %object OBJECT.length
  %wanted.length = get i64 %row UNPACK.length
  %length.fits = icmp eq i64 %length, %wanted.length
  br i1 %length.fits, label %kinds, label %no
kinds:
  %kind = get i64 %row UNPACK.kind
  switch i64 %kind, label %dict [
    i64 LAYOUT.OF_TUPLE, label %tuple
    i64 LAYOUT.OF_LIST, label %list.items ]
tuple:
  %first = get i64 %api API.tuple_items
  %of.tuple = getelementptr i8, ptr %object, i64 %first
  br label %copy
list.items:
  %of.list = get ptr %object LIST.items
  br label %copy
copy:
  %items = phi ptr [ %of.tuple, %tuple ], [ %of.list, %list.items ]
  for %n below %length else k.next
  %one = at ptr %items %n
  set ptr %one %places %n
  next %n
dict:
  %keys = get ptr %row UNPACK.keys
  %fits = call i1 @unpack_dict(ptr %api, ptr %object, ptr %keys, i64 %length, ptr %places)
  br i1 %fits, label %k.next, label %no
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @hold(ptr %api, ptr %table, ptr %flat, i1 %begin) {
entry:
  %given = get i64 %table TABLE.given
  %held = get i64 %table TABLE.held
  %end = add i64 %given, %held
  %incref = get ptr %api API.incref
  %decref = get ptr %api API.decref
  %change = select i1 %begin, ptr %incref, ptr %decref
  br label %loop
loop:
  %k = phi i64 [ %given, %entry ], [ %k1, %next ]
  %some = icmp ult i64 %k, %end
  br i1 %some, label %next, label %done
next:
  %object = at ptr %flat %k
  call void %change(ptr %object)
  %k1 = add i64 %k, 1
  br label %loop
done:
  ret void
}
"""
