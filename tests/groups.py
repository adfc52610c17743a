"""Which tests one process of a run takes together, as pytest-xdist's scheduler asks."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

_PACKAGES = ("tests/e2e/", "tests/spark/")
"""Tests in these share what is costly to start: an Airflow, a Spark session."""


class ByFile(LoadScopeScheduling):
    """A file's tests are taken together, and those of some packages.

    `xdist_group` marks do not reach the scheduler (pytest-xdist 3.8 writes them into a name that pytest 9.2 computes).
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((package for package in _PACKAGES if nodeid.startswith(package)), nodeid.partition("::")[0])
