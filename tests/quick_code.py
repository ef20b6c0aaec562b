"""Kernels that LLVM makes in less time, for tests that do not ask about machine code."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def quick_code() -> Iterator[None]:
    """With QUICK_CODE, which `tox -e tests` sets, LLVM makes slower code in a quarter of the time.

    The texts stay the same, and those that all of LLVM's passes optimise, which rely on what they
    say of memory, are compiled as ever. The code that users get runs in the tests of the backends
    (but for schedules that nobody chose), of random and whole programs, of workloads and of
    documents, and everywhere without QUICK_CODE.
    """
    if not os.environ.get("QUICK_CODE"):
        yield
        return
    from fuser.backends.cpu.machine import loader

    full = loader.to_object

    def quick(text: str, *asked: Any) -> Any:
        """Quickly, but what says how: it stays loaded, and other tests use it."""
        return full(text, *(asked or (not text.startswith(loader.OPTIMISED),)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "to_object", quick)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_kernels() -> Iterator[None]:
    """Quick code for all tests of a file, or of a folder whose conftest, imports this."""
    with quick_code():
        yield
