"""Changes by statement at the edges: ranges with a given end, and functions that are the server's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.binlog.log.statements.statements import classify
from databus.binlog.segments.range_bounds import RangeBounds
from databus.core.errors import DecodeError
from databus.core.positions.offsets import BinlogOffset
from tests.unit.binlog.test_range_staging import FILE, batches, by_statement, stage

FILLED = "CREATE TABLE u AS SELECT 1 AS id"


@pytest.mark.parametrize("step", [3, 1000])
def test_rows_before_a_statement_are_called_delivered_and_are_not(tmp_path: Path, step: int) -> None:
    """A range with a given end is a plan in flight that is dumped again, or what a failover left undelivered: nothing
    of it is delivered where it is refused, and who goes on behind the statement, as the hint says, loses nine rows."""
    log, _, _, _ = by_statement()
    end = BinlogOffset(FILE, log.position, "", "mysql", "uuid")
    with pytest.raises(DecodeError) as stopped:
        stage(tmp_path, batches(log, step), RangeBounds(end=end, flow="orders"))
    assert "What came before it is delivered" not in stopped.value.hint


@pytest.mark.parametrize(
    "function",
    ["TIME_TO_SEC", "CONV", "INET_ATON", "ASCII", "ISNULL", "NVL", "DATABASE", "REGEXP_REPLACE", "LN", "MAKEDATE"],
)
def test_a_temporary_table_of_a_servers_own_function_stops_no_flow(function: str) -> None:
    """MariaDB logs it where a session has binlog_format=MIXED; an earlier databus passed it, and no row is changed."""
    assert not classify(f"CREATE TEMPORARY TABLE x AS SELECT {function}(a) FROM b").fills


@pytest.mark.parametrize(
    "query",
    [
        "* FROM JSON_TABLE(d, '$[*]' COLUMNS(a INT(11) PATH '$.a', NESTED PATH '$.b' COLUMNS(c TEXT(9) PATH '$'))) j",
        "JSON_ARRAY_APPEND(d, '$', 1), ST_X(p) FROM b",
        "CAST(a AS INTEGER), CAST(a AS NCHAR(3)) FROM b",
    ],
)
def test_tables_of_json_types_and_shapes_call_no_stored_function(query: str) -> None:
    assert not classify(f"CREATE TEMPORARY TABLE x AS SELECT {query}").fills
    assert classify(f"CREATE TEMPORARY TABLE x AS SELECT {query}, LATERAL (SELECT own(1)) k").fills
