"""The form of caught log records: a logger of Spark's in the test's process makes it JSON for all later tests.

An error of a Spark session in this process makes `PySparkLogger`s that do not hand on their records. Pytest adds its
handlers to such loggers, and `PySparkLogger.addHandler` sets a formatter of its own on any handler (PySpark 4.1).
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Give pytest's handlers their own formatter again, once they were added."""
    _own_formatter(item)
    yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Do so before the fixtures, too."""
    _own_formatter(item)
    yield


def _own_formatter(item: pytest.Item) -> None:
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        for handler in (plugin.caplog_handler, plugin.report_handler):
            handler.setFormatter(plugin.formatter)
