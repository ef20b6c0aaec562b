"""What holds in every test of native entries."""

import pytest

from fuser.backends.cpu.entries import entry
from fuser.calls import fused_function


@pytest.fixture(autouse=True)
def _dispatcher() -> None:
    """The dispatcher is there from the first call on; skipped where an interpreter has none."""
    if not fused_function._NATIVE:
        pytest.skip("this interpreter has no native entry")
    entry.load()
