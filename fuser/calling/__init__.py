"""A call finds its kernels: keys, layouts, outputs, and short ways for known calls."""
