"""A batch that is tried again after its source has lost records: what is left comes once, and the receipt adds up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import MarkerDivergedError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.core.tables.schemas import TableSchema
from databus.rows.raw_records import RawRecords
from databus.sinks.kafka.markers import Marker, compare
from databus.sinks.kafka.second_reading import last_place, rows_until
from databus.sinks.kafka.writer import KafkaSlotWriter
from databus.sinks.kafka_mirror.writer import MirrorSlotWriter

LOGS = ("t[0]", "t[2]", "t[10]", "u[0]")
KAFKA = OffsetRange(KafkaOffsets({}), KafkaOffsets({"t": {0: 9, 2: 9, 10: 9}, "u": {0: 9}}))
BINLOG = OffsetRange(BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 90))
LIMIT = 1_000


class Killed(BaseException):
    """The writer's process is gone."""


@dataclass(frozen=True)
class Row:
    """A record of the source."""

    log: str
    offset: int
    large: bool = False
    deleted: bool = False

    @property
    def order(self) -> tuple[int, str, int]:
        return len(self.log), self.log, self.offset

    @property
    def id(self) -> str:
        return f"{self.log}:{self.offset}"


class Topic:
    """A slot's marker and what is visible of its records; stands in for `Session` and its producer."""

    def __init__(self) -> None:
        self.marker: Marker | None = None
        self.records: list[tuple[str, int]] = []
        self.producer = self
        self._open: list[tuple[str, int, Callable[..., None] | None]] = []
        self.commits_left = 0
        self.applies_last = False

    def produce(self, _topic: str, value: Any, key: bytes, partition: int, report: Any, *_: Any, **__: Any) -> None:
        self._open.append((key.decode(), partition, report))

    def poll(self, _s: float) -> None: ...

    def begin(self, _probe: Marker | None = None) -> None:
        self._open = []

    def flush(self) -> None:
        ends = Counter(partition for _, partition in self.records)
        for _, partition, report in self._open:
            offset, ends[partition] = ends[partition], ends[partition] + 1
            if report is not None:
                report(None, SimpleNamespace(offset=lambda offset=offset: offset))

    def commit(self, marker: Marker) -> None:
        dies = not self.commits_left
        if dies and not self.applies_last:
            raise Killed
        self.commits_left -= 1
        self.records += [(key, partition) for key, partition, _ in self._open]
        self.marker = Marker.parse(marker.batch, marker.metadata())
        self._open = []
        if dies:
            raise Killed


def plan_of(span: OffsetRange) -> Plan:
    return Plan("i", "f", 2, span, {"kafka": SinkPlan(1, (0,), {"out": 11})}, "s", datetime(2026, 1, 1, tzinfo=UTC))


