"""Statements of a server with lower_case_table_names: tables are named as typed there, and not in row events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from databus.binlog.capture import TableCapture
from databus.binlog.decode import decode_events
from databus.binlog.identifiers import lowered
from databus.binlog.range_staging import RangeBounds
from databus.binlog.segment_store import load_segment
from databus.binlog.statement_scope import subjects_of
from databus.binlog.statements import QueryEvent, classify
from databus.binlog.table_batch import TableEvent
from databus.binlog.walk import LoggedStatement
from databus.core.tables import RenamedTable
from databus.sources.staged_range import shared_out, source_plan
from tests.unit.binlog.log_encoder import Log
from tests.unit.binlog.test_range_staging import CAPTURE, COLUMNS, batches, number, stage

FOLDS = replace(CAPTURE, folds=True)


@pytest.mark.parametrize("pattern", ["shop.orders", "shop.*"])
@pytest.mark.parametrize(
    ("statement", "database", "subjects"),
    [
        ("TRUNCATE TABLE Orders", "shop", [("shop", "orders")]),
        ("TRUNCATE ORDERS", "Shop", [("shop", "orders")]),
        ("truncate `SHOP`.`orders`", "", [("shop", "orders")]),
        ("ALTER TABLE ORDERS DROP PARTITION p0", "shop", [("shop", "orders")]),
        ("DROP TABLE Other.Orders, Shop.Orders, ORDERS", "Shop", [("shop", "orders")]),
        ("RENAME TABLE Archive.Orders TO Shop.Orders", "archive", [("shop", "orders")]),
        ("DROP DATABASE SHOP", "", [("shop", "")]),
        ("TRUNCATE TABLE Orders", "archive", []),
    ],
)
def test_names_are_those_of_row_events(
    pattern: str, statement: str, database: str, subjects: list[tuple[str, str]]
) -> None:
    logged = LoggedStatement(classify(statement), QueryEvent(database, statement), 0, 0)
    assert subjects_of(TableCapture((pattern,), folds=True), logged) == subjects


def test_names_are_as_typed_where_the_server_compares_them_so() -> None:
    logged = LoggedStatement(classify("TRUNCATE TABLE Orders"), QueryEvent("shop", ""), 0, 0)
    assert subjects_of(TableCapture(("shop.orders",)), logged) == []
    assert subjects_of(TableCapture(("shop.*",)), logged) == [("shop", "Orders")]


def test_each_letter_is_lowered_to_one() -> None:
    assert [lowered(name) for name in ("Orders_2", "ΟΔΟΣ", "İstanbul", "Öl", "Ж", "表")] == [
        "orders_2", "οδοσ", "istanbul", "öl", "ж", "表",
    ]  # fmt: skip


@pytest.mark.parametrize("step", [1, 1000])
def test_what_was_planned_folded_is_read_folded(tmp_path: Path, step: int) -> None:
    log = Log().transaction(9, "t", COLUMNS, [[number(1)]])
    log.gtid().query("TRUNCATE TABLE T").gtid().query("ALTER TABLE SHOP.T DROP PARTITION p0", "other")
    for capture, statements in ((FOLDS, 2), (CAPTURE, 0)):
        index, store = stage(tmp_path / str(statements), batches(log, step), RangeBounds(), capture=capture)
        assert index is not None
        plan = source_plan(index, store, CAPTURE)
        assert (index.folds, plan.statements) == (capture.folds, statements)
        assert [change.tables for change in plan.unlogged] == [("shop.t",)][: statements - 1 if statements else 0]
        assert index == store.find(index.range)
        read = [
            (item.op, item.database, item.table)
            for group in shared_out(index, 2)
            for segment in group
            for item in decode_events(
                load_segment(store.address(index, segment)), file=segment.file, base_pos=segment.start_pos,
                tables=replace(CAPTURE, folds=index.folds),
            )
            if isinstance(item, TableEvent)
        ]  # fmt: skip
        assert read == [("t", "shop", "t"), ("m", "shop", "t")][:statements]
        assert [(op, table.database, table.table) for op, table in plan.named] == read


@pytest.mark.parametrize("folds", [True, False])
def test_a_plan_tells_which_tables_its_statements_rename(tmp_path: Path, folds: bool) -> None:
    log = Log()
    log.gtid().query("RENAME TABLE shop.first TO shop.t").transaction(9, "t", COLUMNS, [[number(1)]])
    for statement, database in (
        ("RENAME TABLE t TO `t_Old`, t_new TO t", "shop"),
        ("ALTER TABLE shop.t ADD COLUMN b INT, RENAME TO Archive.t", "other"),
        ("ALTER TABLE shop.t RENAME COLUMN a TO b", "shop"),
        ("TRUNCATE TABLE shop.t", ""),
        ("RENAME TABLE shop.none TO shop.other", ""),
    ):
        log.gtid().query(statement, database)
    index, store = stage(tmp_path, batches(log, 1000), RangeBounds(), capture=replace(CAPTURE, folds=folds))
    assert index is not None
    old, archive = ("t_old", "archive") if folds else ("t_Old", "Archive")
    assert source_plan(index, store, CAPTURE).renamed == (
        RenamedTable("shop.first", "shop.t", 0),
        RenamedTable("shop.t", f"shop.{old}", 1),
        RenamedTable("shop.t_new", "shop.t", 1),
        RenamedTable("shop.t", f"{archive}.t", 1),
    )
