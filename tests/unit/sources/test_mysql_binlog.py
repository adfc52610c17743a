"""The binlog source's spec, and the pieces of it that need no server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from databus import Flow, Kafka
from databus.binlog.server.wire import server_error
from databus.core.errors import (
    ConfigError,
    OffsetInvalidError,
    OffsetPurgedError,
    ServerIdTakenError,
    SourceAccessError,
    SourceDivergedError,
    SourceError,
    SourceUnavailableError,
)
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.backfill import Aim, Backfill, Mode
from databus.registry import spec_class
from databus.runtime.beside.backfill import piece_flow
from databus.sources.mysql.segments.emission import in_log_order
from databus.sources.mysql.server import grants_by_scope
from databus.sources.mysql.spec import MysqlBinlog

A = "65046f36-e55e-11f1-844e-02fc00000001"


@pytest.mark.parametrize(
    "start",
    ["latest", "earliest", "mysql-bin.000042:4", f"gtid:{A}:1-5:7", "gtid:0-1-5", "2026-01-31T10:00:00", "2026-01-31"],
)
def test_starts_survive_json(start: str) -> None:
    spec = MysqlBinlog(conn_id="m", tables=("shop.*",), start=start)
    options = {k: v for k, v in spec.to_json().items() if k != "kind"}
    assert spec_class("sources", "mysql_binlog").from_stored(options) == spec


@pytest.mark.parametrize(
    ("options", "start", "snapshot"),
    [
        ({}, "latest", "initial"),
        ({"start": "latest"}, "latest", "never"),
        ({"start": "earliest"}, "earliest", "never"),
        ({"snapshot": "never"}, "latest", "never"),
        ({"snapshot": "initial"}, "latest", "initial"),
        ({"start": "latest", "snapshot": "initial"}, "latest", "initial"),
        ({"snapshot": "only"}, "latest", "only"),
    ],
)
def test_a_flow_begins_with_its_rows_where_no_start_is_given(
    options: dict[str, Any], start: str, snapshot: str
) -> None:
    spec = MysqlBinlog(conn_id="m", tables=("shop.*",), **options)
    assert (spec.start, spec.snapshot) == (start, snapshot)
    stored = {k: v for k, v in spec.to_json().items() if k != "kind"}
    assert (stored["start"], stored.get("snapshot")) == (start, None if snapshot == "never" else snapshot)
    assert spec_class("sources", "mysql_binlog").from_stored(stored) == spec


@pytest.mark.parametrize("snapshot", ["initial", "only"])
def test_rows_and_a_start_before_them_are_refused_together(snapshot: Any) -> None:
    with pytest.raises(ConfigError, match=r"older changes would come after the rows that hold them\."):
        MysqlBinlog(conn_id="m", tables=("shop.*",), start="earliest", snapshot=snapshot)


@pytest.mark.parametrize("snapshot", ["initial", "only", "never"])
def test_places_are_judged_alike_whatever_a_flow_begins_with(snapshot: Any) -> None:
    spec = MysqlBinlog(conn_id="m", tables=("shop.*",), snapshot=snapshot)
    assert spec.at_place("mysql-bin.000042:4") == MysqlBinlog(
        conn_id="m", tables=("shop.*",), start="mysql-bin.000042:4", snapshot="never"
    )
    assert spec.problem_with_place("mysql-bin.000042:4") == ""
    assert spec.problem_with_place("yesterday").startswith("start: ")


def test_a_datetime_start_is_utc() -> None:
    spec = MysqlBinlog(conn_id="m", tables=("shop.*",), start=datetime(2026, 1, 31, 10, tzinfo=UTC))  # type: ignore[arg-type]
    assert spec.start == "2026-01-31T10:00:00+00:00"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": ()}, "tables"),
        ({"tables": ("orders",)}, "names no database"),
        ({"tables": ("shop.*",), "start": "yesterday"}, "none of latest"),
        ({"tables": ("shop.*",), "start": "gtid:nonsense"}, "GTID"),
        ({"tables": ("shop.*",), "decoder": "perl"}, "decoder"),
        ({"tables": ("shop.*",), "speed": 11}, "unknown option 'speed'"),
    ],
)
def test_bad_options_are_named_with_file_and_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        MysqlBinlog(conn_id="m", **options)
    assert __file__ in caught.value.message


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        (1045, "Access denied", SourceAccessError),
        (1227, "you need (at least one of) the REPLICATION SLAVE privilege(s)", SourceAccessError),
        (1236, "Could not find first log file name in binary log index file", OffsetPurgedError),
        (1236, "the source has purged binary logs containing GTIDs that the replica requires", OffsetPurgedError),
        (1236, "Client requested source to start replication from position > file size", OffsetInvalidError),
        (1236, "Replica has more GTIDs than the source has", SourceDivergedError),
        (1236, "A slave with the same server_uuid/server_id as this slave has connected", ServerIdTakenError),
        (4052, "A slave with the same server_uuid/server_id is already connected", ServerIdTakenError),
        (2013, "Lost connection", SourceUnavailableError),
        (1064, "syntax", SourceError),
    ],
)
def test_server_errors_have_names(code: int, text: str, error: type[SourceError]) -> None:
    found = server_error(code, text, "shop (h:1)")
    assert type(found) is error
    assert "shop (h:1)" in found.message
    assert error is SourceError or found.hint


def test_grants_are_read_by_scope() -> None:
    rows = [
        ("GRANT SELECT, REPLICATION SLAVE ON *.* TO `a`@`%`",),
        ("GRANT ALL PRIVILEGES ON `shop`.* TO `a`@`%`",),
        ("GRANT `r`@`%` TO `a`@`%`",),
    ]
    assert grants_by_scope(rows) == {"*.*": {"SELECT", "REPLICATION SLAVE"}, "`shop`.*": {"ALL PRIVILEGES"}}


def batch(*places: tuple[int, int, int]) -> pa.RecordBatch:
    columns = [pa.array(list(c), pa.int64()) for c in zip(*places, strict=True)]
    return pa.RecordBatch.from_arrays(columns, ["place", "ordinal", "part"])


def test_batches_of_tables_are_put_into_log_order() -> None:
    one = [batch((10, 0, 0), (10, 2, 0)), batch((10, 4, 0), (30, 0, 0))]
    two = [batch((10, 1, 0), (10, 3, 0), (10, 3, 1), (20, 0, 0))]
    three = [batch((30, 1, 0))]
    expected = sorted(tuple(row.values()) for b in (*one, *two, *three) for row in b.to_pylist())
    ordered = pa.Table.from_batches(in_log_order([*one, *two, *three]))
    assert [tuple(row.values()) for row in ordered.to_pylist()] == expected


def test_a_plan_in_flight_is_finished_under_other_settings_that_stop_a_flow_and_no_other() -> None:
    source = MysqlBinlog(conn_id="m", tables=("shop.*",))
    flow = Flow(name="f", source=source, sinks=(Kafka(conn_id="k"),))

    def under(**settings: str) -> Flow:
        return flow.model_copy(update={"source": source.model_copy(update=settings)})

    pairs = [
        under(on_missing_table=missing, on_partition_ddl=ddl)
        for missing in ("fail", "wait")
        for ddl in ("event", "fail")
    ]
    assert len({made.spec_hash("1") for made in pairs}) == 1
    # In the order of the pairs, as they were when these settings were a part of them.
    former = ["686682ca382942b4", "9e4535d6b59a779e", "7eb62f5177e142fe", "45bf54079b9e233e"]
    for now in pairs:
        for made in (now.spec_hash("1"), *former):
            assert now.takes_up(made, "1")
            assert not now.takes_up(made, "2")
    assert not any(under(large_values_over_bytes=2048).takes_up(made, "1") for made in former)
    assert not under(large_values_over_bytes=2048).takes_up(flow.spec_hash("1"), "1")
    assert not under(large_values_over_bytes=2048).takes_up(under(on_missing_table="wait").spec_hash("1"), "1")


def test_a_backfill_stops_before_no_statement_on_partitions() -> None:
    source = MysqlBinlog(conn_id="m", tables=("shop.*",), on_partition_ddl="fail")
    flow = Flow(name="shop", source=source, sinks=(Kafka(conn_id="k", topic="t"),))
    wanted = OffsetRange(BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 90))
    asked = Backfill("shop", Aim(Mode.MISSING), wanted, ("a", "b"), (wanted,), "ada", datetime(2026, 1, 1, tzinfo=UTC))
    moved = piece_flow(flow, asked, 0).source
    assert moved == MysqlBinlog(conn_id="m", tables=("shop.*",), on_partition_ddl="event")
    assert "on_partition_ddl" not in moved.to_json()
