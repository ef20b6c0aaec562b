"""The shared suite on generated CUDA text that the host compiles and executes."""

from __future__ import annotations

from fuser.backend import register_backend
from tests.backends.fusion_suite import FusionSuite
from tests.backends.gpu.host import HostGpuBackend

register_backend("gpu-text", lambda: HostGpuBackend("gpu-text"))


class TestGPUTextFusion(FusionSuite):
    """What kernels compute, with the host's C library in place of CUDA's."""

    backend = "gpu-text"
    test_constant_operands_are_like_any_other = None  # the core's rules, tested on the CPU
