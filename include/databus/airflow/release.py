"""Airflow's release: one that is too old is refused by name, before its first missing name is met.

Nothing of Airflow is imported here but its version: the provider manager imports this package while Airflow is half
imported.
"""

from __future__ import annotations

import re

from databus.core.errors.config import PackageVersionError
from databus.core.packages import require

OLDEST, NEWEST = (3, 1), (3, 3)
"""Minor releases that were tried; how far, says docs/install/packages.md."""


def require_airflow(what: str = "databus.airflow") -> None:
    """Refuse an Airflow that is not there or too old; newer ones than were tried go on.

    Args:
        what: what needs it.

    Raises:
        PackageMissingError: Airflow is not installed.
        PackageVersionError: it is older than `OLDEST`.
    """
    require(("airflow",), what)
    from airflow import __version__

    if release(__version__) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise PackageVersionError(
            f"databus needs Airflow {oldest} or later, found {__version__}",
            hint=f"pip install 'apache-airflow>={oldest}', with Airflow's constraints.",
        )


def release(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version of Airflow such as "3.1.0" or "3.2.0rc1"."""
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()  # type: ignore[union-attr]  # PEP 440
    return int(major), int(minor)
