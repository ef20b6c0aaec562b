"""What is tested here is not machine code: kernels are made sooner."""

from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]
