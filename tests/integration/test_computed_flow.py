"""Computed columns of all kinds on real servers: what a consumer sees, what is held back and what its replay brings."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from databus import (
    AddColumn,
    Batching,
    Cast,
    Extract,
    Filter,
    Flow,
    Kafka,
    Lookup,
    Mask,
    MysqlBinlog,
    NotNull,
    PythonFunction,
    Truncate,
    __version__,
)
from databus.core.flow_specs import TransformSpec
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine.replay import replay_rows
from databus.ops.services import open_services
from databus.records.quarantine.rows import Selection
from databus.records.reports import quarantined
from databus.runtime import batch as stages
from databus.runtime.context import RunIdentity
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.runtime.live import lane as live_lane
from tests.integration.conftest import World
from tests.integration.statements import run_sql
from tests.integration.test_direct_lane import seen
from tests.integration.test_live_lane import Window, counted

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

ADA = Attribution("ada", "the transforms were mended")
COUNTRIES = {"de": "Germany", "fr": "France"}


def transforms(*, mended: bool = False) -> tuple[TransformSpec, ...]:
    """Return transforms of all kinds; mended, they hold nothing back but flagged values."""
    return (
        AddColumn(total="CAST(price * quantity AS decimal(14,2))", domain="lower(split_part(email, '@', 2))"),
        Cast(code="int", on_failure="null" if mended else "hold"),
        Truncate("note", 8),
        Extract("doc", path="$.address.city", into="city"),
        Lookup("country", COUNTRIES, into="country_name", missing="null" if mended else "hold"),
        PythonFunction("pyarrow.compute:utf8_upper", inputs=("note",), into="loud"),
        Mask("email", keep_last=4),
        Filter("total > 10 OR total IS NULL OR _op = 'd'"),
    )


class Desk:
    """A table, and a flow of it in each lane."""

    def __init__(self, world: World, database: str, image: str):
        self.world, self.database, self.image = world, database, image
        self.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10,2), quantity INT, email VARCHAR(50), "
            "code VARCHAR(9), country CHAR(2), note TEXT CHARACTER SET utf8mb4, doc JSON, seen TIMESTAMP(3) NULL)"
        )
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = cursor.fetchone()[:2]
        self.start = f"{file}:{position}"

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.database) as connection:
            run_sql(connection, "SET SESSION binlog_row_image = " + self.image, *statements)

    def flow(self, lane: Any, **more: Any) -> Flow:
        name = f"{self.database}_{lane}"
        return Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{self.database}.orders",), start=self.start),
            transforms=transforms(),
            checks=(NotNull("domain", severity="warn"),),
            sinks=(Kafka(conn_id="kafka_east", topic=name, partitions=3, slots=2),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
            lane=lane,
            **more,
        )

    def replay(self, flow: Flow) -> list[tuple[int, int]]:
        with open_services(flow, self.world.connections, self.world.settings) as services:
            run = self.world.spark(flow.name), RunIdentity("replay", "", __version__)
            return [(each.replayed, each.held) for each in replay_rows(flow, services, run, Selection(), ADA)]

    def held(self, flow: Flow) -> list[tuple[Any, ...]]:
        """Return the rows that are held back; a decimal is the same with and without zeros at its end."""
        rows = quarantined(self.world.settings.records_url, flow.name)
        found = [(str(r.key), r.cause, r.position, json.loads(r.payload, parse_float=Decimal)) for r in rows]
        return sorted(found, key=lambda each: each[:3])


STATEMENTS = (
    """INSERT INTO orders VALUES
        (1, 10.50, 2, 'Ann@Shop.example', '12', 'de', 'Zoë 😀 and more', '{"address": {"city": "Ulm"}}', NOW(3)),
        (2, 0.01, 1, 'bob@x.example', '7', 'fr', 'cheap', NULL, NULL),
        (3, 99.99, 3, NULL, 'abc', 'de', NULL, '{"address": {"city": {"name": "Köln"}}}', NULL),
        (4, 5.00, 5, 'eve@y.example', '300', 'us', 'x', '{"address": null}', NULL),
        (5, NULL, 5, 'eve@y.example', NULL, NULL, '', '[]', NULL)""",
    "UPDATE orders SET price = 0.02 WHERE id = 1",  # leaves
    "UPDATE orders SET price = 1000, note = 'dear' WHERE id = 2",  # enters
    "UPDATE orders SET country = 'fr' WHERE id = 4",
    "UPDATE orders SET id = 50 WHERE id = 5",
    "DELETE FROM orders WHERE id = 3",
)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_both_lanes_deliver_hold_back_and_replay_the_same(
    world: World, database: str, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(world, database, image)
    desk.execute(*STATEMENTS)
    lanes: list[frozenset[str] | None] = []

    def noted(flow: Flow, planned: Any, known: SparkTables) -> frozenset[str] | None:
        lanes.append(spark_tables(flow, planned, known))
        return lanes[-1]

    monkeypatch.setattr(stages, "spark_tables", noted)
    flows = [desk.flow("auto"), desk.flow("spark")]
    results = [world.run(flow) for flow in flows]

    assert set(lanes) == {frozenset(), None}
    assert results[0].tables == results[1].tables
    assert desk.held(flows[0]) == desk.held(flows[1])
    causes = [cause for _, cause, *_ in desk.held(flows[0])]
    assert all(any(cause in found for found in causes) for cause in ("cast(code)", "lookup(country)")), causes
    delivered = [seen(world, flow.name) for flow in flows]
    assert delivered[0] == delivered[1]
    images = after_images(delivered[0])
    if image == "FULL":
        assert images[0] == {
            "id": 1, "price": Decimal("10.50"), "quantity": 2, "email": "***mple", "code": 12, "country": "de",
            "note": "Zoë 😀 an", "doc": images[0]["doc"], "seen": images[0]["seen"], "total": Decimal("21.00"),
            "domain": "shop.example", "city": "Ulm", "country_name": "Germany", "loud": "ZOË 😀 AN",
        }  # fmt: skip

    mended = [flow.model_copy(update={"transforms": transforms(mended=True)}) for flow in flows]
    replayed = [desk.replay(flow) for flow in mended]
    assert replayed[0] == replayed[1]
    assert sum(count for count, _ in replayed[0]) >= 2
    delivered = [seen(world, flow.name) for flow in flows]
    assert delivered[0] == delivered[1]
    more = after_images(delivered[0])
    assert {(each["id"], each["code"], each["country_name"]) for each in more if each.get("id") == 3} <= {
        (3, None, "Germany")
    }


def test_a_live_window_computes_as_a_batch_does(world: World, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_lane, "_READY_WITHIN_S", 500.0)
    desk = Desk(world, database, "FULL")
    live = desk.flow("auto", mode="live")
    with counted(monkeypatch) as sizes:
        window = Window(world, SimpleNamespace(flow=live, name=live.name), "live")  # type: ignore[arg-type] # all of it
        try:
            for number, statement in enumerate(STATEMENTS, 1):
                desk.execute(statement)
                while sum(sizes) < number and window.batches < number:
                    time.sleep(0.05)
        finally:
            window.stop()
    world.run(live)
    reference = desk.flow("spark")
    world.run(reference)

    assert sizes
    assert seen(world, live.name) == seen(world, reference.name)
    assert desk.held(live) == desk.held(reference)


def after_images(records: dict[int, Sequence[Any]]) -> list[dict[str, Any]]:
    values = (value for of_partition in records.values() for _, _, value in of_partition)
    found = [value["after"] for value in values if value is not None and value["after"] is not None]
    return sorted(found, key=lambda image: (image.get("id", 0), json.dumps(image, default=str)))
