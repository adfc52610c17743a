"""Reports as a run makes them, and a store in a file."""

from __future__ import annotations

import pytest

from databus.records.store import RecordStore


@pytest.fixture
def store(tmp_path):
    with RecordStore(f"sqlite:///{tmp_path / 'new' / 'records.db'}") as opened:
        yield opened
