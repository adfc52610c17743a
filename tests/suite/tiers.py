"""Tiers of the suite: `make test` takes every path once, `make test-full` all; nothing is in neither.

The table `full_tier.txt` lists the further members of matrices (servers × engines × kinds), long forms of faults, and
long checks of tools.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest


class Full(NamedTuple):
    """Tests of the full tier only.

    Attributes:
        file: below tests/.
        test: beginning of the function's name; "" for the whole file.
        case: beginning of the parameters; "" for all.
        stays: what of it `make test` runs.
    """

    file: str
    test: str
    case: str
    stays: str

    def has(self, nodeid: str) -> bool:
        """Tell whether a test is one of them."""
        file, _, rest = nodeid.removeprefix("tests/").partition("::")
        name, _, case = rest.rpartition("::")[2].partition("[")
        return file == self.file and name.startswith(self.test) and case.startswith(self.case)


def read(table: Path) -> tuple[Full, ...]:
    """Return the entries of a table; lines that begin with # and empty ones say nothing."""
    lines = (line for line in table.read_text().splitlines() if line and not line.startswith("#"))
    return tuple(Full(*(field.strip() for field in line.split("|"))) for line in lines)


FULL = read(Path(__file__).with_name("full_tier.txt"))


@cache
def _listed() -> dict[str, list[Full]]:
    found = defaultdict(list)
    for entry in FULL:
        found[f"tests/{entry.file}"].append(entry)
    return dict(found)


def is_full(nodeid: str) -> bool:
    """Tell whether a test is in the full tier only."""
    file = nodeid.partition("::")[0]
    entries = (*_listed().get(file, ()), *_listed().get(f"tests/{file}", ()))
    return any(entry.has(nodeid) for entry in entries)


COLLECTED = pytest.StashKey[list[str]]()
"""All tests of the files that a run collected, before any was left out."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known by which `make test` leaves them out (`-m "not full"`)."""
    config.addinivalue_line("markers", "full: only in `make test-full` (tests/suite/full_tier.txt)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is in the full tier only; note all that there are, also those that the run leaves out."""
    config.stash[COLLECTED] = [item.nodeid for item in items]
    for item in items:
        if is_full(item.nodeid):
            item.add_marker("full")
