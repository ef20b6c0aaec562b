"""Parts of long rows: what is not finite, where the sums of parts say nothing."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from tests.backends.cpu.long_rows import (  # noqa: F401 - a fixture is found by its name
    LENGTH,
    attention,
    small_cache,
    softmax,
    spread,
)
from tests.results import parts_of

GENERATOR = np.random.default_rng(12)

pytestmark = pytest.mark.usefixtures("small_cache")


SPECIAL: dict[str, Any] = {
    "nan": [(5000, np.nan)],
    "inf": [(100, np.inf)],
    "both infinities": [(100, np.inf), (7000, -np.inf)],
    "a part of -inf": [(slice(1024, 2304), -np.inf)],
    "all but a part -inf": [(slice(0, 7000), -np.inf)],
    "nothing but -inf": [(slice(None), -np.inf)],
    "huge": [(slice(0, 4000), 3e38), (4000, -3e38)],
    "zeros": [(slice(None), 0.0)],
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_as_numpy_has_it(kind: str) -> None:
    """NaN, infinities, overflow: where a part's sum says nothing, the row is computed anew."""
    x = GENERATOR.standard_normal((2, LENGTH)).astype(np.float32)
    for where, value in SPECIAL[kind]:
        x[1, where] = value
    y = GENERATOR.random((2, LENGTH)).astype(np.float32)
    for function, args in (
        (softmax, (x,)), (functional.log_softmax, (x,)), (spread, (x,)),
        (functional.cross_entropy, (x, y)), (functional.correlation, (x, y)), (attention, (x, y)),
    ):  # fmt: skip
        expected = function(*args)
        found = fuser.fuse(function, fallback="error")(*args)
        for a, b in zip(parts_of(found), parts_of(expected), strict=True):
            np.testing.assert_allclose(a, b, 3e-5, 1e-6, err_msg=f"{function.__name__}")
