"""The ledger on real servers: it adds up after a run, fills in what a kill left out, and names each planted harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from databus import Batching, Kafka
from databus.checkpoints.connection.session import start_client
from databus.core.errors import RecordingError
from databus.ops.ledger.show import read_ledger, summary
from databus.ops.ledger.verify import Verification, verify
from databus.ops.services import open_services
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import lines
from databus.ops.trace.query import recognise
from databus.records import tables as t
from databus.records.ledger.merged_pages import MergedPages
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.sandbox.connections import airflow_connections
from databus.sinks.kafka.markers import MARKER_TOPIC, MarkerKey
from tests.integration.conftest import Started, World
from tests.integration.one_process import OneProcessWorld
from tests.integration.shop_flow import KEYS, Shop
from tests.integration.znodes import edited

pytestmark = pytest.mark.integration

NAME = "ledger_shop"
TOPIC = "ledger.{table}"


class Place:
    """The flow's traces in ZooKeeper, SQL, Kafka and search, to look at and to harm."""

    def __init__(self, world: World, shop: Shop, stack: ExitStack):
        self.world, self.shop = world, shop
        self.zookeeper = start_client(world.connections.get("zookeeper_default"))
        stack.callback(self.zookeeper.close)
        stack.callback(self.zookeeper.stop)
        self.records = stack.enter_context(RecordStore(world.settings.records_url))
        self.key = MarkerKey(world.settings.installation, NAME, "kafka")

    def verify(self, last: int | None = None) -> Verification:
        with open_services(self.shop.flow, self.world.connections, self.world.settings) as services:
            return verify(self.shop.flow, services, last)

    def problems(self, last: int | None = 0) -> list[str]:
        return [str(problem) for problem in self.verify(last).problems]

    def node(self, path: str) -> str:
        return f"/databus/flows/{NAME}/{path}"

    @property
    def numbers(self) -> list[int]:
        return sorted(int(name) for name in self.zookeeper.get_children(self.node("history")))

    def entry(self, number: int, change: Callable[[dict[str, Any]], None]) -> AbstractContextManager[None]:
        """Edit a history entry in ZooKeeper for the length of the block."""
        return edited(self.zookeeper, self.node(f"history/{number:010d}"), change)

    @contextmanager
    def rows(self, table: sa.Table, condition: Any, change: dict[str, Any] | None) -> Iterator[None]:
        """Change rows in SQL, or delete them, for the length of the block."""
        with self.records.transaction() as connection:
            before = [dict(row) for row in connection.execute(sa.select(table).where(condition)).mappings()]
            assert before
            connection.execute(table.delete().where(condition) if change is None else
                               table.update().where(condition).values(**change))  # fmt: skip
        try:
            yield
        finally:
            with self.records.transaction() as connection:
                for row in before:
                    there = table.c.id == row["id"]
                    connection.execute(
                        table.insert().values(**row) if change is None else table.update().where(there).values(**row)
                    )

    @contextmanager
    def marker(self, change: Callable[[Consumer, TopicPartition], None]) -> Iterator[None]:
        """Change slot 0's marker for the length of the block."""
        bootstrap = self.world.sandbox.address("kafka")
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.key.group})
        try:
            (before,) = consumer.committed([TopicPartition(MARKER_TOPIC, 0)], 20)
            change(consumer, before)
            try:
                yield
            finally:
                consumer.commit(offsets=[before], asynchronous=False)
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("ledger"))


def small(shop: Shop, rows: int, **changes: Any) -> Shop:
    """Let the shop's flow take small batches on the direct lane."""
    batching = Batching(max_rows=rows, max_wait=timedelta(seconds=0.1))
    shop.flow = shop.flow.model_copy(update={"checks": (), "batching": batching, **changes})
    return shop


