"""What holds in every test: graphs are verified after every pass, and CI draws fixed examples."""

import os

from hypothesis import settings

# Before anything imports fuser, which reads its switches once.
os.environ.setdefault("FUSER_CHECK", "1")

# A compile on a busy machine takes as long as it takes, hence no deadline.
settings.register_profile("fuser", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("fuser")
