"""Conditions that are no booleans, and routes that show what is hidden behind them."""

from __future__ import annotations

import pytest

from databus import Filter, Flow, Lookup, Mask, Mock, Noop, Route
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.ops.flows.written import as_written_by_people
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed_in_clear
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.runtime.direct.reasons import table_lanes
from databus.testing.table_batches import table

T = table("shop.t", {"id": "int", "amount": "decimal(9,2)", "day": "date", "note": "text", "on": "tinyint"})


def flow_of(*specs: TransformSpec) -> Flow:
    return Flow(name="f", source=Mock(rows=1), transforms=specs, sinks=(Noop(),))


@pytest.mark.parametrize(("condition", "kind"), [("amount", "decimal(9,2)"), ("day", "date"), ("`on`", "tinyint")])
def test_a_condition_that_is_no_boolean_is_refused_by_name(condition: str, kind: str) -> None:
    with pytest.raises(TransformError) as refused:
        table_lanes(flow_of(Filter(condition)), [T])
    assert refused.value.code == "filter_not_boolean"
    assert f"the condition is a {kind} in shop.t" in refused.value.message


@pytest.mark.parametrize("condition", ["amount > 1", "note IS NULL", "NOT `on` <> 0", "note", "coalesce(note, 'x')"])
def test_other_conditions_are_left_to_the_engine(condition: str) -> None:
    assert len(table_lanes(flow_of(Filter(condition)), [T])) == 1


def test_a_route_by_a_column_that_is_hidden_behind_it_is_told() -> None:
    def told(*specs: TransformSpec) -> list[tuple[str, str]]:
        hidden = Hidden()
        changes = FrameChanges(None, (T,), {T.schema_id: fields_of(T)}, hidden=hidden)
        for spec in specs:
            changes = spec.columns_after(changes)  # type: ignore[assignment] # the only implementation
        return [(what, leaf) for _, what, leaf in computed_in_clear(changes, hidden)]

    route = Route(by="note", routes=("a", "b"))
    assert told(route, Mask("note")) == [("the records' route", "note")]
    assert told(Mask("note"), route) == []
    assert told(route, Mask("amount")) == []


def test_a_long_table_of_a_lookup_is_shown_in_part() -> None:
    values = {str(number): number for number in range(500)}
    shown = as_written_by_people(flow_of(Lookup("note", values, into="n", type="int")))
    (lookup,) = shown["transforms"]
    assert lookup["values"] == {**{str(number): number for number in range(10)}, "…": "490 more"}
