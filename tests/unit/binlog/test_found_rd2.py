"""Found by reading: statements that change rows in ranges that an earlier databus has planned, or with a given end."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.binlog import statements, transaction_control
from databus.binlog.range_staging import RangeBounds
from databus.binlog.statements import classify
from databus.core.errors import DecodeError
from databus.core.offsets import BinlogOffset
from databus.sources.staged_range import source_plan
from tests.unit.binlog.test_range_staging import CAPTURE, COLUMNS, FILE, batches, by_statement, log_of, number, stage

FILLED = "CREATE TABLE u AS SELECT 1 AS id"


def test_found_rows_before_a_statement_are_called_delivered_and_are_not(tmp_path: Path) -> None:
    """A range with a given end is a plan in flight that is dumped again, or what a failover left undelivered: nothing
    of it is delivered where it is refused, and who goes on behind the statement, as the hint says, loses nine rows."""
    log, _, _, _ = by_statement()
    end = BinlogOffset(FILE, log.position, "", "mysql", "uuid")
    with pytest.raises(DecodeError) as stopped:
        stage(tmp_path, batches(log, 3), RangeBounds(end=end, flow="orders"))
    assert "What came before it is delivered" not in stopped.value.hint


@pytest.mark.parametrize("inside", [False, True])
def test_found_a_plan_in_flight_of_an_earlier_databus_can_be_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, inside: bool
) -> None:
    """It took a table made of a query for a definition, and DELETE FROM t for a TRUNCATE; its segments are there."""
    log = log_of(1)
    if inside:
        log.gtid().query("BEGIN").query("DELETE FROM t").query("COMMIT")
    else:
        log.gtid().query("CREATE TABLE t AS SELECT 1 AS id")
    log.transaction(9, "t", COLUMNS, [[number(9)]])
    with monkeypatch.context() as earlier:
        earlier.setattr(statements, "query_at", lambda *_: None)
        earlier.setattr(transaction_control, "classify", lambda sql, mode=0, **_: classify(sql, mode))
        index, store = stage(tmp_path, batches(log, 1000), RangeBounds())
    assert index is not None
    assert index.rows == 4
    plan = source_plan(index, store, CAPTURE)
    assert plan.statements == 1


@pytest.mark.parametrize(
    "function",
    ["TIME_TO_SEC", "CONV", "INET_ATON", "ASCII", "ISNULL", "NVL", "DATABASE", "REGEXP_REPLACE", "LN", "MAKEDATE"],
)
def test_found_a_temporary_table_of_a_servers_own_function_stops_no_flow(function: str) -> None:
    """MariaDB logs it where a session has binlog_format=MIXED; an earlier databus passed it, and no row is changed."""
    assert not classify(f"CREATE TEMPORARY TABLE x AS SELECT {function}(a) FROM b").fills
