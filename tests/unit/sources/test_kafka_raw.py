"""Raw records: what the fetcher hands on, what a slot reads, and that the slots together read the whole range."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message

from databus import Mirror
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import ConfigError, ReconciliationError, SourceDivergedError
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.kafka.client import ClientSettings
from databus.rows.raw_records import ORIGIN, RawRecords
from databus.runtime.direct.raw_records import RawRecordTask, gathered_shares, task_type
from databus.runtime.direct.row_counts import RowCounter, Taker
from databus.sinks.kafka_mirror.sink import MirrorEncoder
from databus.sources.kafka import fetch as kafka_fetch
from databus.sources.kafka.fetch import Fetcher, FetchRange
from databus.sources.kafka.raw_split import RawKafkaSplit

HEADERS = [("h", b"1"), ("h", None), ("h", b"")]
SCHEMA = TableSchema(0, "kafka_east", "t", ())


def message(offset: int, partition: int = 0, topic: str = "t", **more: Any) -> Message:
    given = {"key": b"k", "value": b"v", "timestamp": (1, 5), **more}
    return Message(topic=topic, partition=partition, offset=offset, **given)


def eof(offset: int, partition: int = 0) -> Message:
    return message(offset, partition, error=KafkaError(KafkaError._PARTITION_EOF))


class Scripted:
    """A consumer that gives what it was told to."""

    def __init__(self, *answers: list[Message]):
        self.answers = deque(answers)

    def consume(self, _most: int, _wait_s: float) -> list[Message]:
        return self.answers.popleft()

    def assign(self, _places: Any) -> None: ...
    def pause(self, _places: Any) -> None: ...
    def resume(self, _places: Any) -> None: ...
    def unassign(self) -> None: ...
    def close(self) -> None: ...


def fetched(monkeypatch: pytest.MonkeyPatch, stretches: list[FetchRange], *answers: list[Message]) -> list[Any]:
    settings = ClientSettings("east", "nowhere:1")
    monkeypatch.setattr(ClientSettings, "consumer", lambda *_: Scripted(*answers))
    return [
        (s.partition, [m.offset() for m in found]) for s, found in Fetcher(settings, "", {}, stretches, "orders").read()
    ]


def test_what_lies_behind_the_end_and_the_end_itself_close_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    stretch = FetchRange("t", 0, 5, 9)
    assert fetched(monkeypatch, [stretch], [message(5), message(7)], [message(8)]) == [(0, [5, 7]), (0, [8])]
    assert fetched(monkeypatch, [stretch], [message(5), message(9), message(10)]) == [(0, [5])]
    assert fetched(monkeypatch, [stretch], [message(11)]) == []
    assert fetched(monkeypatch, [stretch], [message(6), eof(9)]) == [(0, [6])]
    assert fetched(monkeypatch, [stretch], [message(6)], [message(4, 1), message(8)]) == [(0, [6]), (0, [8])]
    with pytest.raises(SourceDivergedError, match="offset 6 came behind 6"):
        fetched(monkeypatch, [stretch], [message(6)], [message(6), message(7)])
    with pytest.raises(SourceDivergedError, match="cut back") as refused:
        fetched(monkeypatch, [stretch], [message(7, error=KafkaError(KafkaError._LOG_TRUNCATION))])
    assert "`databus checkpoint skip orders latest --reason … --execute`" in refused.value.hint


def test_runs_are_taken_as_single_messages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    for _ in range(60):
        offsets = sorted(chance.sample(range(40), chance.randint(1, 25)))
        begin, end = sorted(chance.sample(range(45), 2))
        offsets = [o for o in offsets if o >= begin]
        cuts = [0, *sorted(chance.choices(range(len(offsets) + 1), k=3)), len(offsets)]
        answers = [[message(o) for o in offsets[a:b]] for a, b in pairwise(cuts)]
        answers = [a for a in answers if a] + [[eof(max(end, 45))]]
        both = []
        for fast in (True, False):
            with monkeypatch.context() as patched:
                if not fast:
                    patched.setattr(Fetcher, "_take_run", lambda *_: False)
                both.append(fetched(patched, [FetchRange("t", 0, begin, end)], *answers))
        assert both[0] == both[1]
        assert [o for _, found in both[0] for o in found] == [o for o in offsets if o < end]


def split(monkeypatch: pytest.MonkeyPatch, found: dict[int, list[Message]], leave_out: str = "") -> RawKafkaSplit:
    """Return a split whose fetcher finds these records by partition."""
    mirror = Mirror(
        name="m", source_conn_id="east", target_conn_id="west", topics="t", **({"two_way": "back"} if leave_out else {})
    )

    def read(self: Fetcher) -> Iterator[Any]:
        for stretch in self._stretches:
            yield stretch, found[stretch.partition]

    monkeypatch.setattr(kafka_fetch.Fetcher, "read", read)
    monkeypatch.setattr(ClientSettings, "consumer", lambda *_: Scripted())
    stretches = tuple(FetchRange("t", p, 0, of[-1].offset() + 1) for p, of in found.items())
    return RawKafkaSplit(mirror.source, stretches, {"t": (SCHEMA,)}, "c1", ClientSettings("east", "nowhere:1"), "copy")  # type: ignore[arg-type]


def test_records_are_handed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [
        message(3, key=None, value=None, timestamp=(0, -1)),
        message(4, key=b"", value=b"\x00\xff", headers=HEADERS),
        message(6, value=b"", timestamp=(2, 77)),
    ]
    ((records, left_out),) = split(monkeypatch, {0: given}).read_raw(lambda _: True)
    assert left_out == 0
    assert (list(records.keys), list(records.values)) == ([None, b"", b"k"], [None, b"\x00\xff", b""])
    assert (list(records.headers), list(records.stamps)) == ([None, HEADERS, None], [-1, 5, 77])
    assert (records.offsets.tolist(), records.event_id(1)) == ([3, 4, 6], "c1:t[0]:4:0:0")


def test_what_came_from_the_target_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = [(ORIGIN, b"west")]
    given = [message(0), message(1, headers=[*HEADERS, *mark]), message(2, headers=HEADERS)]
    ((records, left_out),) = split(monkeypatch, {0: given}, "west").read_raw(lambda _: True)
    assert (left_out, records.offsets.tolist(), list(records.headers)) == (1, [0, 2], [None, HEADERS])


def test_slices_and_filters_keep_records_whole() -> None:
    n = 7
    whole = RawRecords(
        SCHEMA, "c", "t[0]", 0, np.arange(n), [b"%d" % i for i in range(n)], [None] * n, [None] * n, range(n)
    )
    assert whole.slice(0, n) is whole
    assert whole.slice(2, 3).offsets.tolist() == list(whole.slice(2, 3).stamps) == [2, 3, 4]
    assert list(whole.slice(5).keys) == [b"5", b"6"]
    kept = whole.filter([i % 2 == 0 for i in range(n)])
    assert (kept.num_rows, kept.offsets.tolist(), list(kept.keys)) == (4, [0, 2, 4, 6], [b"0", b"2", b"4", b"6"])


def task(monkeypatch: pytest.MonkeyPatch, slots: int, marks: Any = None, **changed: Any) -> RawRecordTask:
    records = {p: [message(o, p) for o in range(p + 1)] for p in range(5)}
    pieces = (split(monkeypatch, records),)
    flow = Mirror(name="m", source_conn_id="east", target_conn_id="west", topics="t", policy="prefix")
    (sink,) = flow.sinks
    plan: Any = SimpleNamespace(sinks={sink.sink_name: SimpleNamespace(slots=slots)})
    offsets = OffsetRange(KafkaOffsets({}), KafkaOffsets({}))
    planned = SourcePlan(offsets, (SCHEMA,), 15, 15, bound=True)
    encoder = MirrorEncoder(sink, plan)  # type: ignore[arg-type]
    made = task_type(pieces, encoder)(
        flow, planned, pieces, {}, marks, (Taker(("*",), frozenset("c")),), 0, False, encoder, Consuming()
    )
    assert isinstance(made, RawRecordTask)
    return replace(made, **changed)


class Consuming:
    """A writer that counts what it is given, by topic."""

    def write(self, rows: Any, slot: int) -> WriteReceipt:
        found = [(r.topic, r.partition, r.num_rows) for r in rows]
        assert {topic for topic, _, _ in found} <= {"east.t"}
        return WriteReceipt("mirror", slot, 1, sum(n for _, _, n in found), outputs={f"{p}": {} for _, p, _ in found})


def test_slots_read_their_own_partitions_and_together_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(monkeypatch, 2)
    answers = [made.write(slot) for slot in (1, 0)]
    assert [sorted(receipt.outputs) for receipt, _ in answers] == [["1", "3"], ["0", "2", "4"]]
    whole = gathered_shares("mirror", made.planned, answers)
    assert (whole.observed["changes"], whole.given, [r.slot for r in whole.receipts]) == (
        15,
        {SCHEMA.full_name: 15},
        [0, 1],
    )
    with pytest.raises(ReconciliationError, match="its slots read 9 offsets of 15"):
        gathered_shares("mirror", made.planned, answers[1:])


def test_row_checks_cannot_look_into_raw_records(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="row checks cannot look into raw records"):
        task(monkeypatch, 1, marks=object()).encode(0)


@pytest.mark.parametrize("changed", [{"program": object()}, {"columns": {0: (("value", "v"),)}}])
def test_transforms_cannot_change_raw_records(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="transforms cannot change raw records"):
        task(monkeypatch, 1, **changed).encode(0)


def test_routes_decide_what_is_dispatched() -> None:
    planned = SourcePlan(OffsetRange(KafkaOffsets({}), KafkaOffsets({})), (SCHEMA,), 5, 5, bound=True)
    flow = Mirror(name="m", source_conn_id="east", target_conn_id="west", topics="t")
    for routes, dispatched in ((("*",), 3), (("other.*",), 0)):
        counter = RowCounter(flow, planned, (Taker(routes, frozenset("c")),), 0)
        assert counter.count_raw(SCHEMA, 3, 2) is bool(dispatched)
        assert counter.observed.read["0_dispatched"] == dispatched
        assert counter.observed.read["0_filtered"] == 5 - dispatched
        assert dict(counter.observed.mine) == ({SCHEMA.full_name: 3} if dispatched else {})
