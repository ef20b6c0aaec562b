"""What the fuser says to `logging`, under the name "fuser".

A program that has not imported `logging` has set up nothing that could take a line, so it is not
imported here. Reasons for not fusing are of level INFO, what is traced and compiled of level DEBUG.
"""

from __future__ import annotations

import sys
from typing import Any


def tell(text: str, *values: Any) -> None:
    """Log a line of level INFO.

    Args:
        text: with `%s` for each value.
        values: are spelled only where somebody listens.
    """
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger("fuser").info(text, *values)


def note(text: str, *values: Any) -> None:
    """Log a line of level DEBUG.

    Args:
        text: see `tell`.
        values: likewise.
    """
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger("fuser").debug(text, *values)
