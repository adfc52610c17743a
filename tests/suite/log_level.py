"""The level of the root's logger: a test that leaves it at DEBUG changes what later ones in its process hear."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest

_LEVEL = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the level before the test and its fixtures."""
    item.stash[_LEVEL] = logging.root.level


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Name a test after which the level is lower, and set it back; INFO is what Airflow sets as it is loaded."""
    yield
    before, left = item.stash.get(_LEVEL, logging.WARNING), logging.root.level
    if left < min(before, logging.INFO):
        logging.root.setLevel(before)
        pytest.fail(f"it leaves the root's logger at level {logging.getLevelName(left)}", pytrace=False)
