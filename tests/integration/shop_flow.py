"""A shop in a database of the test's own, a flow over it, and the oracle that both engines and all kills answer to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from databus import Batching, DropColumns, Flow, Kafka, MysqlBinlog, NotNull
from databus.demo.consumers import topic_records
from databus.demo.oracle import ConsumedTopic, fold, mismatches, source_state
from databus.demo.shop import ShopTotals, ShopWriter
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from tests.beside import beside
from tests.integration.conftest import World
from tests.integration.statements import fresh_shop

KEYS = {
    "customers": ("customer_id",),
    "products": ("sku",),
    "orders": ("order_id",),
    "order_items": ("order_id", "line"),
}


@contextmanager
def writing(writer: ShopWriter, rows: int, pause_s: float) -> Iterator[None]:
    """Change the shop until the block ends: so many rows, and a pause."""

    def write(stop: threading.Event) -> None:
        writer.run(rows, stop.is_set)
        stop.wait(pause_s)

    with beside(write):
        yield


class Shop:
    """A fresh database `shop`, its writer, and a flow of all its tables into one topic."""

    def __init__(self, world: World, name: str, **sink: Any):
        self.world = world
        self.name = name
        self.connection = world.sql()
        start = fresh_shop(self.connection)
        self.writer = ShopWriter(self.connection, seed=7)
        self.flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start=start),
            transforms=(DropColumns("card_number", tables=("shop.orders",)),),
            checks=(NotNull("email", tables=("shop.customers",)),),
            sinks=(Kafka(conn_id="kafka_east", topic=name, **sink),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )

    def dag_file(self, folder: Path) -> Path:
        """Write the flow as a file that the command line finds."""
        file = folder / f"{self.name}.py"
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({self.flow.to_json()!r})")
        file.write_text("\n".join(lines))
        return file

    def seen(self) -> ConsumedTopic:
        return fold(topic_records(self.world.sandbox.address("kafka"), self.name))

    def assert_all_arrived_once(self) -> ConsumedTopic:
        seen = self.seen()
        assert_arrived_once(self.connection, self.writer.written, seen)
        return seen

    def assert_ledger_adds_up(self) -> None:
        """Derive the ledger again from ZooKeeper, SQL, Kafka's markers and the log: nothing is missing or differs."""
        with open_services(self.flow, self.world.connections, self.world.settings) as services:
            found = verify(self.flow, services, None)
        assert [str(problem) for problem in found.problems] == []
        read = {t: c.read for t, c in found.state.ledger.tables.items() if "." in t}
        assert read == {f"shop.{t}": self.writer.written.rows(t) for t in KEYS}


def assert_arrived_once(connection: Any, written: ShopTotals, seen: ConsumedTopic) -> None:
    """Compare by key and value, count each change of each key, and look for repeats and disorder."""
    assert (seen.duplicates, seen.disordered) == (0, 0)
    for table, keys in KEYS.items():
        expected = source_state(connection, f"shop.{table}", keys)
        if table == "orders":
            for row in expected.values():
                del row["card_number"]
        assert mismatches(expected, seen.state.get(f"shop.{table}", {})) == []
    wanted = {(f"shop.{t}", _key(t, k)): n for (t, k), n in written.per_key.items()}
    assert dict(seen.changes) == wanted


def _key(table: str, key: str) -> str:
    names = KEYS[table]
    values: list[Any] = [part if name == "sku" else int(part) for name, part in zip(names, key.split("|"), strict=True)]
    return json.dumps(dict(zip(names, values, strict=True)), separators=(",", ":"))
