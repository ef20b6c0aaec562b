"""What `logging` is told, under the name "fuser"."""

import logging

import numpy as np
import pytest

import fuser
from tests.children import said

X = np.arange(4.0)


def test_reasons_and_kernels_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A reason once at level INFO, what is traced at level DEBUG."""
    with caplog.at_level(logging.DEBUG, "fuser"):
        fuser.fuse(lambda x: x * 2 - 1)(X)
        refused = fuser.fuse(lambda x: len(str(x)) + x)
        with pytest.warns(fuser.FallbackWarning):
            refused(X)
        refused(X)
    said = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert len(said) == 1
    assert said[0].startswith("not fused: ")
    assert any("traced <lambda>" in record.getMessage() for record in caplog.records)


def test_logging_is_not_imported() -> None:
    """A program that does not log does not pay for it."""
    code = "import sys, fuser; fuser.fuse(lambda x: x + 1)(2.0); print('logging' in sys.modules)"
    assert said("-c", code).strip() == "False"
