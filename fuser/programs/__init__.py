"""Functions with opaque calls: stages of kernels, and what NumPy runs between them."""
