"""The double of CuPy, for programs that have this folder's parent on their path."""

import sys

from tests.backends.gpu import fake_cupy

_made = fake_cupy.modules()
_made["cupy"].__spec__ = __spec__
sys.modules.update(_made)
