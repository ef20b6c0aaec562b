"""Outer loops of reductions: division by multiplication, and no warp is torn apart."""

from __future__ import annotations

from fuser.backends.gpu.reduction_loops import column_head, places, row_head


def test_rows_are_found_by_multiplication() -> None:
    """Two loops need one division, one loop none."""
    assert places(0) == []
    assert places(1) == ["[[maybe_unused]] const Index q0 = row;"]
    assert places(2)[0] == "const Index rq1 = a.d1.quotient(row);"
    assert len(places(3)) == 5
    assert places(2, "at", "e", "z")[1].endswith("z1 = at - rz1 * (Index)a.e1.divisor;")


def test_threads_are_divided_by_shifts() -> None:
    """Teams are powers of two."""
    lines = row_head(4) + column_head(4)
    assert not any(f"/ {name}" in line for name in ("team", "across") for line in lines)


def test_threads_without_work_stay_with_their_warp() -> None:
    """They do the last row again and store nothing: `active` says so."""
    for head in (row_head(4), column_head(4)):
        assert any("active" in line for line in head)
        assert not any("return" in line or "break" in line for line in head)