@pytest.fixture(scope="module")
def place(world: World) -> Iterator[Place]:
    """A flow that filters one table, and whose topics refuse large records."""
    kafka = Kafka(
        conn_id="kafka_east", topic=TOPIC, slots=2, partitions=4, topic_config={"max.message.bytes": "4000"},
        compression="none", routes=("shop.customers", "shop.orders", "shop.order_items"),
    )  # fmt: skip
    shop = small(Shop(world, NAME), 60, sinks=(kafka,))
    shop.writer.run(30)
    with shop.connection.cursor() as cursor:
        cursor.execute("ALTER TABLE shop.customers ADD COLUMN note TEXT")
        cursor.execute("UPDATE shop.customers SET note = REPEAT('x', 9000) ORDER BY customer_id LIMIT 1")
        cursor.execute("ALTER TABLE shop.customers DROP COLUMN note")
    shop.writer.run(60)
    world.run(shop.flow)
    with ExitStack() as stack:
        place = Place(world, shop, stack)
        assert len(place.numbers) > 4
        yield place


def test_the_ledger_of_a_flow_adds_up(place: Place) -> None:
    found = place.verify()
    assert found.problems == ()
    shown = summary(found.state)
    written = {name: place.shop.writer.written.rows(name) for name in KEYS}
    written["customers"] += 1
    tables = {name: shown["tables"][f"shop.{name}"] for name in KEYS}
    assert {name: counts["read"] for name, counts in tables.items()} == written
    assert tables["products"] == {"read": written["products"], "filtered": written["products"],
                                  "quarantined": 0, "dispatched": 0}  # fmt: skip
    assert (shown["rows"]["quarantined"], tables["customers"]["quarantined"]) == (1, 1)
    assert tables["orders"]["dispatched"] == written["orders"]
    start, end = found.state.ledger.start, found.state.ledger.end
    assert str(start) == place.shop.flow.source.start  # type: ignore[attr-defined]
    assert start.file == end.file
    assert shown["bytes"] == end.pos - start.pos
    assert sum(shown["bytes_by_state"].values()) == shown["bytes"]
    (holds,) = (s for s in found.state.ledger.spans if any(c.quarantined for c in s.tables.values()))
    assert shown["bytes_by_state"]["partly_quarantined"] == holds.bytes
    assert (shown["entries_not_paged"], shown["gaps"], shown["pending"]) == (0, [], [])
    batches = [e.batch for e in found.state.entries if e.action == "commit"]
    looked_at = dict(found.looked_at)
    assert looked_at["log"] == f"batches 1–{len(batches)} read again: {len(batches)} equal"
    assert "markers of 2 slots" in looked_at["sink kafka"]
    leftovers = list(place.world.home.glob(f"segments/{NAME}.ledger*"))
    assert leftovers == []


