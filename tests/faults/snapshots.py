"""`make faults-snapshot`: a flow that begins with rows that are there, then snapshots on demand, under the same faults.

The n-th change of a key carries n. A row that a snapshot reads must say exactly the change of its key that came last:
one that came before would be stale, one that is still to come would be sent twice. Each snapshot sends a key once at
most, and each row that stands unchanged while it lasts once at least.
With `--only` the flow brings rows alone, and the changes that they need.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from databus import MysqlBinlog
from databus.core.state.snapshot import Snapshot, TableProgress
from tests.faults.__main__ import command
from tests.faults.changes import TABLES, ChangeWriter, Key, text_of
from tests.faults.harness import Harness
from tests.faults.oracle import TopicOracle
from tests.faults.report import Report
from tests.faults.schedule import Fault
from tests.faults.world import World

_ID = re.compile(r"snapshot-(\d+)-")


class SnapshotOracle(TopicOracle):
    """Judges rows of snapshots beside the changes.

    Attributes:
        before: operations of each key before the flow began.
        read: keys by snapshot, with the version that it sent.
    """

    def __init__(self, bootstrap: str, topic: str, before: Mapping[Key, Sequence[str]]):
        super().__init__(bootstrap, topic)
        self.before = {key: list(ops) for key, ops in before.items()}
        self.read: dict[int, dict[Key, int]] = {}
        self.changed: set[Key] = set()
        for key, ops in self.before.items():
            self._numbers[key] = len(ops)
            self._ops[key] = dict(enumerate(ops, 1))
            self.tombstones["", key[1]] += sum(op == "d" for op in ops)

    def take(self, key: bytes, value: bytes | None, place: str) -> None:
        """Judge one record."""
        record = None if value is None else json.loads(value)
        if record is None or record["op"] != "r":
            super().take(key, value, place)
            if record is not None:
                row = record["before"] if record["op"] == "d" else record["after"]
                self.changed.add((record["source"]["table"], row["id"]))
            return
        row, source = record["after"], record["source"]
        name: Key = (source["table"], row["id"])
        last = self._numbers.get(name, 0)
        text = f"{name} read at change {row['v']} after {last} at {place}, {source['event_id']}"
        found = _ID.search(source["event_id"])
        if found is None or row["w"] != text_of(*name, row["v"]) or json.loads(key) != {"id": row["id"]}:
            self.verdict.add("wrong", text)
            return
        if row["v"] != last:
            self.verdict.add("disordered" if row["v"] < last else "lost", text)
        elif self._ops[name][last] == "d":
            self.verdict.add("resurrected", text)
        sent = self.read.setdefault(int(found[1]), {})
        if name in sent or source["event_id"] in self._ids:
            self.verdict.add("duplicated", text)
        sent[name] = row["v"]
        self._ids.add(source["event_id"])

    def settle(self, expected: Mapping[Key, Sequence[str]]) -> None:
        """Compare all changes, and the rows from before the flow."""
        super().settle(expected)
        first = self.read.get(1, {})
        for key, ops in self.before.items():
            if ops[-1] != "d" and key not in first and key not in self.changed:
                self.verdict.add("lost", f"{key}, which was there before the flow")

    def settle_snapshot(self, number: int, unchanged: Mapping[Key, int]) -> None:
        """Compare a finished snapshot with the rows that stood unchanged while it was read."""
        sent = self.read.get(number, {})
        for key, version in unchanged.items():
            if sent.get(key) != version:
                self.verdict.add("lost", f"snapshot {number} sent {key} at {sent.get(key)}, it stands at {version}")


class SnapshotHarness(Harness):
    """One flow after the other snapshot."""

    written_before = 260

    def __init__(self, world: World, name: str, seed: int, *more: Any):
        super().__init__(world, name, seed, *more)
        self._stood: dict[Key, int] = {}
        self.snapshots = 0

    def _read_from(self, source: MysqlBinlog) -> MysqlBinlog:
        return source.model_copy(update={"start": "latest", "snapshot": "initial"})

    def _oracle_of(self, bootstrap: str, writer: ChangeWriter) -> SnapshotOracle:
        writer.total = 0  # what was written before comes as rows, and is counted apart
        return SnapshotOracle(bootstrap, writer.database, writer.snapshot())

    def play(self, faults: Sequence[Fault], until: float = float("inf")) -> Report:
        """Begin the flow before anything changes, then play."""
        run = self.runs.committing(1)
        if run is not None:
            self.runs.stop_in_order(run)
        report = super().play(faults, until)
        self.report.facts.update(snapshots=self.snapshots, rows_read=self._rows_read())
        return report

    def _rows_read(self) -> int:
        assert isinstance(self.oracle, SnapshotOracle)
        return sum(map(len, self.oracle.read.values()))

    def judge(self) -> None:
        """Judge, and begin another snapshot where the last one is over."""
        assert isinstance(self.oracle, SnapshotOracle)
        assert isinstance(self.writer, ChangeWriter)
        found = self._store.snapshot(self.name)
        super().judge()
        if found is None or found.finished_at is None:
            return
        rows = self.writer.rows()
        if self._stood:
            same = {key: version for key, version in self._stood.items() if rows.get(key) == version}
            self.oracle.settle_snapshot(found.number, same)
        self.snapshots = found.number
        self._stood = rows
        tables = tuple(TableProgress(f"{self.name}.{table}") for table in TABLES)
        snapshot = Snapshot(found.number + 1, "request", datetime.now(UTC), tables)
        self._store.begin_snapshot(self.name, None, snapshot, "harness", "one after the other")
        self.report.note(f"snapshot {snapshot.number} begins")


class OnlyHarness(SnapshotHarness):
    """One flow with `snapshot="only"`: changes come as far as rows need them, so that snapshot follows snapshot."""

    def _read_from(self, source: MysqlBinlog) -> MysqlBinlog:
        return source.model_copy(update={"start": "latest", "snapshot": "only"})

    def _relieve(self) -> None:
        super()._relieve()
        found = self._store.snapshot(self.name)
        if found is not None and not found.unfinished:
            self.judge()

    def settle(self) -> None:
        """Let a last snapshot bring what was written behind the one before."""
        self.writer.stop()
        self.judge()
        super().settle()


if __name__ == "__main__":
    only = "--only" in sys.argv[1:]
    sys.argv[1:] = [given for given in sys.argv[1:] if given != "--only"]
    sys.exit(command(OnlyHarness if only else SnapshotHarness, "snap", 300, 29_800, __doc__, "faults-snapshot"))
