"""What holds in every test: graphs are verified after every pass, nothing hangs, CI is repeatable.

`pytest-benchmark compare` loads this file too, in an environment that may have no hypothesis.
"""

import os
from importlib.util import find_spec

# Before anything imports fuser, which reads its switches once.
os.environ.setdefault("FUSER_CHECK", "1")

# Here and not in pyproject.toml: `pytest suites` measures for as long as it was told to.
os.environ.setdefault("PYTEST_TIMEOUT", "300")

if find_spec("hypothesis"):
    from hypothesis import settings

    # A compile on a busy machine takes as long as it takes, hence no deadline.
    settings.register_profile("fuser", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("fuser")
