"""The GPU backend: CUDA C++ text, compiled by NVRTC through CuPy."""
