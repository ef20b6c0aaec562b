"""Functions with calls that do not fuse: kernels before, between and after them."""
