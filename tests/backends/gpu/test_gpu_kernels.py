"""What plans ask of a GPU, from machine code: enough is under way, and nothing is spilled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements import require

gpu_kernels = pytest.importorskip("tools.gpu_kernels", reason="tools/ is in a checkout only")


@pytest.mark.timeout(600)
def test_enough_is_under_way() -> None:
    """An H200's memory is kept busy by every plan; registers need no stack beside them."""
    require("nvrtc")
    found = list(gpu_kernels.rows())
    needed = gpu_kernels.SPEEDS["H200"] * gpu_kernels.LATENCY_S / gpu_kernels.MULTIPROCESSORS
    for each in found:
        assert each["under_way"] >= needed, each
        assert each["stack"] <= 64, each
        assert 16 <= each["registers"] <= 128
    assert {"map", "lanes", "block", "split", "long"} == {each["strategy"] for each in found}
    across = list(gpu_kernels.transposes())
    for plain, tiles in zip(across[::2], across[1::2], strict=True):
        assert tiles["instructions"] <= 2 * plain["instructions"]
        assert tiles["asked"] == tiles["moved"] < plain["asked"]
        assert plain["stack"] == tiles["stack"] == 0
    off = list(gpu_kernels.switched())
    for each in off:
        assert each["under_way"] >= needed, each
        assert each["stack"] <= 64, each
    assert {"cluster", "ahead"} < {each["strategy"] for each in off}
    written = gpu_kernels.table(found) + gpu_kernels.across_table(across)
    written += gpu_kernels.switched_table(off)
    committed = Path(gpu_kernels.ROOT, "docs", "gpu_kernels.md").read_text()
    assert written.partition("| workload")[0] == committed.partition("| workload")[0]
    assert written.count("\n") == committed.count("\n")


@pytest.mark.parametrize(
    ("registers", "block", "shared", "blocks"),
    [(32, 256, 0, 8), (33, 256, 0, 6), (64, 512, 256, 2), (128, 512, 196_864, 1), (16, 64, 0, 32)],
)
def test_a_multiprocessor_is_bounded_by_what_is_scarcest(
    registers: int, block: int, shared: int, blocks: int
) -> None:
    """Registers come in units, shared memory has a part of its own for each block."""
    assert gpu_kernels.blocks_each(registers, block, shared) == blocks
