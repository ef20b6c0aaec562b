"""Where fused kernels are spelled, compiled and launched: one folder a backend."""
