"""Tables as a source tells them, and the findings of a flow that is compared with them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from databus import (
    Elasticsearch,
    Flow,
    Kafka,
    MysqlBinlog,
)
from databus.core.findings import Finding, Level
from databus.core.positions.offsets import Offset
from databus.core.tables.wanted import TablesNow, wants_from_json, wants_to_json
from databus.ops.tables.compare import compare
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.table_batches import table

ORDERS = table("shop.orders", {"id": "bigint", "Amount": "decimal(12,2)", "email": "varchar(80)"})
CUSTOMERS = table("shop.customers", {"id": "bigint", "phone": "varchar(20)", "scan": "blob"}, schema_id=1)
KEYLESS = table("shop.log", {"line": "text"}, (), schema_id=2)
TOPIC = Kafka(conn_id="k", topic="t")
INDEX = Elasticsearch(conn_id="e")


class Told(MockSource):
    """A source whose server says of its tables what the test says."""

    def __init__(self, now: TablesNow):
        super().__init__(Mock(rows=0))
        self.now, self.asked, self.ddl = now, 0, False

    def tables_now(self) -> TablesNow:
        self.asked += 1
        return self.now

    def tables_gone(self, standing: Offset | None = None) -> tuple[str, ...]:
        return self.now.unmatched

    def tables_may_be_gone(self) -> bool:
        return self.ddl


class Kept:
    """Accepted wants in memory."""

    def __init__(self) -> None:
        self.wants: frozenset[str] | None = None

    def load(self, flow: str) -> frozenset[str] | None:
        return self.wants

    def keep(self, flow: str, wants: Collection[str]) -> None:
        self.wants = wants_from_json(wants_to_json(wants))


def now(*tables: Any, **facts: Any) -> TablesNow:
    captured = tables or (ORDERS, CUSTOMERS)
    numbered = tuple(replace(t, schema_id=number) for number, t in enumerate(captured))
    return TablesNow("shop (db:3306)", numbered, facts.pop("known", tuple(t.full_name for t in captured)), **facts)


def flow(*transforms: Any, tables: tuple[str, ...] = ("shop.*",), **parts: Any) -> Flow:
    source = MysqlBinlog(conn_id="m", tables=tables, **parts.pop("source", {}))
    return Flow(name="shop", source=source, transforms=transforms, **{"sinks": (TOPIC,), **parts})


def wrong(spec: Flow, told: TablesNow | None = None, accepted: frozenset[str] = frozenset()) -> list[Finding]:
    return [f for f in compare(spec, Told(told or now()), accepted).findings if f.level is not Level.OK]


def only(spec: Flow, told: TablesNow | None = None, accepted: frozenset[str] = frozenset()) -> Finding:
    (finding,) = wrong(spec, told, accepted)
    return finding
