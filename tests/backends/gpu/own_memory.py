"""A pytest plugin: each CuPy array has memory straight from CUDA; a checker then sees its end."""


def pytest_configure() -> None:
    """Before the first test."""
    import cupy

    cupy.cuda.set_allocator(None)
