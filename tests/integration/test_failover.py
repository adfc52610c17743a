"""Failover by GTID on real servers: a source and its replica with log files of its own names; nothing lost or twice.

The oracle: the rows read before and after, folded by key, are what SELECT gives on the new server; no event id comes
twice.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from databus.binlog import read_file
from databus.core.batching import Batching
from databus.core.errors import (
    DecodeError,
    OffsetPurgedError,
    SchemaUnknownError,
    SourceDivergedError,
    SourceUnavailableError,
)
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.rows.versions import versioning
from tests.contract.source_contract import EVERYTHING, IMPATIENT, rows_of
from tests.integration.failover_flow import _NUMBERS, Flow, Script, Writer, create, purge_all, read_on, selected
from tests.integration.replicated_pair import DEADLINE_S, Pair

pytestmark = pytest.mark.integration


@pytest.fixture
def name() -> str:
    return f"f{os.getpid()}_{next(_NUMBERS)}"


def test_source_dies_amid_writes_and_the_replica_goes_on(
    pair_of: Callable[[str], Pair], flavor: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = pair_of(flavor)
    pair.reset()
    create(pair.source, name)
    pair.link()
    pair.replica_has(Flow(name, tmp_path, pair.source).checkpoint.gtids)
    for _ in range(3):
        pair.replica.sql("FLUSH BINARY LOGS")
    flow, from_replica = Flow(name, tmp_path, pair.source), Flow(name, tmp_path / "replica", pair.replica)
    writer = Writer(pair.source, name, 0)
    for count in (20, 60, 100):
        writer.wait_for(count)
        flow.batch(Batching(max_rows=90, max_wait=timedelta(seconds=2)))
        pair.replica.sql("FLUSH BINARY LOGS")
    pair.replica_has(flow.checkpoint.gtids)
    former = flow.checkpoint
    twin = Flow(name, tmp_path / "twin", pair.source)
    twin.checkpoint = former
    pair.source.sandbox.kill(flavor)
    writer.end()
    pair.promote()
    pair.replica.sql("FLUSH BINARY LOGS")
    more = Writer(pair.replica, name, 1_000_000)  # far behind what the first has written on any machine
    more.wait_for(30)

    flow.connection = twin.connection = pair.replica.connection
    source = flow.open()
    findings = {f.subject.partition(": ")[2]: f for f in source.preflight(former)}
    assert findings["failover"].level is Level.WARN
    assert former.server in findings["failover"].message
    assert findings["start"].level is Level.OK
    assert not source.lag(former).caught_up
    source.close()
    with caplog.at_level(logging.WARNING, "databus.sources"):
        assert flow.batch(Batching(max_rows=50, max_wait=timedelta(seconds=2)))
    assert f"failover from server {former.server} at {former}" in caplog.text
    assert flow.checkpoint.server not in ("", former.server)
    assert flow.checkpoint.file.startswith("promoted-bin.")
    assert flow.checkpoint.timeline == former.timeline + 1
    more.end()
    flow.drain(Batching(max_rows=100, max_wait=timedelta(seconds=0.3)))
    assert flow.folded() == selected(pair.replica, name)
    flow.unique()
    twin.drain()
    seen = len(flow.rows) - len(twin.rows)
    assert [r["event_id"] for r in flow.rows[seen:]] == [r["event_id"] for r in twin.rows]

    # A transaction has the same event ids on either server.
    from_replica.drain()
    assert {r["event_id"] for r in from_replica.rows} == {r["event_id"] for r in flow.rows}
    assert {r["part"] for r in flow.rows} == {0, 1}

    # Versions of the search sink only grow, though the new server's files have lower numbers.
    assert versioning(flow.checkpoint)("promoted-bin.000001", 4) > versioning(former)("mysql-bin.400000", 1 << 33)
    pair.source.sandbox.up((flavor,))


def test_a_prepare_read_before_a_failover_is_committed_after_it(
    pair_of: Callable[[str], Pair], flavor: str, name: str, tmp_path: Path
) -> None:
    pair = pair_of(flavor)
    pair.reset()
    create(pair.source, name)
    pair.link()
    flow = Flow(name, tmp_path, pair.source)
    pair.source.sql("XA START 'x'", f"INSERT INTO {name}.t VALUES (1, 'a', 1), (2, 'b', 2)", "XA END 'x'")
    pair.source.sql("XA PREPARE 'x'")
    flow.drain()
    assert (flow.rows, len(flow.checkpoint.prepared)) == ([], 1)
    pair.replica_has(flow.checkpoint.gtids)
    pair.promote()
    purge_all(pair.replica)  # the new server's log no longer has the prepare
    flow.connection = pair.replica.connection
    pair.replica.sql(f"INSERT INTO {name}.t VALUES (3, 'c', 3)")
    flow.drain()  # the checkpoint is of the new server, the prepare's place of the former
    assert len(flow.checkpoint.prepared) == 1
    pair.replica.sql("XA COMMIT 'x'")
    flow.drain()
    assert flow.folded() == selected(pair.replica, name)
    assert len(flow.rows) == 3
    assert flow.checkpoint.prepared == ()
    assert list(tmp_path.glob("segments/*/*/prepared/*")) == []
    pair.source.sql("XA ROLLBACK 'x'")


def test_a_table_that_a_flow_was_given_after_a_prepare_of_a_former_server_is_told_or_refused(
    pair_of: Callable[[str], Pair], flavor: str, name: str, tmp_path: Path
) -> None:
    """Nothing was kept of it, and the new server's schema history knows nothing of the former one's places."""
    pair = pair_of(flavor)
    pair.reset()
    create(pair.source, name)
    # MariaDB's log says of a UUID that it is BINARY(16); MySQL's, with full metadata, says all.
    kind, value = ("UUID", "123e4567-e89b-12d3-a456-426655440000") if flavor == "mariadb" else ("CHAR(36)", "any")
    pair.source.sql(f"CREATE TABLE {name}.later (id INT PRIMARY KEY, e {kind})")
    pair.link()
    flow = Flow(name, tmp_path, pair.source)
    flow.tables = (f"{name}.t",)
    pair.source.sql("XA START 'y'", f"INSERT INTO {name}.t VALUES (1, 'a', 1)")
    pair.source.sql(f"INSERT INTO {name}.later VALUES (7, '{value}')", "XA END 'y'", "XA PREPARE 'y'")
    flow.drain()
    assert (flow.rows, len(flow.checkpoint.prepared)) == ([], 1)
    pair.replica_has(flow.checkpoint.gtids)
    pair.promote()
    purge_all(pair.replica)
    flow.connection = pair.replica.connection
    flow.drain()
    pair.replica.sql("XA COMMIT 'y'")
    flow.tables = (f"{name}.*",)
    if flavor == "mariadb":
        with pytest.raises(SchemaUnknownError, match=rf"rows of {name}\.later .* former server's log") as refused:
            flow.drain()
        assert "Leave the table out" in str(refused.value.hint)
        flow.tables = (f"{name}.t",)
    flow.drain()
    found = {(row["table"], json.loads(row["key"])["id"]) for row in flow.rows if row["op"] == "c"}
    assert found == {("t", 1)} | (set() if flavor == "mariadb" else {("later", 7)})
    pair.source.sql("XA ROLLBACK 'y'")


@pytest.fixture
def script(pair_of: Callable[[str], Pair], name: str, tmp_path: Path) -> Callable[[str], Script]:
    return lambda flavor: Script(pair_of(flavor), name, tmp_path)


def test_holes_of_a_mysql_set_are_filled_and_delivered_ones_behind_them_skipped(
    script: Callable[[str], Script],
) -> None:
    s = script("mysql")
    for number in (1, 2, 4, 7, 3, 5, 6, 9, 8):
        s.applied(number, number, number)
        if number in (4, 5):
            s.server.sql("FLUSH BINARY LOGS")
    flow = s.flow
    # Delivered were 1-3 and 6, in the order of a server whose writers ran in parallel.
    flow.checkpoint = s.checkpoint(f"{s.origin}:1-3:6")
    assert flow.batch()
    assert [r["transaction"] for r in flow.rows] == [f"{s.origin}:{n}" for n in (4, 7, 5)]
    assert flow.checkpoint.timeline == 4
    assert read_on(flow) == [f"{s.origin}:{n}" for n in (4, 7, 5, 9, 8)]
    assert f"{s.origin}:1-9" in flow.checkpoint.gtids


def test_domains_of_mariadb_are_followed_each_on_its_own(script: Callable[[str], Script]) -> None:
    s = script("mariadb")
    order = [(0, 1), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4)]
    names = {place: s.applied(place[1], 10 * place[0] + place[1], 1, place[0]) for place in order}
    flow = s.flow
    flow.checkpoint = s.checkpoint(f"{names[0, 1]},{names[1, 2]}")
    assert flow.batch()
    assert [r["transaction"] for r in flow.rows] == [names[0, 2], names[0, 3]]
    assert read_on(flow) == [names[p] for p in ((0, 2), (0, 3), (1, 3), (0, 4))]


def test_a_replanned_switch_is_the_same(script: Callable[[str], Script], flavor: str) -> None:
    s = script(flavor)
    if flavor == "mysql":
        gtids = [s.applied(n, n, n) for n in (1, 3, 2, 4)]
        delivered = f"{s.origin}:1-2"
    else:
        gtids = [s.applied(n, 10 * d + n, n, d) for d, n in ((0, 1), (0, 2), (1, 1), (0, 3))]
        delivered = f"{gtids[0]},{gtids[2]}"
    after = s.checkpoint(delivered)
    for limit in (1, 10):  # the overlap is one range, what follows is another
        source = s.flow.open()
        plan = source.plan(after, Batching(max_rows=limit, max_wait=timedelta(seconds=1)))
        assert plan is not None
        rows = rows_of(source, plan)
        source.release(plan)
        again = source.reopen(OffsetRange.from_json(json.loads(json.dumps(plan.range.to_json()))))
        assert (again.range, rows_of(source, again)) == (plan.range, rows)
        assert plan.range.start.compare(after).value == "equal"
        source.close()
        assert isinstance(plan.range.end, BinlogOffset)
        s.flow.rows += rows
        after = plan.range.end
    assert [r["transaction"] for r in s.flow.rows] == [gtids[1], gtids[3]]


def test_a_relay_log_is_named(pair_of: Callable[[str], Pair], flavor: str, name: str) -> None:
    pair = pair_of(flavor)
    pair.reset()
    pair.link()
    pair.source.sql(f"CREATE DATABASE {name}", f"DROP DATABASE {name}")
    variable = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[flavor]
    pair.replica_has(str(pair.source.sql(f"SELECT @@GLOBAL.{variable}")[0][0]))
    folder = Path(pair.replica.sql("SELECT @@datadir")[0][0])
    names = list(folder.glob("*relay-bin.0*"))
    assert names
    for path in names:
        with pytest.raises(DecodeError, match=rf"{path.name}:4: this is a relay log"):
            read_file(path)


def test_errant_transactions_are_named(script: Callable[[str], Script], flavor: str) -> None:
    s = script(flavor)
    first = s.applied(1, 1, 1)
    s.own(5, 5)
    later = s.applied(1, 2, 2, 1) if flavor == "mariadb" else s.applied(2, 2, 2)
    s.flow.checkpoint = s.checkpoint(f"{first},{later}")
    with pytest.raises(SourceDivergedError, match=r"errant .*(promoted-bin)") as caught:
        s.flow.batch()
    uuid_or_domain = s.server.sql("SELECT @@server_uuid")[0][0] if flavor == "mysql" else f"{s.domain}-1002-2"
    assert uuid_or_domain in str(caught.value)
    assert caught.value.hint
    source = s.flow.open()
    found = [f for f in source.preflight(s.flow.checkpoint) if f.subject.endswith("start")]
    assert [f.level for f in found] == [Level.ERROR]
    source.close()
    # Behind all that was delivered it has its place: the new server's order.
    s.flow.checkpoint = s.checkpoint(first)
    gtids = read_on(s.flow)
    assert len(gtids) == 2
    assert gtids[1] == later


def test_an_errant_number_of_a_mariadb_domain_is_named(script: Callable[[str], Script]) -> None:
    s = script("mariadb")
    first = s.applied(1, 1, 1)
    s.own(5, 5)
    s.flow.checkpoint = s.checkpoint(f"{first.rpartition('-')[0]}-2")
    with pytest.raises(SourceDivergedError, match=rf"{s.domain}-1002-2 in place of {s.domain}-{s.origin}-2"):
        s.flow.batch()


def test_lacking_and_purged_transactions_are_named(script: Callable[[str], Script], flavor: str) -> None:
    s = script(flavor)
    gtids = [s.applied(n, n, n) for n in (1, 2, 3)]
    ahead = f"{gtids[0].rpartition(':')[0]}:1-9" if flavor == "mysql" else f"{gtids[0].rpartition('-')[0]}-9"
    s.flow.checkpoint = s.checkpoint(ahead)
    with pytest.raises(SourceDivergedError, match="lacks transactions that were delivered") as caught:
        s.flow.batch()
    assert (f"{s.origin}:4-9" if flavor == "mysql" else ahead) in str(caught.value)
    s.server.sql("FLUSH BINARY LOGS")
    last = str(s.server.sql("SHOW BINARY LOGS")[-1][0])
    deadline = time.monotonic() + DEADLINE_S
    while s.server.sql("SHOW BINARY LOGS")[0][0] != last and time.monotonic() < deadline:
        s.server.sql(f"PURGE BINARY LOGS TO '{last}'")
    s.flow.checkpoint = s.checkpoint(gtids[0])
    named = f"{s.origin}:2-3" if flavor == "mysql" else rf"{s.domain}-…-2 to {gtids[2]}"
    with pytest.raises(OffsetPurgedError, match=named):
        s.flow.batch()


def test_a_plan_of_the_dead_server_is_finished_from_its_segments(
    pair_of: Callable[[str], Pair], flavor: str, name: str, tmp_path: Path
) -> None:
    pair = pair_of(flavor)
    flow = Flow(name, tmp_path, pair.source)
    create(pair.source, name)
    pair.source.sql(*(f"INSERT INTO {name}.t VALUES ({i}, 'a', 1)" for i in range(5)))
    source = flow.open()
    plan = source.plan(flow.checkpoint, EVERYTHING)
    assert plan is not None
    rows = rows_of(source, plan)
    source.close()
    flow.connection = pair.replica.connection
    source = flow.open()
    again = source.reopen(plan.range)
    assert rows_of(source, again) == rows
    source.release(again)
    with pytest.raises(SourceDivergedError, match="its segments are gone"):
        source.reopen(plan.range)
    source.close()


@pytest.mark.parametrize("gtids", ["", "on"])
def test_without_gtids_a_failover_is_refused(script: Callable[[str], Script], gtids: str) -> None:
    s = script("mysql")
    checkpoint = s.checkpoint("")
    if not gtids:
        s.flow.checkpoint = dataclasses.replace(checkpoint, gtids="")
        with pytest.raises(SourceDivergedError, match=r"by GTID only.* has no GTIDs"):
            s.flow.batch()
        return
    s.flow.checkpoint = checkpoint
    try:
        s.server.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        with pytest.raises(SourceDivergedError, match="gtid_mode=ON_PERMISSIVE"):
            s.flow.batch()
    finally:
        s.server.sql("SET GLOBAL gtid_mode = ON")


def test_another_server_behind_the_same_address_is_noticed(
    pair_of: Callable[[str], Pair], flavor: str, name: str, tmp_path: Path
) -> None:
    pair = pair_of(flavor)
    flow = Flow(name, tmp_path, pair.source)
    source = flow.open()
    assert source.plan(flow.checkpoint, IMPATIENT) is None
    # The address leads elsewhere while the control connection still stands: the dump finds out.
    former, source._dumps._connection = source._dumps._connection, pair.replica.connection
    with pytest.raises(SourceUnavailableError, match=f"where server {flow.checkpoint.server} was") as caught:
        source.plan(flow.checkpoint, IMPATIENT)
    assert caught.value.retryable
    # The control connection is lost and made again: it finds out.
    source._dumps._connection = former
    source._server.connection = pair.replica.connection
    thread = source._server.query("SELECT CONNECTION_ID()")[0][0]
    pair.source.sql(f"KILL {thread}")
    with pytest.raises(SourceUnavailableError, match=f"where .*{flow.checkpoint.server} was"):
        source.plan(flow.checkpoint, IMPATIENT)
    source.close()
