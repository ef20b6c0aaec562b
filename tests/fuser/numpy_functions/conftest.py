"""What is tested here is what NumPy's functions compute: their kernels are made sooner."""

from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]
