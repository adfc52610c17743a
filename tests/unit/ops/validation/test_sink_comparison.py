"""Rounds of a comparison in a model: a source that is written to all the time, a sink that follows it late.

Whatever writers do between two steps, a row that the sink gets by and by is no difference, and one that it does not get
is found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from databus import Flow, Kafka, MysqlBinlog
from databus.core.protocols.validated_sink import held_schema
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.ops.validation.expected_rows import ExpectedRows
from databus.ops.validation.result import SinkComparison
from databus.ops.validation.sink_comparison import ComparedSink

TABLE = "s.t"
FLOW = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("s.*",)), sinks=(Kafka(conn_id="k"),))
SCHEMA = TableSchema(0, "s", "t", (ColumnSchema("id", "int", "int"),), ("id",))
KEYS = 12


class Model:
    """A log of one table, a flow that carries it over, and a sink; each is at once source, reads, wait and state."""

    def __init__(self, seed: int, busy: float):
        self.chance, self.busy = random.Random(seed), busy
        self.log: list[tuple[int, bytes | None]] = []
        self.records: list[tuple[int, bytes | None]] = []
        self.delivered = self.committed = 0
        self.source, self.schemas, self.end = self, {TABLE: SCHEMA}, 0
        self.at_once, self.tells_later, self.told = seed % 2 == 0, seed % 3 > 0, 0
        for key in range(100, 104):
            self.change(key, b'"still"')
        self.writes(1.0)
        self.carry(len(self.log))

    def change(self, key: int, value: bytes | None) -> None:
        self.log.append((key, value))

    def writes(self, share: float | None = None) -> None:
        """Write a little, to and fro between few values, and let the sink go on or not."""
        while self.chance.random() < (self.busy if share is None else 0.9):
            key = self.chance.randrange(KEYS)
            self.change(key, self.chance.choice((None, b'"x"', b'"y"')))
        if self.chance.random() < 0.5:
            self.carry(self.chance.randint(self.committed, len(self.log)))

    def carry(self, upto: int) -> None:
        """Deliver the log up to a place; the commit may come later."""
        self.records += self.log[self.delivered : max(upto, self.delivered)]
        self.delivered = max(self.delivered, upto)
        if self.chance.random() < 0.7:
            self.committed = self.delivered

    def spoil(self, key: int, value: bytes | None) -> None:
        self.records.append((key, value))

    # the source

    def end_of_log(self, _: int) -> int:
        return len(self.log)

    def read(self, covers: int, conditions: Mapping[str, str]) -> Iterator[ExpectedRows]:
        assert covers <= len(self.log)
        named = conditions[TABLE]
        for half in (range(KEYS // 2), range(KEYS // 2, 200)):
            self.writes()
            shown = dict(self.log[: self.chance.randint(covers, len(self.log))])  # a view may be behind the log
            rows = [(key, value) for key, value in sorted(shown.items()) if key in half and value is not None]
            if named:
                chosen = set(map(int, named.partition("(")[2].rstrip(")").split(", ")))
                rows = [row for row in rows if row[0] in chosen]
            tables, withheld = pa.array([TABLE] * len(rows), pa.string()), np.zeros(len(rows), np.bool_)
            yield ExpectedRows(held([(*row, None) for row in rows]), tables, withheld)
        self.end = len(self.log)
        self.writes()

    # the wait

    def standing(self) -> int:
        return self.committed

    def reached(self, place: int) -> int:
        self.writes()
        self.carry(max(place, self.committed))
        self.committed = self.delivered
        return self.committed

    # the sink

    def held(self, _: Any) -> Model:
        return self

    @property
    def of_one_moment(self) -> bool:
        return self.at_once

    def rows(self) -> Iterator[pa.RecordBatch]:
        seen, self.told = list(enumerate(self.records)), len(self.records)
        made = (held([(key, value, str(number))]) for number, (key, value) in seen)
        return made if self.at_once else self.disturbed(made)

    def disturbed(self, made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in made:
            if self.chance.random() < 0.1:
                self.writes()
            yield each

    def later(self) -> Iterator[pa.RecordBatch]:
        self.writes()
        for number, (key, value) in list(enumerate(self.records))[self.told :]:
            if self.tells_later:
                yield held([(key, value, str(number))])

    def look(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        self.writes()
        newest = {key: (value, str(number)) for number, (key, value) in enumerate(self.records)}
        asked = [int(key.decode().partition(":")[2].rstrip("}")) for key in keys["key"].to_pylist()]
        found = held([(key, *newest.get(key, (None, None))) for key in asked])
        self.writes()
        return found

    def close(self) -> None:
        pass


def held(rows: list[tuple[int, bytes | None, str | None]]) -> pa.RecordBatch:
    found = [
        {"output": "o", "key": b'{"id":%d}' % key, "content": content, "version": version}
        for key, content, version in rows
    ]
    return pa.RecordBatch.from_pylist(found, schema=held_schema())


def compare(model: Any, conditions: dict[str, str] | None = None) -> SinkComparison:
    compared = ComparedSink(FLOW, "kafka", model, {"o": (TABLE,)}, (TABLE,), model, model)
    return compared.whole() if conditions is None else compared.sampled(conditions)


def named(result: SinkComparison) -> set[tuple[str, bytes]]:
    return {(each.kind, each.key) for each in result.differences}


@pytest.mark.parametrize("seed", range(60))
def test_what_writers_do_meanwhile_is_no_difference(seed: int) -> None:
    assert named(compare(Model(seed, busy=0.9))) == set()
    assert named(compare(Model(seed, busy=0.9), {TABLE: ""})) == set()


@pytest.mark.parametrize("seed", range(20))
def test_what_never_comes_is_found_among_writes(seed: int) -> None:
    model = Model(seed, busy=0.9)
    model.spoil(100, b'"spoilt"')
    model.spoil(101, None)
    model.spoil(150, b'"added"')
    missing, different, extra = (("missing", b'{"id":101}'), ("different", b'{"id":100}'), ("extra", b'{"id":150}'))
    result = compare(model)
    assert named(result) == {missing, different, extra}
    assert result.tables[TABLE]["missing"] == 1
    assert named(compare(model, {TABLE: ""})) == {missing, different}


def test_a_key_that_never_rests_is_moving() -> None:
    moving = sum(compare(Model(seed, busy=0.97)).tables[TABLE]["moving"] for seed in range(20))
    assert moving > 0


def test_a_sink_that_lost_a_row_without_a_word_is_found() -> None:
    model = Model(3, busy=0.0)
    model.records = [record for record in model.records if record[0] != 102]
    assert named(compare(model)) == {("missing", b'{"id":102}')}


def test_moved_keys_are_equal_without_another_look_where_the_sink_tells_what_came_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    look = Model.look
    monkeypatch.setattr(Model, "look", lambda self, keys: looked.append(len(keys)) or look(self, keys))
    for seed in range(0, 120, 6):
        model = Model(seed, busy=0.9)
        model.tells_later = True
        assert named(compare(model)) == set()
    assert looked == []


class Queue(Model):
    """A table whose rows come and soon go, each with a new key, and a sink that forgets deleted ones."""

    def __init__(self, seed: int):
        self.last = 103
        super().__init__(seed, busy=0.0)

    def writes(self, share: float | None = None) -> None:
        for _ in range(self.chance.randrange(3)):
            if self.last < 199:
                self.last += 1
                self.change(self.last, b'"queued"')
            if self.last > 105:
                self.change(self.last - 2, None)
        self.carry(self.chance.randint(self.delivered, len(self.log)))

    def look(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        seen = super().look(keys).to_pylist()
        versions = [None if row["content"] is None else row["version"] for row in seen]
        return pa.RecordBatch.from_pylist(
            [{**row, "version": version} for row, version in zip(seen, versions, strict=True)], schema=held_schema()
        )


def test_rows_that_come_and_go_are_no_difference_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.ops.validation.key_conditions.MOST_KEYS", 0)  # all of the table is read again
    for seed in range(60):
        assert named(compare(Queue(seed))) == set()
    lacking = Queue(0)
    lacking.records = [record for record in lacking.records if record[0] != 102]
    assert named(compare(lacking)) == {("missing", b'{"id":102}')}


def spoilt() -> Model:
    model = Model(3, busy=0.0)
    for key in (100, 101):
        model.spoil(key, b'"spoilt"')
    for key in (150, 151):
        model.spoil(key, b'"added"')
    return model


def test_contents_are_kept_of_as_many_differences_as_are_shown() -> None:
    model = spoilt()
    compared = ComparedSink(FLOW, "kafka", model, {"o": (TABLE,)}, (TABLE,), model, model, most=1)  # type: ignore[arg-type]
    found = compared.whole().differences
    assert len(found) == 4
    assert [(each.source is None, each.sink is None) for each in found[1:]] == [(True, True)] * 3
    assert found[0].sink is not None


@pytest.mark.parametrize(("most", "left"), [(40, 1), (60, 1), (95, 1), (1_000, 0)])
def test_rows_that_are_looked_at_are_bounded_in_bytes_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch, most: int, left: int
) -> None:
    monkeypatch.setattr("databus.ops.validation.looked_keys.MOST_BYTES", most)
    result = compare(spoilt())
    assert (result.beyond > 0) == bool(left)
    assert len(result.differences) < 4 or not left
    assert named(result) <= named(compare_whole(spoilt(), monkeypatch))


def compare_whole(model: Model, monkeypatch: pytest.MonkeyPatch) -> SinkComparison:
    monkeypatch.setattr("databus.ops.validation.looked_keys.MOST_BYTES", 1 << 20)
    return compare(model)


def test_a_sample_ends_where_its_rows_are_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.ops.validation.looked_keys.MOST_BYTES", 40)
    for seed in range(10):
        result = compare(Model(seed, busy=0.9), {TABLE: ""})
        assert named(result) == set()
        assert any("the sample ended after" in note for note in result.notes)
