"""Dtypes that only some backends have."""

from __future__ import annotations

import numpy as np
import pytest

from fuser.base.errors import Unsupported
from fuser.ir.ops import DTYPES, PARTS, TABLE, admits
from fuser.tracing.admitted_dtypes import check_row, is_known, traced_for


def test_the_table_is_known_everywhere() -> None:
    """And what the backend that is traced for has beyond it."""
    assert all(is_known(np.dtype(name)) for name in DTYPES)
    assert not is_known(np.dtype(complex))
    with traced_for([np.ones(2), 3]):
        assert is_known(np.dtype(complex))
        assert not is_known(np.dtype(np.clongdouble))
        assert not is_known(np.dtype("M8[s]"))


def test_rows_say_what_they_take() -> None:
    """Arithmetic and structure take complex numbers; order and bits do not."""
    wide = np.dtype(np.complex128)
    taken = {name for name, row in TABLE.items() if admits(row, wide)}
    assert {"add", "divide", "exp", "equal", "reshape", "concatenate", *PARTS} <= taken
    assert not {"less", "maximum", "sum", "nextafter", "floor_divide"} & taken
    check_row("sum", np.dtype(np.int8))
    with pytest.raises(Unsupported, match="complex128"):
        check_row("add", wide)
    with traced_for([np.ones(2)]):
        check_row("add", wide)
        for name in ("less", "log"):  # of these the CPU has no complex form
            with pytest.raises(Unsupported, match="complex128"):
                check_row(name, wide)