def pieces(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def encoded(rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
    """Batches as both lanes make them: of one log, or of several."""
    for piece in pieces(rows, 5):
        yield pa.RecordBatch.from_pydict(
            {
                "topic": ["out"] * len(piece),
                "partition": pa.array([partition_of(r) for r in piece], pa.int32()),
                "key": [r.id.encode() for r in piece],
                "value": [b"x" * (2 * LIMIT if r.large else 1) for r in piece],
                "tombstone": [r.deleted for r in piece],
                "event_id": [r.id for r in piece],
                "ts_ms": [1] * len(piece),
                "database": ["c"] * len(piece),
                "table": [r.log[0] for r in piece],
                "log": [r.log for r in piece],
                "place": [r.offset for r in piece],
                "ordinal": [0] * len(piece),
                "part": pa.array([0] * len(piece), pa.int16()),
            }
        )


def raw(rows: Sequence[Row]) -> Iterator[RawRecords]:
    for log, of_log in groupby(rows, lambda row: row.log):
        for piece in pieces(list(of_log), 4):
            yield RawRecords(
                TableSchema(0, "c", log[0], ()), "cluster", log, partition_of(piece[0]),
                np.array([r.offset for r in piece], np.int64), [r.id.encode() for r in piece],
                [b"x" * (2 * LIMIT if r.large else 1) for r in piece], [None] * len(piece), [1] * len(piece), "out",
            )  # fmt: skip


def partition_of(row: Row) -> int:
    return int(row.log[2:-1])


KINDS: dict[str, tuple[type[KafkaSlotWriter], Callable[[Sequence[Row]], Iterator[Any]]]] = {
    "rows": (KafkaSlotWriter, encoded),
    "a mirror's records": (MirrorSlotWriter, raw),
}


def attempt(kind: str, topic: Topic, rows: Sequence[Row], chunk_rows: int, span: OffsetRange = KAFKA) -> WriteReceipt:
    """Write as `KafkaSlotWriter.write` does, in a session that is a Topic."""
    type_, batches = KINDS[kind]
    settings: Any = SimpleNamespace(client=SimpleNamespace(timeout_s=1.0))
    writer = type_("kafka", plan_of(span), settings, {"out": LIMIT}, chunk_rows)
    resume, tally = compare(topic.marker, writer.plan, "kafka", 0), writer.tally()
    if resume.finished:
        return writer._recount(batches(rows), 0, resume, tally)
    topic.begin()
    writer._write(cast("Any", topic), batches(rows), 0, resume, tally)
    return tally.receipt(0, 2)


def killed(kind: str, topic: Topic, rows: Sequence[Row], chunk_rows: int, span: OffsetRange = KAFKA) -> None:
    """Write until the process dies after the commits that the topic still lets through."""
    with pytest.raises(Killed):
        attempt(kind, topic, rows, chunk_rows, span)


def some_rows(chance: random.Random, kind: str) -> list[Row]:
    rows = [
        Row(log, offset, chance.random() < 0.1, kind == "rows" and chance.random() < 0.2)
        for log in LOGS
        for offset in range(chance.randint(0, 9))
    ]
    return sorted((replace(row, deleted=row.deleted and not row.large) for row in rows), key=lambda row: row.order)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_comes_once_whatever_is_killed_and_compacted(kind: str, seed: int) -> None:
    chance = random.Random(seed)
    rows, topic, seen = some_rows(chance, kind), Topic(), set[Row]()
    for _ in range(chance.randint(1, 5)):
        topic.commits_left, topic.applies_last = chance.randint(0, 3), chance.random() < 0.5
        with suppress(Killed):
            attempt(kind, topic, rows, chunk_rows=chance.randint(1, 6))
        done = topic.marker.done if topic.marker else 0
        # Rows are consumed in their order: so many of those not seen yet went into the chunks that were committed.
        seen |= set([row for row in rows if row not in seen][: done - len(seen)])
        rows = [row for row in rows if chance.random() < 0.7]
    topic.commits_left = 99
    receipt = attempt(kind, topic, rows, chunk_rows=chance.randint(1, 6))
    left = [row for row in rows if not row.large]
    made = [row for row in sorted(seen | set(rows), key=lambda row: row.order) if not row.large]
    assert [key for key, _ in topic.records] == [row.id for row in made for _ in range(1 + row.deleted)]
    assert Counter(receipt.rows) == Counter(f"c.{row.log[0]}" for row in left)
    assert len(receipt.rejected) == len(rows) - len(left)
    assert receipt.vanished == len(seen - set(rows))
    assert receipt.to_json().get("vanished", 0) == receipt.vanished
    assert receipt.written == len(topic.records)
    counted = Counter(f"out[{partition}]" for _, partition in topic.records)
    assert {name: facts["records"] for name, facts in receipt.outputs.items()} == counted
    assert topic.marker is not None
    assert topic.marker.place is None  # a whole batch needs none: older versions can read it
    again = attempt(kind, topic, rows[1:], chunk_rows=3)
    assert again.duplicate
    assert (again.written, again.vanished) == (receipt.written, receipt.vanished + bool(rows))


def row_of(log: str, *offsets: int) -> list[Row]:
    return [Row(log, offset) for offset in offsets]


def test_the_place_of_a_chunk_is_in_its_marker_for_kafka_alone() -> None:
    topic = Topic()
    topic.commits_left = 1
    killed("rows", topic, row_of("t[0]", *range(5)), 2)
    assert topic.marker is not None
    assert topic.marker.place == ("t[0]", 1, 0, 0)
    assert '"v":3' in topic.marker.metadata()
    topic = Topic()
    topic.commits_left = 1
    killed("rows", topic, row_of("t[0]", *range(5)), 2, BINLOG)
    assert topic.marker is not None
    assert topic.marker.place is None


@pytest.mark.parametrize("commits", [1, 99], ids=["in mid-batch", "when it is finished"])
def test_input_that_shrinks_without_a_log_that_can_lose_records_is_refused(commits: int) -> None:
    topic, rows = Topic(), row_of("t[0]", *range(5))
    topic.commits_left = commits
    if commits == 1:
        killed("rows", topic, rows, 2, BINLOG)
    else:
        attempt("rows", topic, rows, 2, BINLOG)
    topic.commits_left = 99
    with pytest.raises(MarkerDivergedError, match="not deterministic"):
        attempt("rows", topic, rows[:1], 2, BINLOG)


def test_rows_that_were_not_there_before_are_refused() -> None:
    topic = Topic()
    topic.commits_left = 1
    killed("rows", topic, row_of("t[0]", 0, 2, 4, 6), 3)
    topic.commits_left = 99
    with pytest.raises(MarkerDivergedError, match="not deterministic"):
        attempt("rows", topic, row_of("t[0]", 0, 1, 2, 4, 6), 3)


def test_a_marker_of_an_older_version_goes_on_by_count_while_nothing_is_gone() -> None:
    topic, rows = Topic(), row_of("t[0]", *range(5))
    topic.commits_left = 1
    killed("rows", topic, rows, 2)
    assert topic.marker is not None
    topic.marker = replace(topic.marker, place=None)
    topic.commits_left = 99
    receipt = attempt("rows", topic, rows, 2)
    assert (len(topic.records), receipt.written, receipt.vanished) == (5, 5, 0)


def test_places_are_ordered_as_rows_are() -> None:
    rows = sorted(row_of("t[10]", 1, 5) + row_of("t[2]", 3) + row_of("u[0]", 7), key=lambda row: row.order)
    batch = next(encoded(rows))
    assert [row.id for row in rows] == ["t[2]:3", "u[0]:7", "t[10]:1", "t[10]:5"]
    assert last_place(batch) == ("t[10]", 5, 0, 0)
    places = [("t[0]", 99), ("t[2]", 2), ("t[2]", 3), ("t[5]", 0), ("t[10]", 4), ("v[10]", 0)]
    assert [rows_until(batch, (*place, 0, 0)) for place in places] == [0, 0, 1, 1, 3, 4]
    assert rows_until(batch.slice(0, 0), ("t[0]", 0, 0, 0)) == 0
    several = batch.set_column(batch.schema.get_field_index("place"), "place", pa.array([3, 7, 1, 1]))
    several = several.set_column(several.schema.get_field_index("ordinal"), "ordinal", pa.array([0, 0, 0, 1]))
    assert rows_until(several, ("t[10]", 1, 0, 0)) == 3
