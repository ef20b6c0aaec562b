"""`pytest suites` in a checkout, `pytest --pyargs fuser.suites` anywhere else."""

pytest_plugins = ["fuser.suites.plugin"]
