"""Temporary tables with a captured table's name stop a flow, logged by statement as they are; others never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.query_status import is_temporary
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import WalkedStretch
from databus.core.errors import DecodeError
from databus.core.positions.offsets import BinlogOffset
from tests.unit.binlog.log_encoder import Log
from tests.unit.binlog.test_range_staging import COLUMNS, FILE, batches, log_of, number, read, stage

# As MySQL 8.0.31 and MariaDB 10.11 write them: flags2, sql_mode, catalog, character sets; and what differs.
COMMON = bytes.fromhex("0000000000012000a04500000000060373746404ff00ff00ff00")
DATABASES, XID, COLLATION = b"\x0c\x01shop\0", b"\x11" + bytes(8), b"\x12\xff\0"
OF_MARIADB = bytes.fromhex("00000000010100002054000000000603737464042d002d002d00")
OF_SESSION = 4
FORMS = (
    "CREATE TEMPORARY TABLE t (id INT)",
    "CREATE TEMPORARY TABLE IF NOT EXISTS shop.`t` LIKE u",
    "CREATE TEMPORARY TABLE t AS SELECT 1 AS id",
    "create /*!40005 temporary */ table t select 1",
    "CREATE OR REPLACE TEMPORARY TABLE t (id INT)",
    "SET STATEMENT max_statement_time = 100 FOR CREATE TEMPORARY TABLE t (id INT)",
)


def log_with(said: Callable[[Log], Log], flavor: str, before: int = 2) -> tuple[Log, int, int]:
    """Return a log with a statement between transactions with row events, and where its transaction lies."""
    log = Log(version="10.11.6-MariaDB-log") if flavor == "mariadb" else log_of(before)
    if flavor == "mariadb":
        for n in range(before):
            log.mariadb_gtid(n + 1, flags=2).table_map(9, "t", COLUMNS)
            log.rows(30, 9, 1, [[number(3 * n + r)] for r in range(3)]).xid()
    begins = log.position
    said(log.mariadb_gtid(before + 1, flags=0x29) if flavor == "mariadb" else log.gtid())
    return log, begins, log.position


def hidden(sql: str, database: str = "shop", *, tables: str = "shop.t", exists: bool = True) -> list[str]:
    """Return the tables that a walk says a statement hides."""
    log, _, _ = log_with(lambda log: log.query(sql, database, COMMON, flags=OF_SESSION), "mysql")
    walk = LogWalk(TableCapture((tables,)), "", passes_statements=True, exists=lambda *_: exists)
    pieces = [piece for batch in batches(log, 3) for piece in walk.walk(batch)]
    return [found.hidden for piece in pieces if isinstance(piece, WalkedStretch) for found in piece.by_statement]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize("sql", FORMS)
def test_a_range_stops_before_one_that_has_the_name_of_a_captured_table(
    tmp_path: Path, flavor: str, step: int, sql: str
) -> None:
    status = OF_MARIADB if flavor == "mariadb" else COMMON + DATABASES

    def said(log: Log) -> Log:
        return log.query(sql, "shop", status, flags=OF_SESSION)

    start = BinlogOffset(FILE, 4, "", flavor, "uuid")
    log, begins, _ = log_with(said, flavor)
    index, store = stage(tmp_path, batches(log, step), RangeBounds(), start)
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(6)))
    log, begins, ends = log_with(said, flavor, 0)
    with pytest.raises(DecodeError, match=r"temporary table with the name of shop\.t: .*thread_id 1 ") as stopped:
        stage(tmp_path / "stopped", batches(log, step), RangeBounds(flow="orders"), start)
    assert f"{FILE}:{begins} to {FILE}:{ends})" in stopped.value.message
    assert "changes rows" not in stopped.value.message
    assert f"checkpoint skip orders {FILE}:{ends} " in stopped.value.hint
    assert "behind the last such TRUNCATE" in stopped.value.hint
    assert stopped.value.behind == f"{FILE}:{ends}"


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_one_inside_a_transaction_is_told_with_it(tmp_path: Path, step: int) -> None:
    log, begins, _ = log_with(lambda log: log.begin().query(FORMS[0]).query("COMMIT"), "mysql")
    index, _ = stage(tmp_path, batches(log, step), RangeBounds())
    assert index is not None
    assert index.range.end.to_json()["pos"] == begins


def test_other_names_and_places_stop_nothing() -> None:
    for form in FORMS:
        assert hidden(form) == ["shop.t"]
        assert hidden(form, "other", tables="sh*.t") == (["shop.t"] if "shop" in form else [])
        assert hidden(form, tables="shop.t?") == []
        assert hidden(form, tables="shop.*", exists=False) == []
    for sql in ("CREATE TEMPORARY TABLE u LIKE t", "DROP TEMPORARY TABLE t", "CREATE TABLE t (id INT)"):
        assert hidden(sql) == []


@pytest.mark.parametrize(
    ("status", "flags", "stops"),
    [
        (COMMON + DATABASES + XID + COLLATION, OF_SESSION, True),
        (COMMON + b"\5\6+00:00\x0b\1r\1h" + DATABASES + XID, OF_SESSION, True),
        (COMMON + XID + COLLATION, OF_SESSION, False),  # of the table itself, in a routine that used a temporary one
        (COMMON + DATABASES + XID + COLLATION, 0, False),
        (COMMON + COLLATION, OF_SESSION, False),  # of MyISAM, temporary or not
        (COMMON + DATABASES, OF_SESSION, False),  # MySQL 5.7, temporary or not
        (OF_MARIADB, OF_SESSION, False),  # temporary or not
    ],
    ids=["temporary", "of a zone and a definer", "lasting", "not of a session", "MyISAM", "MySQL 5.7", "MariaDB"],
)
def test_a_truncate_that_tells_of_itself_that_it_is_of_one_stops_a_range(
    tmp_path: Path, status: bytes, flags: int, stops: bool
) -> None:
    log, begins, ends = log_with(lambda log: log.query("TRUNCATE TABLE t", "shop", status, flags=flags), "mysql")
    index, _ = stage(tmp_path, batches(log, 3), RangeBounds())
    assert index is not None
    assert index.range.end.to_json()["pos"] == (begins if stops else ends)


@pytest.mark.parametrize("status", [b"", b"\xfe", b"\x0c", b"\x0c\2shop", b"\x0b\xff", b"\5", b"\x0c\xfe\xee" + XID])
def test_what_a_status_cut_short_says_is_nothing(status: bytes) -> None:
    assert not is_temporary(status)
    assert is_temporary(b"\x0c\xfe" + XID)
