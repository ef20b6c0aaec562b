"""The function that most tests of reductions fuse: two reductions, and what stands between them."""

from typing import Any

import numpy as np


def softmax(x: Any, axis: int = -1) -> Any:
    """Three passes over each row."""
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)
