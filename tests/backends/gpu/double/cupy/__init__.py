"""The double of CuPy, for programs that have this folder's parent on their path."""

import sys
from types import SimpleNamespace

from tests.backends.gpu import fake_cupy

_made = fake_cupy.modules()
_made["cupy"].__spec__ = __spec__
_made["cupy"].get_default_memory_pool = lambda: SimpleNamespace(  # type: ignore[attr-defined]
    free_all_blocks=lambda: None, used_bytes=lambda: fake_cupy.pool.used_bytes
)
sys.modules.update(_made)
