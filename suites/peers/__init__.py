"""Runners of other fusers, each in a module of its own; what they need is imported when used."""

from importlib.util import find_spec


def missing(module: str, install: str) -> str | None:
    """Return what to install where a module is absent, else None."""
    if find_spec(module) is not None:
        return None
    return f"{module} is not installed: pip install {install}"
