"""Ranges that a binlog source plans: what ends one, what moves the checkpoint without rows, what is waited for."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from databus.binlog.server.dump import Dump, DumpRequest
from databus.core.positions.offsets import BinlogOffset, Ordering
from tests.contract.source_contract import EVERYTHING, IMPATIENT
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

DEADLINE_S = 20.0


def test_foreign_tables_move_the_checkpoint_without_rows(shop: Shop) -> None:
    shop.sql(
        f"CREATE TABLE {shop.name}.other (id INT PRIMARY KEY)", f"CREATE TABLE {shop.name}.mine (id INT PRIMARY KEY)"
    )
    source = shop.open((f"{shop.name}.mine",))
    after = source.latest_offset()
    shop.sql(f"INSERT INTO {shop.name}.other VALUES (1), (2)")
    plan = source.plan(after, EVERYTHING)
    assert plan is not None
    assert (plan.rows, plan.tables) == (0, ())
    assert plan.range.end.compare(after) is Ordering.AFTER
    assert source.splits(plan, 4) == []
    source.close()


def test_excluded_tables_are_left_out(shop: Shop) -> None:
    for name in ("orders", "items", "audit_log"):
        shop.sql(f"CREATE TABLE {shop.name}.{name} (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.{name} VALUES (1)")
    rows = shop.read(tables=(rf"re:{shop.name}\.(orders|audit_.*)",), exclude_tables=("*.audit_log",))
    assert {r["table"] for r in rows} == {"orders"}


def test_rotations_alone_move_the_checkpoint_once(shop: Shop) -> None:
    source = shop.open()
    after = source.latest_offset()
    shop.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    assert source.lag(after).caught_up
    moved = source.plan(after, IMPATIENT)
    assert moved is not None
    assert (moved.rows, moved.bytes, moved.tables, moved.statements) == (0, 0, (), 0)
    end = moved.range.end
    assert isinstance(end, BinlogOffset)
    assert (end.file, end.pos, end.gtids) == (source.latest_offset().file, 4, after.gtids)
    assert source.splits(moved, 4) == []
    assert source.plan(end, IMPATIENT) is None
    assert source.plan(end, IMPATIENT) is None
    assert source.lag(end).caught_up
    source.release(moved)
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.t VALUES (1)")
    assert source.reopen(moved.range).range == moved.range
    for start in (after, end):
        plan = source.plan(start, EVERYTHING)
        assert plan is not None
        assert plan.rows == 1
    source.close()


def test_an_idle_flow_outlives_the_deletion_of_old_files(shop: Shop) -> None:
    source = shop.open()
    offset = source.latest_offset()
    for _ in range(3):
        shop.sql("FLUSH BINARY LOGS")
        plan = source.plan(offset, IMPATIENT)
        assert plan is not None
        assert plan.rows == 0
        source.release(plan)
        assert isinstance(plan.range.end, BinlogOffset)
        offset = plan.range.end
        shop.purge_to(offset.file)
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.t VALUES (1)")
    plan = source.plan(offset, EVERYTHING)
    assert plan is not None
    assert plan.rows == 1
    source.close()


def test_open_transactions_are_not_read(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    source = shop.open()
    after = source.latest_offset()
    shop.sql("BEGIN", f"INSERT INTO {shop.name}.t VALUES (1)")
    assert source.plan(after, IMPATIENT) is None
    shop.sql("ROLLBACK")
    assert source.plan(after, IMPATIENT) is None
    source.close()


def test_waiting_plan_takes_a_transaction_as_it_comes(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    source = shop.open()
    after = source.latest_offset()

    def write() -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not writer.dump_threads() and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.sql(f"INSERT INTO {shop.name}.t VALUES (1)")

    writer = Shop(shop.flavor, f"{shop.connection.host}:{shop.connection.port}", shop.folder, "numba")
    after = source.latest_offset()
    thread = threading.Thread(target=write)
    thread.start()
    plan = source.plan(after, EVERYTHING.model_copy(update={"max_wait": timedelta(seconds=60.0)}))
    thread.join()
    assert plan is not None
    assert plan.rows == 1
    source.close()
    writer.drop()


def test_gtids_follow_the_log(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    end = plan.range.end
    assert isinstance(end, BinlogOffset)
    assert end.gtids
    assert end.gtids == source.latest_offset().gtids
    source.close()


def test_closing_ends_the_dump_on_the_server(shop: Shop) -> None:
    dump = Dump(shop.connection, DumpRequest(shop.begin.file, shop.begin.pos, shop.flavor, follow=True))
    next(dump.batches())
    assert len(shop.dump_threads()) == 1
    dump.close()
    deadline = time.monotonic() + DEADLINE_S
    while shop.dump_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shop.dump_threads() == []
    dump.close()
