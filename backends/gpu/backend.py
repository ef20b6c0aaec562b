"""The GPU backend: CuPy arrays."""
