"""How tests of random programs draw them: the same ones in each run, unless more are asked for."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "")
"""So many, drawn anew in each run."""


def randomly(examples: int, *unchecked: HealthCheck) -> settings:
    """Return the settings of a test that compiles what it draws, which takes its time."""
    return settings(
        max_examples=int(EXAMPLES or examples),
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, *unchecked],
    )
