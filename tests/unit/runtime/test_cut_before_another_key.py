"""A batch ends before rows whose ids a sink refuses: those before the ALTER are delivered under the ids they have."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Batching, Flow, Mock
from databus.core.errors import SinkKeyChangedError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.runtime.plan import next_plan
from databus.runtime.tables.changed_keys import ChangedKeys
from databus.sinks.noop import Noop
from databus.testing.table_batches import table

NAMES = {"id": "int", "b": "int"}
BY_ID, BY_B = table("shop.t", NAMES), table("shop.t", NAMES, ("b",), schema_id=1)


class Source:
    """Rows 1 to 3 of the first definition, 4 to 6 of the second one; one row a transaction."""

    def __init__(self, *, tells: bool = True, grows: bool = False):
        self.tells, self.grows = tells, grows
        self.discarded: list[int] = []
        self.asked: list[int] = []

    def plan(self, after: Any, limit: Batching) -> SourcePlan:
        self.asked.append(limit.max_rows)
        first, last = after.sequence, 6 if self.grows else min(6, after.sequence + limit.max_rows)
        tables = [*([BY_ID] if first < 3 else []), *([BY_B] if last > 3 else [])]
        numbered = tuple(replace(each, schema_id=number) for number, each in enumerate(tables))
        before = tuple(0 if each.primary_key == ("id",) else max(0, 3 - first) for each in tables)
        span = OffsetRange(SequenceOffset(first), SequenceOffset(last))
        return SourcePlan(span, numbered, last - first, 1, rows_before=before if self.tells else ())

    def discard(self, plan: SourcePlan) -> None:
        self.discarded.append(plan.range.end.sequence)  # type: ignore[attr-defined]


class Sink:
    """A sink with ids made of one key; `rows` is what it says to lie before another one of the same definition."""

    def __init__(self, *key: str, rows: int = -1):
        self.key, self.rows = key, rows

    def prepare(self, plan: SourcePlan, outputs: Any) -> SinkPlan:
        for definition in plan.tables:
            if definition.primary_key != self.key:
                error = SinkKeyChangedError("another key")
                error.definition = definition.schema_id
                raise error
        if 0 <= self.rows < plan.rows:
            error = SinkKeyChangedError("the same names, other columns")
            error.definition, error.rows_before = 0, self.rows
            raise error
        return SinkPlan()


def planned(source: Source, at: int, *key: str, rows: int = -1) -> tuple[int, tuple[TableSchema, ...]]:
    spec = Flow(name="f", source=Mock(rows=1), sinks=(Noop(name="s"),))
    session: Any = SimpleNamespace(
        flow=spec,
        sinks={"s": Sink(*key, rows=rows)},
        sink_spec=lambda _: spec.sinks[0],
        split=False,
        passed=None,
        snapshots=None,
        keys=ChangedKeys(),
        replays=False,
        live_standing=None,
        spec_hash="h",
        source=source,
        settings=SimpleNamespace(installation="t"),
        clock=SimpleNamespace(now=lambda: None),
        store=SimpleNamespace(write_plan=lambda *_: None),
    )
    standing: Any = SimpleNamespace(
        offset=SequenceOffset(at), batch=0, slots={}, closed_until=None, pace={}, first={}, output_ids={},
        output_names={}, replay_until=None,
    )  # fmt: skip
    batch = next_plan(session, SimpleNamespace(), standing, settled=True)  # type: ignore[arg-type]
    assert batch is not None
    assert batch.plan.range == batch.source.range
    return batch.source.range.end.sequence, batch.source.tables  # type: ignore[attr-defined]


def test_a_batch_ends_before_the_rows_of_another_key() -> None:
    source = Source()
    assert planned(source, 0, "id") == (3, (BY_ID,))
    assert (source.asked[1:], source.discarded) == ([3], [6])
    with pytest.raises(SinkKeyChangedError):  # nothing of the former key lies before them
        planned(source, 3, "id")
    assert planned(source, 3, "b")[0] == 6


def test_it_stops_where_no_boundary_is_known_or_none_comes() -> None:
    for source in (Source(tells=False), Source(grows=True)):
        with pytest.raises(SinkKeyChangedError):
            planned(source, 0, "id")
    with pytest.raises(SinkKeyChangedError):
        planned(Source(), 0, "b")


def test_it_ends_before_rows_of_the_same_definition_whose_key_is_another_column() -> None:
    source = Source()
    assert planned(source, 0, "id", rows=2) == (2, (BY_ID,))
    assert (source.asked[1:], source.discarded) == ([3, 2], [6, 3])
    with pytest.raises(SinkKeyChangedError):
        planned(source, 3, "b", rows=0)
