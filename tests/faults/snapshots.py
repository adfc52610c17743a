"""`make faults-snapshot`: a flow that begins with rows that are there, then snapshots on demand, under the same faults.

The n-th change of a key carries n. A row that a snapshot reads must say exactly the change of its key that came last:
one that came before would be stale, one that is still to come would be sent twice. Each snapshot sends a key once at
most, and each row that stands unchanged while it lasts once at least.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from databus import MysqlBinlog
from databus.core.flow import Mode
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.sandbox import Sandbox, SandboxOptions
from tests.faults.changes import TABLES, ChangeWriter, Key, text_of
from tests.faults.harness import Harness
from tests.faults.oracle import TopicOracle
from tests.faults.report import RESULTS, Report, say
from tests.faults.schedule import Fault, schedule
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.snapshots", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many minutes, 0 for no bound")
    parser.add_argument("--server-share", type=float, default=0.1)
    parser.add_argument("--kinds", nargs="*", default=[], help="only these faults, e.g. 'zombie driver'")
    parser.add_argument("--ports-from", type=int, default=29_800)
    parser.add_argument("--home", type=Path, help="folder of servers that stay up; default: servers of its own")
    parser.add_argument("--mode", choices=get_args(Mode), default="standard", help="of the flow: live is the live lane")
    parser.add_argument("--mutant", nargs="*", default=[])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    with tempfile.TemporaryDirectory(prefix="databus-faults-snapshot-") as made:
        sandbox = Sandbox(options.home or Path(made), ports_from=options.ports_from, options=SandboxOptions())
        sandbox.up(("zookeeper", "kafka", "mysql"))
        try:
            return _play(sandbox, Path(made) / "work", options)
        finally:
            if options.home is None:
                sandbox.destroy()


def _play(sandbox: Sandbox, folder: Path, options: argparse.Namespace) -> int:
    faults = schedule(options.rounds, options.seed, options.server_share, tuple(options.kinds))
    until = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    sys.stdout.write(f"seed {options.seed}, {len(faults)} rounds\n")
    with World(sandbox, folder, tuple(options.mutant), small_disk=os.getuid() == 0) as world:
        harness = SnapshotHarness(world, f"snap_{os.getpid()}_{options.seed}", options.seed, say, options.mode)
        try:
            report = harness.play(faults, until)
        finally:
            harness.close()
            file = RESULTS / f"faults-snapshot-{options.seed}.json"
            harness.report.keep(file, world.log)
    sys.stdout.write(f"{report.summary()}; {report.facts}; report: {file}\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
