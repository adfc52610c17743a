"""A range of rotations alone is no batch of data: checks of whole batches leave it alone."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, Mock, Noop, Volume
from databus.core.errors import QualityGateError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.observe.batch_points import StageTimes
from databus.runtime.batch import _move_nothing

START = BinlogOffset("mysql-bin.000001", 500)


def moved(end: BinlogOffset, log_bytes: int) -> Any:
    flow = Flow(name="idle", source=Mock(rows=1), sinks=(Noop(),), checks=(Volume(minimum_rows=1, severity="fail"),))
    planned = SourcePlan(OffsetRange(START, end), (), 0, log_bytes)
    session: Any = SimpleNamespace(flow=flow, sinks={}, sink_views=dict)
    batch: Any = SimpleNamespace(source=planned, plan=SimpleNamespace(clock=datetime.now(UTC), sinks={}))
    return _move_nothing(session, batch, StageTimes())


def test_rotations_alone_violate_nothing() -> None:
    assert moved(BinlogOffset("mysql-bin.000002", 4), 0).checks == ()


def test_transactions_of_other_tables_are_still_measured() -> None:
    with pytest.raises(QualityGateError):
        moved(BinlogOffset("mysql-bin.000001", 900), 400)
