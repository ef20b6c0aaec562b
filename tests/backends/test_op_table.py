"""The op table on the CPU backend; gpu/test_gpu_device.py has it on a device."""

from __future__ import annotations

from fuser.backend import register_backend
from fuser.backends.cpu.backend import CpuBackend
from fuser.backends.cpu.body import BASELINE
from tests.backends.fusion_suite import FusionSuite


class BaselineBackend(CpuBackend):
    """Code for processors without AVX, FMA and F16C, which runs on every other one too."""

    name = "cpu-baseline"  # kernels are kept by this name


register_backend("cpu-baseline", lambda: BaselineBackend(BASELINE))


class TestCPUFusion(FusionSuite):
    """The CPU backend as this processor gets it."""

    backend = "cpu"


class TestCPUBaselineFusion(FusionSuite):
    """What a processor without AVX, FMA and F16C gets; its own float16 and elementary forms."""

    backend = "cpu-baseline"
    all_layouts = False
    test_constant_operands_are_like_any_other = None  # rules do not know the processor
