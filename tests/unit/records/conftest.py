"""Reports as a run makes them, and a store in a file."""

from __future__ import annotations

import pytest

from databus.records.quick_reader import RecordReader
from databus.records.store import RecordStore


@pytest.fixture
def store(tmp_path):
    with RecordStore(f"sqlite:///{tmp_path / 'new' / 'records.db'}") as opened:
        yield opened


@pytest.fixture
def reader(store):
    with RecordReader(store.url.render_as_string(hide_password=False)) as opened:
        yield opened
