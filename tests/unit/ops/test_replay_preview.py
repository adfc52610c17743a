"""What a replay would refuse is known before it is begun."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.cli.quarantine import _warn_of
from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.ops.quarantine.replay_entries import refusals
from databus.ops.quarantine.replay_refusals import SINK_BEHIND
from databus.ops.quarantine.show import select
from databus.records.quarantine.rows import Selection
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore

SINKS = (Kafka(conn_id="k", topic="t"), Elasticsearch(conn_id="e", name="search"))
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=SINKS)


def place(pos: int) -> BinlogOffset:
    return BinlogOffset("bin.000001", pos, server="s")


def test_rows_whose_range_a_sink_has_yet_to_pass_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with SqlRecorder(RecordStore(url)) as recorder:
        for batch, event, stage in ((1, "e1", CHECK), (2, "e2", CHECK), (2, "e3", "kafka")):
            recorder.quarantine(
                "orders", batch, [RejectedRow(event, "shop.orders", None, "a cause", stage, "b.1:4", "{}")]
            )
    commits = [
        SimpleNamespace(action="commit", batch=batch, previous=place(100 * batch), offset=place(100 * batch + 100))
        for batch in (1, 2)
    ]
    own = SimpleNamespace(load=lambda _: SimpleNamespace(offset=place(200)), history=lambda *_: [])
    store: Any = SimpleNamespace(history=lambda *_: commits, sinks_behind=lambda _: ("search",), of_sink=lambda _: own)
    services: Any = SimpleNamespace(store=store, settings=Settings("t", "", url))
    (refused,) = refusals(FLOW, services, select(FLOW, services, Selection()))
    assert (refused.batch, refused.rows, refused.error.code) == (2, 2, SINK_BEHIND)
    _warn_of([refused.to_json()])
    told = " ".join(capsys.readouterr().err.split())
    assert "batch 2 (2 rows) would be refused: flow orders: sink search is behind" in told
    assert told.count("then replay.") == 1
    alone = FLOW.model_copy(update={"sinks": SINKS[:1]})
    assert refusals(alone, services, select(alone, services, Selection())) == []
