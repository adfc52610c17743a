"""Rows of the source for those without an account there: nothing is shown of a hidden column under another name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from databus import DropColumns, Flow, Mask, Memory, Mock, RenameColumns
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import ColumnSchema, RenamedTable, TableSchema
from databus.ops.runs import shown_rows as of_rows
from databus.ops.runs.shown_rows import shown_rows
from databus.runtime.context import Services

SSN = "123-45"
PEOPLE = ("shop.people",)
RANGE = OffsetRange(SequenceOffset(0), SequenceOffset(1))


class Remembers:
    """Memory of hidden columns, the flow's own and one of its sink's."""

    def __init__(self, tables: dict[str, set[str]], of_sink: dict[str, set[str]] | None = None):
        self._tables, self._of_sink = tables, of_sink or {}

    def load(self, _flow: str) -> RememberedHidden:
        return RememberedHidden(self._tables)

    def of_sink(self, _sink: str) -> Remembers:
        return Remembers(self._of_sink)


def row(table: str = "people", key: dict[str, Any] | None = None, **after: Any) -> dict[str, Any]:
    return {
        "op": "c", "database": "shop", "table": table, "key": key or {"id": 1}, "before": None,
        "after": {"id": 1, **after} if after else None, "statement": None, "other_key": None, "event_id": "e1",
    }  # fmt: skip


def flow_of(*transforms: Any, of_sink: tuple[Any, ...] = ()) -> Flow:
    sinks = (Memory(transforms=of_sink),)
    return Flow(name="people", source=Mock(tables=PEOPLE, rows=1), transforms=transforms, sinks=sinks)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    def of(
        flow: Flow, *rows: Any, start: str | None = None, known: Remembers | None = None, **planned: Any
    ) -> list[dict[str, Any]]:
        def peek(_flow: Flow, _services: Any, _start: Any, _rows: int, note: Any) -> Iterator[dict[str, Any]]:
            note(SourcePlan(RANGE, **{"tables": (), "rows": len(rows), "bytes": 1, **planned}))
            yield from rows

        monkeypatch.setattr(of_rows, "peek", peek)
        services: Services = SimpleNamespace(hidden_columns=known)  # type: ignore[assignment]
        return [json.loads(line) for line in shown_rows(flow, services, start, 10)]

    return of


def test_a_table_that_lacks_a_hidden_column_shows_no_value(shown: Any) -> None:
    """The run stops there (`hidden_column_gone`): the column has another name behind an ALTER TABLE."""
    moved = row(social=SSN, note=None)
    known = Remembers({"shop.people": {"ssn"}})
    for flow, remembered in (
        (flow_of(Mask("ssn", tables=PEOPLE)), None),
        (flow_of(DropColumns("SSN", tables=("shop.*",))), None),
        (flow_of(Mask("ssn")), known),
        (flow_of(of_sink=(Mask("ssn"),)), Remembers({}, {"shop.people": {"ssn"}})),
        (flow_of(RenameColumns({"social": "mail"}), Mask("ssn")), known),
    ):
        (found,) = shown(flow, moved, known=remembered)
        assert SSN not in json.dumps(found)
        assert (found["after"], found["key"]) == ({"id": "***", "social": "***", "note": None}, {"id": "***"})
        assert (found["op"], found["event_id"]) == ("c", "e1")


def test_rows_of_other_tables_and_of_a_flow_that_was_mended_are_shown(shown: Any) -> None:
    mended = flow_of(Mask("social", former=("shop.people.ssn",), tables=PEOPLE))
    (found,) = shown(mended, row(social=SSN, note="n"), known=Remembers({"shop.people": {"ssn"}}))
    assert found["after"] == {"id": 1, "social": "***", "note": "n"}
    everywhere = flow_of(Mask("ssn"))
    assert shown(everywhere, row("items", note="n"))[0]["after"] == {"id": 1, "note": "n"}
    for renamed in (
        flow_of(RenameColumns({"ssn": "social"}), Mask("social", tables=PEOPLE)),
        flow_of(Mask("ssn", tables=PEOPLE)),
    ):
        assert shown(renamed, row(ssn=SSN, note="n"))[0]["after"] == {"id": 1, "ssn": "***", "note": "n"}


def test_what_an_image_leaves_out_is_not_missing(shown: Any) -> None:
    flow = flow_of(Mask("ssn", tables=PEOPLE))
    columns = tuple(ColumnSchema(name, "int", "int", nullable=True) for name in ("id", "ssn"))
    tables = (TableSchema(0, "shop", "people", columns, ("id",)),)
    deleted, partial = {**row(), "schema_id": 0}, {**row(note="n"), "absent": ["ssn"]}
    assert [each["key"] for each in shown(flow, deleted, partial, tables=tables)] == [{"id": 1}, {"id": 1}]
    assert shown(flow, row(), tables=tables)[0]["key"] == {"id": "***"}


def test_a_table_that_is_renamed_away_from_its_mask_shows_no_value(shown: Any) -> None:
    flow = flow_of(Mask("ssn", tables=PEOPLE))
    old = row("people_old", ssn=SSN, note="n")
    (found,) = shown(flow, old, renamed=(RenamedTable("shop.people", "shop.people_old"),))
    assert set(found["after"].values()) == {"***"}
    (found,) = shown(flow, old, start="latest")  # no statement is read that says so
    assert found["after"] == {"id": 1, "ssn": "***", "note": "n"}
    both = flow_of(Mask("ssn", tables=("shop.people*",)))
    (found,) = shown(both, old, renamed=(RenamedTable("shop.people", "shop.people_old"),))
    assert found["after"] == {"id": 1, "ssn": "***", "note": "n"}


def test_a_column_that_is_renamed_and_made_anew_shows_no_value(shown: Any) -> None:
    flow = flow_of(Mask("ssn", tables=PEOPLE))
    (found,) = shown(flow, row(ssn="new", social=SSN), columns_renamed=(("shop.people", (("ssn", "social"),)),))
    assert set(found["after"].values()) == {"***"}
