"""Pasted functions do what called ones do."""

import ctypes

from fuser.backends.cpu.entries import entry_inline
from fuser.backends.cpu.machine.loader import load_forever

TEXT = """\
@unused = internal global i64 0

define inline i64 @bounded(i64 %value, i64 %most) {
entry:
  %over = icmp ugt i64 %value, %most
  br i1 %over, label %done, label %inside
done:
  ret i64 %most
inside:
  ret i64 %value
}

define inline i64 @summed(i64 %count, i64 %most) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %more, %loop ]
  %part = call i64 @bounded(i64 %k, i64 %most)
  %more = add i64 %sum,
              %part
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %count
  br i1 %again, label %loop, label %done
done:
  ret i64 %more
}

define i64 @pasted(i64 %n) {
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %nothing, label %some
some:
  %first = call i64 @summed(i64 %n, i64 3)
  %then = call i64 @bounded(i64 %first, i64 %n)
  br label %nothing
nothing:
  %result = phi i64 [ 0, %entry ], [ %then, %some ]
  %twice = mul i64 %result, 2
  ret i64 %twice
}
"""


def test_nested_calls_in_loops_are_pasted() -> None:
    """Phis find their predecessors again; nothing is called any more."""
    text = entry_inline.paste(TEXT)
    assert "call" not in text
    assert "inline" not in text
    assert "@unused" in text
    address = load_forever(text, ("pasted",))["pasted"]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    for n in range(9):
        wanted = min(sum(min(k, 3) for k in range(n)), n) * 2
        assert function(n) == wanted


def test_a_text_without_inline_functions_stays_as_it_is() -> None:
    """But for the order of what stands outside of functions."""
    plain = "define void @f() {\nentry:\n  ret void\n}\n"
    assert entry_inline.paste(plain) == plain
