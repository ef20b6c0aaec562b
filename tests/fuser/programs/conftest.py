"""What is tested here is what stages, loops and decisions compute: kernels are made sooner."""

from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]
