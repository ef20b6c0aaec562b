"""Arguments inside of tuples, lists and dicts, as text: each becomes an argument of its own.

A table that takes containers has a row for each of them. The call's arguments are copied to a
list of the dispatcher's, and the items of each container are put behind them. Lists and dicts may
lose their items while a call runs: those are held meanwhile.
"""

from __future__ import annotations

TEXT = """\
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
