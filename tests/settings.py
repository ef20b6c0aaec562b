"""Settings of the fuser for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from fuser.base import config


@contextmanager
def settings(**changed: object) -> Iterator[None]:
    """Put changed settings in force, and those before again at the end."""
    before = config.change(**changed)
    try:
        yield
    finally:
        config.restore(before)
