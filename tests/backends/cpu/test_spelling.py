"""The CPU's spelling table is whole, compiles for every processor, and never changes its text."""

from __future__ import annotations

import numpy as np
import pytest

from fuser.backends.cpu.backend import CpuBackend
from fuser.backends.cpu.body import BASELINE, Body, Module, Value
from fuser.backends.cpu.machine import loader, target
from fuser.backends.cpu.spelling import SPELLING, spell
from fuser.base.errors import Unsupported
from fuser.ir.ops import DTYPES, TABLE, elementwise
from tests.backends.cases import operand_dtypes
from tests.backends.cpu.table_modules import table_text, undefined_symbols
from tests.children import said

#: What two processes print about the texts and the machine code that they make.
PRINT_DIGESTS = """
from fuser.backends.cpu.machine.target import host_features
from tests.backends.cpu.table_modules import digests
print("\\n".join(digests(host_features(), ("bool", "int32", "float32"))))
"""


def test_every_row_is_spelled_for_every_kind_that_it_admits() -> None:
    """No more rows, and no fewer; nor more kinds than some row's last operand can have."""
    rows = {
        op.name: {np.dtype(dtypes[-1]).kind for dtypes in operand_dtypes(op)}
        for op in elementwise()
    }
    rows |= {row.name: set(row.kinds) for row in TABLE.values() if row.gathers}
    assert {name: set(kinds) for name, kinds in SPELLING.items()} == rows


def test_backend_supports_what_is_spelled() -> None:
    """`supports` answers from the table."""
    backend = CpuBackend(BASELINE)
    assert backend.supports("add", "bool")
    assert not backend.supports("subtract", "bool")
    assert not backend.supports("matmul", "float32")


def test_a_row_without_a_form_is_unsupported() -> None:
    """The reason names the row and the dtype."""
    operands = [Value("%x", "i1", 4), Value("%y", "i1", 4)]
    with pytest.raises(Unsupported, match=r"subtract.*bool"):
        spell(Body(Module(BASELINE)), "subtract", "bool", operands)


#: Floats and truths for every processor, and of integers every third dtype, another third for each.
PROCESSORS = [
    (name, dtype)
    for turn, name in enumerate(target.KNOWN_TARGETS)
    for k, dtype in enumerate(DTYPES)
    if "int" not in dtype or k % 3 == turn % 3
]


@pytest.mark.parametrize(("name", "dtype"), PROCESSORS)
def test_table_compiles_for_every_processor(name: str, dtype: str) -> None:
    """Also for one that is not this one; it calls nothing that the loader does not offer.

    Some calls stand in no text: floorf, for processors without SSE4.1.
    """
    text = table_text(dtype, target.KNOWN_TARGETS[name][2])
    module = loader.parse(text)
    machine = target.cross_machine(name)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    called = undefined_symbols(bytes(machine.emit_object(module)))
    assert called - {"_GLOBAL_OFFSET_TABLE_"} <= {*loader.imports_of(text), *loader.RUNTIME_SYMBOLS}
    libraries = (loader.shared_address, target.address_of)
    outside = called - {"_GLOBAL_OFFSET_TABLE_"}
    assert all(any(library(symbol) for library in libraries) for symbol in outside)


def test_same_text_and_code_whatever_the_hash_seed() -> None:
    """Two processes agree on every module's text, and on the bytes of its machine code."""
    (digests,) = {
        said("-c", PRINT_DIGESTS, environment={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    }
    assert len(digests.splitlines()) == len(DTYPES)
