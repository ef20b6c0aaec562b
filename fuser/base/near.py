"""What a message says about a name that nothing has: names like it, or all that there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NEAREST, MOST_LISTED = 3, 12
"""Names like the given one that are told; and how many names are all told."""


def near_it(given: object, known: Iterable[str], otherwise: str = "") -> str:
    """Say which names are like a misspelt one.

    Args:
        given: the name that nothing has, or what is in its place; upper and lower case are one.
        known: the names that there are.
        otherwise: what to say in place of all names.

    Returns:
        "near it: fused; known: fused, unfused, fallback". Of more than twelve names, and where
        there is an `otherwise`, those near it alone; else `otherwise`.
    """
    names = list(dict.fromkeys(known))
    spelled = {name.casefold(): name for name in names}
    near = get_close_matches(str(given).casefold(), list(spelled), n=NEAREST)
    parts = [f"near it: {', '.join(spelled[each] for each in near)}"] if near else []
    if not near and (otherwise or not names):
        return otherwise or "there are none"
    if not near or (not otherwise and len(names) <= MOST_LISTED):
        parts.append(f"known: {', '.join(names)}")
    return "; ".join(parts)
