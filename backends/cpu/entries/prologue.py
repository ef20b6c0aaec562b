"""Numbers that Python computes from arguments, and guards, as text: before anything else is done.

A table whose kernels take an expression over scalars (`1 - beta`), or that holds for some values
of them only, has a Python function (`fuser.calls.result_assembly.prepare`). It gives a tuple of
numbers, which is kept while the call runs, or None where the table does not hold.
"""

from __future__ import annotations

TEXT = """\
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
