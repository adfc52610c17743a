"""A table made from a SELECT: servers log the statement and its rows in one transaction, which receives may cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from databus.binlog.server.dump import Dump, Events
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

_SIZE_AT = 9


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what lets every receive end behind one event, as at the head of a log."""
    received = Dump.batches

    def cut(dump: Dump, deadline: Callable[[], float] | None = None) -> Iterator[Events]:
        for events in received(dump, deadline):
            at = 0
            while at < events.end:
                size = int.from_bytes(events.buffer[at + _SIZE_AT : at + _SIZE_AT + 4].tobytes(), "little")
                yield Events(events.buffer[at : at + size].copy(), size, repeated=events.repeated)
                at += size
            if not events.end:
                yield events

    return lambda: monkeypatch.setattr(Dump, "batches", cut)


def selected(shop: Shop, condition: str) -> tuple[str, ...]:
    """Return statements that make a table anew from another one's rows, as the server allows it."""
    table, select = f"{shop.name}.t", f"SELECT id, v FROM {shop.name}.other WHERE {condition}"
    if shop.flavor == "mariadb":
        return (f"CREATE OR REPLACE TABLE {table} (PRIMARY KEY (id)) {select}",)
    return f"DROP TABLE {table}", f"CREATE TABLE {table} (PRIMARY KEY (id)) {select}"


@pytest.mark.parametrize(("condition", "rows"), [("TRUE", 2), ("FALSE", 0)])
def test_its_statement_is_planned_and_read_wherever_receives_end(
    shop: Shop, one_by_one: Callable[[], None], condition: str, rows: int
) -> None:
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {shop.name}.other (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {shop.name}.other VALUES (1, 1), (2, 2)",
    )
    tables = (f"{shop.name}.t",)
    source = shop.open(tables)
    before = source.latest_offset()
    statements = selected(shop, condition)
    shop.sql(*statements)
    whole = source.plan(before, EVERYTHING)
    assert whole is not None
    source.close()
    one_by_one()
    source = shop.open(tables, flow=f"{shop.name}_cut")
    plan = source.plan(before, EVERYTHING)
    assert plan is not None
    assert (plan.rows, plan.statements, plan.empty) == (rows, len(statements), False)
    assert plan == whole
    read = rows_of(source, plan)
    ops = [row["op"] for row in read]
    assert ops == ["m"] * len(statements) + ["c"] * rows
    made = read[len(statements) - 1]
    assert (made["table"], str(made["statement"]).startswith("CREATE")) == ("t", True)
    source.close()
