"""Server of a snapshot's views: the replica for rows that are sent, the source for what is compared or repaired."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus.binlog.log.capture import TableCapture
from databus.core.batching import Batching
from databus.core.errors.source import SnapshotNotYetVisibleError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.sources.mysql.snapshot import snapshot_reader
from databus.sources.mysql.snapshot.snapshot_reader import SnapshotReader

AT = BinlogOffset("log.000001", 100, "", "mysql", "s")


def server(name: str) -> Any:
    return SimpleNamespace(connection=name, flavor="mysql")


@pytest.mark.parametrize(
    ("cause", "absent", "at_source", "read"),
    [
        ("request", (), False, "replica"),
        ("initial", (), False, "replica"),
        ("request", (), True, "source"),
        ("repair", (), False, "source"),
        ("request", ('{"id":1}',), False, "source"),
    ],
)
def test_what_is_compared_or_repaired_is_read_at_the_source(
    monkeypatch: pytest.MonkeyPatch, cause: str, absent: tuple[str, ...], at_source: bool, read: str
) -> None:
    asked: list[str] = []

    def view(connection: str, *_: Any, **__: Any) -> Any:
        asked.append(connection)
        raise SnapshotNotYetVisibleError("not opened")

    monkeypatch.setattr(snapshot_reader, "ConsistentView", view)
    reader = SnapshotReader(server("source"), TableCapture(("s.*",)), replica=server("replica"))
    tables = (TableProgress("s.t"), TableProgress("s.u", absent=absent))
    snapshot = Snapshot(1, cause, datetime.now(UTC), tables)
    with pytest.raises(SnapshotNotYetVisibleError):
        reader.read(AT, snapshot, Batching(), SimpleNamespace(), at_source=at_source)  # type: ignore[arg-type]
    assert asked == [read]
