"""What functions give, part by part."""

from typing import Any


def parts_of(result: Any) -> tuple[Any, ...]:
    """The results of a function that gives one, or a tuple of them."""
    return result if isinstance(result, tuple) else (result,)