def test_the_command_says_sound_or_not(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("dags")
    place.shop.dag_file(folder)
    environment = {
        **os.environ,
        **airflow_connections(place.world.sandbox.status()),
        "DATABUS_INSTALLATION": place.world.settings.installation,
        "DATABUS_SEGMENT_STORE": place.world.settings.segment_store,
        "DATABUS_RECORDS_URL": place.world.settings.records_url,
        "DATABUS_DAGS": str(folder),
        "DATABUS_SANDBOX": str(place.world.home),
        "COLUMNS": "200",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "databus.cli.main", "ledger", NAME, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)

    sound = run("--verify", "--last", "1", "--output", "json")
    assert (sound.returncode, sound.stderr) == (0, "")
    shown = json.loads(sound.stdout)
    assert (shown["sound"], shown["problems"]) == (True, [])
    assert shown["rows"]["read"] == sum(c["read"] for c in shown["tables"].values())
    with place.rows(t.ledger, (t.ledger.c.flow == NAME) & (t.ledger.c.number == 3), None):
        table = run("--verify", "--last", "0")
        assert table.returncode == 1
        assert "DOES NOT ADD UP  pages: pages 3–3 are missing" in table.stderr
        assert "shop.orders" in table.stdout
        assert '"kind"' not in table.stdout  # places read as they are typed
        assert table.stdout.split()[:4] == ["flow", NAME, "from", shown["spans"][0]["from"]]


def test_an_edited_entry_of_history_is_named(place: Place) -> None:
    number = place.numbers[2]

    def more(value: dict[str, Any]) -> None:
        value["counts"]["shop.orders"]["read"] += 1

    with place.entry(number, more):
        problems = place.problems()
    assert any(p.startswith(f"history: entry {number} (commit) table shop.orders: read") for p in problems)
    assert any(p.startswith(f"pages: page {number} differs from the history: counts is") for p in problems)
    assert any(p.startswith("reports: batch") and "counts of shop.orders" in p for p in problems)

    def further(value: dict[str, Any]) -> None:
        value["offset"]["pos"] += 1

    with place.entry(number, further):
        problems = place.problems()
    assert any(f"entry {number + 1} (commit) goes on from" in p for p in problems)
    with place.entry(number, lambda value: value.update(batch=1)):
        assert any("commits batch 1 after batch 1" in p for p in place.problems())


def test_a_missing_entry_is_named(place: Place) -> None:
    number = place.numbers[2]
    path = place.node(f"history/{number:010d}")
    before = place.zookeeper.get(path)[0]
    place.zookeeper.delete(path)
    try:
        problems = place.problems()
    finally:
        place.zookeeper.create(path, before)
    assert problems == [f"history: entries {number}–{number} are missing in ZooKeeper"]  # the page still tells the rest
    newest = place.node(f"history/{place.numbers[-1]:010d}")
    before = place.zookeeper.get(newest)[0]
    place.zookeeper.delete(newest)
    try:
        problems = place.problems()
    finally:
        place.zookeeper.create(newest, before)
    assert any("the checkpoint at" in p for p in problems)
    assert any("ZooKeeper was restored from an older copy, or entries were deleted" in p for p in problems)


def test_a_missing_or_edited_page_is_named(place: Place) -> None:
    mine = t.ledger.c.flow == NAME
    with place.rows(t.ledger, mine & (t.ledger.c.number == 3), None):
        assert place.problems() == ["pages: pages 3–3 are missing"]
    with place.rows(t.ledger, mine & (t.ledger.c.number == 3), {"entry": {"v": 1}}):
        (problem,) = place.problems()
    assert problem.startswith("pages: page 3 cannot be read")


def test_a_missing_or_wrong_report_is_named(place: Place) -> None:
    with place.records.transaction() as connection:
        b = t.batches.c
        number = connection.execute(sa.select(b.id).where((b.flow == NAME) & (b.batch == 2))).scalar_one()
    c = t.table_counts.c
    of_shop = (c.batch == number) & c.table_name.like("shop.%")
    first = sa.select(sa.func.min(c.id)).where(of_shop).scalar_subquery()
    with place.rows(t.table_counts, c.id == first, {"dispatched": 999}):
        (problem,) = place.problems()
        assert problem.startswith("reports: batch 2: its report has counts of shop.")
        assert "dispatched 999" in problem
    with place.rows(t.receipts, t.receipts.c.batch == number, {"written": 1}):
        (problem,) = place.problems()
        assert problem.startswith("reports: batch 2: its report has receipts")
    with place.rows(t.batches, t.batches.c.id == number, {"plan_hash": "0" * 16}):
        assert place.problems() == [
            "reports: batch 2 is committed and has no report",
            f"reports: batch 2 (plan {'0' * 16}) has a report and no entry",
        ]


def test_a_quarantined_row_that_is_gone_is_named(place: Place) -> None:
    q = t.quarantine.c
    chosen = sa.select(sa.func.min(q.id)).where(q.flow == NAME).scalar_subquery()
    with place.rows(t.quarantine, q.id == chosen, None):
        (problem,) = place.problems()
    assert problem.startswith("quarantine: batch ")


def test_counts_that_agree_everywhere_but_with_the_log_are_named(place: Place) -> None:
    """An entry, its page and its report all say one row more was filtered: only the log knows better."""
    number = place.numbers[1]
    entry = next(e for e in read(place).entries if e.number == number)
    table, counts = next((table, counts) for table, counts in sorted(entry.counts.items()) if "." in table)

    def more(value: dict[str, Any]) -> None:
        value["counts"][table]["read"] += 1
        value["counts"][table]["filtered"] += 1

    stored = entry.to_json()
    more(stored)
    c = t.table_counts.c
    batch = sa.select(t.batches.c.id).where((t.batches.c.flow == NAME) & (t.batches.c.batch == entry.batch))
    with (
        place.entry(number, more),
        place.rows(t.ledger, (t.ledger.c.flow == NAME) & (t.ledger.c.number == number), {"entry": stored}),
        place.rows(
            t.table_counts,
            (c.batch == batch.scalar_subquery()) & (c.table_name == table),
            {"read": counts.read + 1, "filtered": counts.filtered + 1},
        ),
    ):
        assert place.problems() == []
        (problem,) = place.problems(last=None)
    assert f"batch {entry.batch} " in problem
    assert f"table {table}: the log holds {counts.read} rows, the ledger counts {counts.read + 1}" in problem


def test_a_move_that_no_gap_names_is_told(place: Place) -> None:
    """The newest entry says that its range was skipped; no gap of that range stands in ZooKeeper."""
    with place.entry(place.numbers[-1], lambda value: value.update(action="skip", counts={}, receipts=[])):
        problems = place.problems()
        assert any("and no named gap covers that" in p for p in problems)
        entry = json.loads(place.zookeeper.get(place.node(f"history/{place.numbers[-1]:010d}"))[0])
        gap = {"v": 1, "number": 1, "from": entry["previous"], "to": entry["offset"], "cause": "purged",
               "decision": "skipped", "who": "ada", "why": "", "at": entry["at"]}  # fmt: skip
        path = place.node("gaps/0000000001")
        place.zookeeper.create(path, json.dumps(gap).encode(), makepath=True)
        try:
            state = read(place)
            assert not any("no named gap" in str(p) for p in state.ledger.problems)
            shown = summary(state)
        finally:
            place.zookeeper.delete(path)
    assert [span["kind"] for span in shown["spans"]] == ["read", "gap: purged"]


def test_a_marker_ahead_behind_other_or_gone_is_named(place: Place) -> None:
    def at(batch: int, **fields: Any) -> Callable[[Consumer, TopicPartition], None]:
        def change(consumer: Consumer, before: TopicPartition) -> None:
            metadata = {**json.loads(before.metadata), "batch": batch, **fields}
            there = TopicPartition(MARKER_TOPIC, 0, batch, json.dumps(metadata))
            consumer.commit(offsets=[there], asynchronous=False)

        return change

    batch = place.world.checkpoint(place.shop.flow).batch
    for changed, problem in (
        (at(batch + 1), "slot 0: the marker is ahead: batch"),
        (at(batch - 1), "slot 0: the marker is behind: batch"),
        (at(batch, hash="0" * 16), f"slot 0: the marker is batch {batch} (plan {'0' * 16}"),
        (at(batch, last=False), "chunk 0 of an unfinished batch"),
    ):
        with place.marker(changed):
            (found,) = place.problems()
        assert found.startswith("sink kafka: ")
        assert problem in found


def test_markers_that_expired_are_named(place: Place) -> None:
    bootstrap = place.world.sandbox.address("kafka")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": place.key.group})
    try:
        before = consumer.committed([TopicPartition(MARKER_TOPIC, slot) for slot in (0, 1)], 20)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_consumer_groups([place.key.group])[place.key.group].result()
        try:
            problems = place.problems()
        finally:
            consumer.commit(offsets=before, asynchronous=False)
    finally:
        consumer.close()
    assert [p[: len("sink kafka: slot 0: no marker")] for p in problems] == [
        "sink kafka: slot 0: no marker",
        "sink kafka: slot 1: no marker",
    ]


def read(place: Place) -> Any:
    with open_services(place.shop.flow, place.world.connections, place.world.settings) as services:
        return read_ledger(place.shop.flow, services)


def test_what_was_not_recorded_is_filled_in_by_the_next_claim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL is away from a commit to the end of the run, as after a kill; the next claim brings reports and pages."""
    shop = small(Shop(world, "ledger_refill"), 40)
    shop.writer.run(25)

    def away(*_: Any) -> None:
        raise RecordingError("the database is away")

    with monkeypatch.context() as patch:
        for name in ("record", "page", "paged"):
            patch.setattr(SqlRecorder, name, away)
        lost = world.run(shop.flow)
    assert lost.batches > 1
    with RecordStore(world.settings.records_url) as records:
        assert Reports(records).newest(shop.name, 100) == []
    world.run(shop.flow)
    with RecordStore(world.settings.records_url) as records:
        reports = Reports(records).newest(shop.name, 100)
    assert sorted(r.batch for r in reports if r.refilled) == list(range(1, lost.batches + 1))
    with open_services(shop.flow, world.connections, world.settings) as services:
        found = verify(shop.flow, services, None)
    assert [str(p) for p in found.problems] == []
    assert found.state.unpaged == 0
    shop.assert_all_arrived_once()


def test_log_that_was_purged_is_said_and_not_held_against_the_ledger(world: World) -> None:
    shop = small(Shop(world, "ledger_purged"), 1000)
    shop.writer.run(20)
    world.run(shop.flow)
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchone()[0]}'")
    with open_services(shop.flow, world.connections, world.settings) as services:
        found = verify(shop.flow, services, None)
    assert [str(p) for p in found.problems] == []
    told = [what for subject, what in found.looked_at if subject == "log"]
    assert told
    assert all("not read again, source_offset_purged" in what for what in told)


def test_merged_batches_are_proved_and_traced_as_what_they_are(world: World) -> None:
    """Parts against ZooKeeper, reports, markers, topics and the log read again; the flow goes on behind them."""
    shop = small(Shop(world, "ledger_merged"), 30)
    shop.writer.run(90)
    world.run(shop.flow)
    with RecordStore(world.settings.records_url) as records:
        batches = Reports(records).newest(shop.name, 100)[0].batch
        found = MergedPages(records, newest_kept=2).merge(datetime.now(UTC) + timedelta(days=1))
    assert batches > 6
    assert found.gone >= batches - 3

    def verified() -> dict[str, list[str]]:
        with open_services(shop.flow, world.connections, world.settings) as services:
            verification = verify(shop.flow, services, None)
        assert [str(p) for p in verification.problems] == []
        told: dict[str, list[str]] = {}
        for subject, what in verification.looked_at:
            told.setdefault(subject, []).append(what)
        return told

    told = verified()
    assert "are merged into 1 pages" in told["pages"][1]
    assert told["log"] == [f"batches {batches - 2}–{batches} read again: 3 equal"]
    (journey,) = trace(recognise(f"{shop.name}:0:0"), [shop.flow], (world.connections, world.settings), "")
    assert journey.change.event_id
    assert ("note", f"batches 1–{batches - 2} were merged: which of them it was is not known any more") in lines(
        journey
    )
    # A window pages out on; its claim does not take what ZooKeeper still holds of the part for missing.
    shop.writer.run(10)
    world.run(shop.flow)
    assert "are merged into 1 pages" in verified()["pages"][1]
    with RecordStore(world.settings.records_url) as records:
        assert min(report.batch for report in Reports(records).newest(shop.name, 1_000)) == batches - 2
