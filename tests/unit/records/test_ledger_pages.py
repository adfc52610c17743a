"""Ledger pages in an SQLite file, and a database that is away."""

from __future__ import annotations

import pytest

from databus.records.recorder import SqlRecorder
from databus.runtime.ledger_paging import page_out
from tests.contract.growth import GrowthContract
from tests.contract.ledger_pages import FLOW, Flow, LedgerPagesContract
from tests.contract.many_partitions import ManyPartitionsContract
from tests.contract.merged_pages import MergedPagesContract


class TestLedgerPages(LedgerPagesContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/records.db"


class TestMergedPages(MergedPagesContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/records.db"


class TestGrowth(GrowthContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/records.db"


class TestManyPartitions(ManyPartitionsContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/records.db"


def test_history_stays_while_pages_cannot_be_written(tmp_path):
    flow = Flow(history=2)
    (tmp_path / "file").touch()
    with SqlRecorder.open(f"sqlite:///{tmp_path}/file/records.db") as recorder:
        flow.move(*range(1, 6))
        assert page_out(flow.store, recorder, FLOW) is None
    assert [e.number for e in flow.entries] == [1, 2, 3, 4, 5, 6]
    with SqlRecorder.open(f"sqlite:///{tmp_path}/records.db") as recorder:
        assert page_out(flow.store, recorder, FLOW) == 6
    assert [e.number for e in flow.entries] == [5, 6]
