"""Statements of a server with lower_case_table_names: tables are named as typed there, and not in row events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableEvent
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.identifiers import lowered
from databus.binlog.log.statements.scope import subjects_of
from databus.binlog.log.statements.statements import QueryEvent, classify
from databus.binlog.log.walk import LoggedStatement
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.store import load_segment
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.tables.schemas import RenamedTable, TableChange
from databus.sources.mysql.staged_range import shared_out, source_plan
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


@pytest.mark.parametrize("folds", [True, False])
def test_a_plan_tells_which_columns_its_statements_rename(tmp_path: Path, folds: bool) -> None:
    log = Log().transaction(9, "t", COLUMNS, [[number(1)]])
    for statement, database in (
        ("ALTER TABLE T ADD c INT, RENAME COLUMN A TO B", "shop"),
        ("ALTER TABLE Archive.U CHANGE `B` b2 INT, RENAME TO shop.t", "other"),
        ("ALTER TABLE Archive.V RENAME COLUMN b TO b2", "other"),
        ("ALTER TABLE shop.t_new RENAME COLUMN b TO b3", "other"),
        ("RENAME TABLE shop.t_new TO shop.t", "other"),
        ("ALTER TABLE shop.t RENAME COLUMN x TO y, RENAME COLUMN y TO x", ""),
        ("ALTER TABLE shop.t MODIFY b2 BIGINT", ""),
    ):
        log.gtid().query(statement, database)
    index, store = stage(tmp_path, batches(log, 1000), RangeBounds(), capture=replace(CAPTURE, folds=folds))
    assert index is not None
    first = [("shop.t", (("A", "B"),))] if folds else []  # of another table, in which the flow has no part
    assert source_plan(index, store, CAPTURE).columns_renamed == (
        *first, ("shop.t", (("B", "b2"),)), ("shop.t_new", (("b", "b3"),)), ("shop.t", (("x", "y"), ("y", "x"))),
    )  # fmt: skip


@pytest.mark.parametrize("folds", [True, False])
def test_a_plan_tells_of_other_tables_what_lets_them_take_a_place_of_the_flows(tmp_path: Path, folds: bool) -> None:
    log = Log().gtid().query("ALTER TABLE _T_gho CHANGE Card note INT, ADD Card INT", "Shop" if folds else "shop")
    for number_of in range(30):
        log.transaction(9, "t", COLUMNS, [[number(number_of)]])
    for statement in (
        "ALTER TABLE _t_ghc ADD x INT", "CREATE TABLE plain (a INT)", "DROP TABLE IF EXISTS `_t_ghc`, _t_old",
        "ALTER TABLE once RENAME COLUMN a TO b", "DROP TABLE once", "CREATE TABLE once LIKE t",
        "RENAME TABLE t TO _t_del, _T_gho TO _t_via", "RENAME TABLE _t_via TO t, once TO shop.more",
    ):  # fmt: skip
        log.gtid().query(statement, "shop")
    index, store = stage(
        tmp_path, batches(log, 1000), RangeBounds(segment_bytes=300), capture=replace(CAPTURE, folds=folds)
    )
    assert index is not None
    assert len(index.segments) > 3
    assert 1 < sum(segment.others for segment in index.segments) < len(index.segments)
    assert index == store.find(index.range)
    planned, ghost = source_plan(index, store, CAPTURE), "shop._t_gho" if folds else "shop._T_gho"
    moves = (("t", "_t_del"), (ghost[5:], "_t_via"), ("_t_via", "t"), ("once", "more"))
    assert [change for change in planned.table_changes if change.becomes] == [
        TableChange(ghost, ghost, captured=False, columns=(("Card", "note"),)),
        TableChange("shop.once", "shop.once", captured=False, columns=(("a", "b"),)),
        *(TableChange(f"shop.{old}", f"shop.{new}", captured=new == "t") for old, new in moves),
    ]
    gone = [change.table for change in planned.table_changes if not change.becomes]
    assert [name for name in gone if name != "shop.plain"] == ["shop._t_ghc", "shop._t_old", "shop.once", "shop.once"]
    assert planned.columns_renamed == ((ghost, (("Card", "note"),)),)
    assert (planned.statements, [subject.table for _, subject in planned.named]) == (2, [""])


def test_mariadbs_own_forms_are_told_as_well(tmp_path: Path) -> None:
    log = Log().gtid().query("ALTER ONLINE TABLE IF EXISTS _t_new NOWAIT CHANGE COLUMN IF EXISTS card note INT", "shop")
    for statement in (
        "RENAME TABLES IF EXISTS t WAIT 3 TO _t_old, _t_new NOWAIT TO t",
        "CREATE OR REPLACE TABLE u LIKE t",
    ):
        log.gtid().query(statement, "shop")
    index, store = stage(tmp_path, batches(log, 1000), RangeBounds())
    assert index is not None
    places = (index.range.start, index.range.end)
    ends = [replace(at, flavor="mariadb", gtids="") for at in places if isinstance(at, BinlogOffset)]
    index = replace(index, range=OffsetRange(*ends))
    assert source_plan(index, store, CAPTURE).table_changes == (
        TableChange("shop._t_new", "shop._t_new", captured=False, columns=(("card", "note"),)),
        TableChange("shop.t", "shop._t_old", captured=False),
        TableChange("shop._t_new", "shop.t", captured=True),
        TableChange("shop.u", ""),
    )
