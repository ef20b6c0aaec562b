"""`pytest suites` in a checkout, `pytest --pyargs fuser.suites` anywhere else.

The plugin is loaded by a hook: below the root pytest refuses `pytest_plugins`.
"""

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin, and with it its options."""
    pluginmanager.import_plugin("fuser.suites.plugin")
