"""What the processes that measure are started with."""

import os
import sys
from pathlib import Path


def child_environment() -> dict[str, str]:
    """Return a child's environment: it finds what this process finds on its path.

    Machine code kept from earlier runs is not used, unless FUSER_CACHE says so: first calls are
    cold ones.
    """
    path = os.pathsep.join(dict.fromkeys(each or str(Path.cwd()) for each in sys.path))
    return {"FUSER_CACHE": "off", **os.environ, "PYTHONPATH": path}
