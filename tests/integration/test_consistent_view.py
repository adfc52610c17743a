"""Consistent views of real servers: they show all up to a checkpoint, nothing beyond the log's end after the reads."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from databus.core.errors import (
    SnapshotNotYetVisibleError,
    SnapshotRefusedError,
    SnapshotServerChangedError,
    SourceError,
)
from databus.core.positions.offsets import BinlogOffset, Ordering
from databus.sources.mysql.server import Flavor, MysqlServer
from databus.sources.mysql.snapshot.views.consistent_view import XA_COMMIT_S, ConsistentView, after_reads
from databus.sources.mysql.snapshot.views.read_lock import LONG_STATEMENT_S
from tests.contract.source_contract import EVERYTHING
from tests.integration.binlog_shop import Shop
from tests.integration.logged_not_visible import begin_insert, held_commits

pytestmark = pytest.mark.integration

MYSQL: Flavor = "mysql"


@pytest.fixture
def keys(shop: Shop) -> Shop:
    """A shop with a table `t` of keys, and an account that may do no more than a flow's."""
    monitor = "REPLICATION CLIENT" if shop.flavor == "mysql" else "BINLOG MONITOR"
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {shop.name}.t VALUES (1000)",
        f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{shop.name}'@'%'",
        f"GRANT SELECT ON {shop.name}.* TO '{shop.name}'@'%'",
    )
    return shop


def view(shop: Shop, covers: BinlogOffset, wait_s: float = 20, login: str | None = None) -> ConsistentView:
    """A view by the account that may do no more than a flow's."""
    reader = {"login": login or shop.name, "password": SecretStr("" if login else "secret")}
    flavor: Flavor = "mysql" if shop.flavor == "mysql" else "mariadb"
    return ConsistentView(shop.connection.model_copy(update=reader), flavor, covers, wait_s)


def head(shop: Shop) -> BinlogOffset:
    server = MysqlServer(shop.connection)
    try:
        return server.head()
    finally:
        server.close()


def ids(opened: ConsistentView, shop: Shop) -> set[int]:
    return {int(i) for (i,) in opened.opened.query(f"SELECT id FROM {shop.name}.t")}


def naive_ids(shop: Shop) -> set[int]:
    """Keys in a view that is opened at once."""
    with shop.connect() as session, session.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT id FROM t")
        return {int(i) for (i,) in cursor.fetchall()}


def refusal(shop: Shop, covers: BinlogOffset) -> SnapshotNotYetVisibleError | None:
    """Why no view covers a place within a moment; None where one does."""
    try:
        with view(shop, covers, wait_s=0.2):
            return None
    except SnapshotNotYetVisibleError as error:
        return error


def test_a_transaction_that_was_read_and_is_not_visible_is_waited_for(keys: Shop) -> None:
    with held_commits(keys):
        for key in range(10):  # MySQL holds a commit for a second: on a busy machine once more
            covers = begin_insert(keys, key, head(keys))
            low = head(keys)
            lacks = key not in naive_ids(keys)
            error = refusal(keys, covers)
            if error is not None or keys.flavor == "mariadb":
                break
            keys.receive()
        assert error is not None, "no commit was held, or none was waited for"
        assert lacks
        assert error.retryable
        assert str(covers) in error.message
        # What a low mark by the log's end is: behind the transaction, which a view of that time lacks.
        assert (low.file_number, low.pos) >= (covers.file_number, covers.pos)
        if keys.flavor == "mysql":
            with view(keys, covers) as opened:
                assert key in ids(opened, keys)
    keys.receive()
    with view(keys, covers) as opened:
        assert key in ids(opened, keys)


def read_to_head(shop: Shop) -> BinlogOffset:
    """The checkpoint of a flow that read the log to its end: it knows what is prepared."""
    source = shop.open((f"{shop.name}.t",))
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert isinstance(plan.range.end, BinlogOffset)
    source.release(plan)
    source.close()
    return plan.range.end


@pytest.fixture
def prepared(keys: Shop) -> Iterator[str]:
    """A row 1 of the table `t` that is prepared and not committed, by its xid."""
    xid = f"'{keys.name}'"
    keys.sql(f"XA START {xid}", f"INSERT INTO {keys.name}.t VALUES (1)", f"XA END {xid}", f"XA PREPARE {xid}")
    keys.reconnect()
    yield xid
    with contextlib.suppress(pymysql.err.MySQLError):
        keys.sql(f"XA ROLLBACK {xid}")


def test_prepared_rows_are_in_a_view_once_they_are_committed(keys: Shop, prepared: str) -> None:
    covers = read_to_head(keys)
    assert len(covers.prepared) == 1
    began = time.monotonic()
    with view(keys, covers) as before:
        assert time.monotonic() - began < XA_COMMIT_S  # not waited for: the checkpoint knows it as prepared
        keys.sql(f"XA COMMIT {prepared}")
        assert ids(before, keys) == {1000}
    with view(keys, read_to_head(keys)) as opened:
        assert ids(opened, keys) == {1, 1000}


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_what_may_be_committed_is_waited_for_or_decided_under_a_lock(
    keys: Shop, prepared: str, caplog: pytest.LogCaptureFixture
) -> None:
    """MariaDB has XA COMMIT in the log before the tables have it, and in the view's place: only XA RECOVER tells."""
    covers = dataclasses.replace(read_to_head(keys), prepared=())
    xid = f"X'{keys.name.encode().hex()}',X'',1"
    with pytest.raises(SnapshotNotYetVisibleError, match="XA RECOVER") as caught, view(keys, covers):
        pytest.fail("opened")
    assert xid in caught.value.message
    assert "GRANT RELOAD" in caught.value.hint
    with caplog.at_level(logging.INFO), view(keys, covers, login="root") as opened:
        assert ids(opened, keys) == {1000}
        assert opened.place is not None
    assert any("FLUSH TABLES WITH READ LOCK" in r.message and xid in r.message for r in caplog.records)
    later = threading.Timer(XA_COMMIT_S / 4, keys.sql, [f"XA COMMIT {prepared}"])
    later.start()
    with view(keys, covers) as opened:  # it was committed while the view waited
        assert ids(opened, keys) == {1, 1000}
    later.join()


def test_views_stay_as_they_were_and_are_no_place_to_write(keys: Shop) -> None:
    keys.sql("FLUSH BINARY LOGS")
    covers = dataclasses.replace(head(keys), timeline=3, generation=1)
    before = datetime.now(UTC)
    with view(keys, covers, login="root") as opened:
        keys.sql(f"INSERT INTO {keys.name}.t VALUES (1)", "FLUSH BINARY LOGS")
        assert ids(opened, keys) == {1000}
        assert abs((opened.read_at - before).total_seconds()) < 10
        if keys.flavor == "mariadb":
            assert opened.place is not None
            # The server writes a BINLOG_CHECKPOINT into the new file when it likes: no transaction is between.
            assert (opened.place.file, opened.place.timeline, opened.place.generation) == (covers.file, 3, 1)
            assert opened.place.compare(covers) is not Ordering.BEFORE
            ((there,),) = keys.sql(f"SELECT BINLOG_GTID_POS('{opened.place.file}', {opened.place.pos})")
            assert there == covers.gtids
        else:
            assert opened.place is None
        end = after_reads(MysqlServer(keys.connection), covers)
        assert end.compare(covers) is Ordering.AFTER
        assert (end.timeline, end.generation, end.gtids) == (3, 1, "")
        with pytest.raises(SourceError, match="1792"):
            opened.opened.query(f"INSERT INTO {keys.name}.t VALUES (2)")
        thread = opened.opened.thread_id
    listed = f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {thread}"
    keys.wait_for(lambda: not keys.sql(listed))


GLOBALS = {
    "sql_mode": "'PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_ZERO_IN_DATE,STRICT_ALL_TABLES,ANSI_QUOTES'",
    "sql_select_limit": "1",
    "time_zone": "'+05:00'",
    "{isolation}": "'READ-COMMITTED'",
    "wait_timeout": "1",
    "{longest}": "1",
}
"""Settings under which rows would look other than they are, or be left out."""


def test_the_servers_settings_do_not_change_rows(keys: Shop) -> None:
    names = {
        "{isolation}": "transaction_isolation" if keys.flavor == "mysql" else "tx_isolation",
        "{longest}": "max_execution_time" if keys.flavor == "mysql" else "max_statement_time",
    }
    wanted = {names.get(name, name): value for name, value in GLOBALS.items()}
    keys.sql(
        f"USE {keys.name}",
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE odd (id DATE PRIMARY KEY, c CHAR(5), s TIMESTAMP NULL, l CHAR(3) CHARACTER SET latin1)",
        "SET SESSION time_zone = '+00:00'",
        "INSERT INTO odd VALUES ('0000-00-00', 'x', '2020-01-01 00:00:00', x'E9'), ('2004-02-31', 'y', NULL, NULL)",
    )
    covers = head(keys)
    former = {name: keys.sql(f"SELECT @@GLOBAL.{name}")[0][0] for name in wanted}
    try:
        for name, value in wanted.items():
            keys.sql(f"SET GLOBAL {name} = {value}")
        with view(keys, covers) as opened:
            query = opened.opened.query
            rows = query(f"SELECT CONCAT(id), CONCAT('<', c, '>'), CONCAT(s), HEX(l) FROM {keys.name}.odd ORDER BY id")
            assert [tuple(map(text, row)) for row in rows] == [
                ("0000-00-00", "<x>", "2020-01-01 00:00:00", "E9"),
                ("2004-02-31", "<y>", None, None),
            ]
            assert query(f"SELECT COUNT(*) FROM {keys.name}.odd WHERE id > '2004-02-30'") == [(1,)]
            assert query("SELECT @@character_set_results") == [(None,)]
            assert query("SELECT @@SESSION.wait_timeout, @@SESSION.lock_wait_timeout") == [(600, 20)]
            keys.sql(f"DELETE FROM {keys.name}.odd")
            assert query(f"SELECT SLEEP(1.2) FROM {keys.name}.odd LIMIT 1") == [(0,)]
    finally:
        for name, value in former.items():
            keys.sql(f"SET GLOBAL {name} = {value!r}")


def text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def test_another_server_is_named(keys: Shop) -> None:
    covers = head(keys)
    server = MysqlServer(keys.connection)
    other = "mariadb" if keys.flavor == "mysql" else "mysql"
    for elsewhere in ({"server": "another"}, {"flavor": other}):
        former = dataclasses.replace(covers, **elsewhere)
        with pytest.raises(SnapshotServerChangedError, match=f"{covers.server} answers") as caught, view(keys, former):
            pytest.fail("opened")
        assert caught.value.retryable
        with pytest.raises(SnapshotServerChangedError):
            after_reads(server, former)
    unknown = dataclasses.replace(covers, server="")
    with view(keys, unknown) as opened:
        assert ids(opened, keys) == {1000}
    server.close()


def test_what_the_server_never_had_is_not_covered(keys: Shop) -> None:
    """A server that lost its log's end: the stream names it; a view is refused as one that shows too little."""
    covers = head(keys)
    gtids = f"{covers.server}:1-999999999" if keys.flavor == "mysql" else "0-1-999999999"
    beyond = dataclasses.replace(covers, pos=covers.pos + 10_000, gtids=gtids)
    began = time.monotonic()
    with pytest.raises(SnapshotNotYetVisibleError), view(keys, beyond, wait_s=0.3):
        pytest.fail("opened")
    assert 0.3 <= time.monotonic() - began < 5


# --- without GTIDs ---


@pytest.fixture
def anonymous(make_shop: Callable[[str, str], Shop]) -> Iterator[Shop]:
    """MySQL with gtid_mode off."""
    shop = make_shop("mysql", "numba")
    shop.sql(
        *(f"SET GLOBAL gtid_mode = {m}" for m in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")),
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {shop.name}.t VALUES (1000)",
    )
    try:
        yield shop
    finally:
        shop.sql(*(f"SET GLOBAL gtid_mode = {m}" for m in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))


def test_without_gtids_a_read_lock_waits_for_the_commit(anonymous: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop = anonymous
    with held_commits(shop):
        for key in range(10):
            before = dataclasses.replace(head(shop), gtids="")
            covers = begin_insert(shop, key, before)
            assert covers.gtids == ""
            lacks = key not in naive_ids(shop)
            with caplog.at_level(logging.INFO), view(shop, covers, login="root") as opened:
                assert key in ids(opened, shop)
                assert opened.place is not None
                assert opened.place.compare(covers) is not Ordering.BEFORE
                shop.receive()
                shop.sql(f"DELETE FROM {shop.name}.t WHERE id = {key}")  # the lock is given back
                assert key in ids(opened, shop)
                assert opened.opened.query("SELECT @@SESSION.wait_timeout, @@SESSION.lock_wait_timeout") == [(600, 20)]
            if lacks:
                break
        else:
            pytest.fail("no commit was held")
    assert any("FLUSH TABLES WITH READ LOCK" in r.message and "commits for" in r.message for r in caplog.records)


def test_without_gtids_and_without_reload_a_view_is_refused(anonymous: Shop) -> None:
    shop = anonymous
    shop.sql(
        f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO '{shop.name}'@'%'",
    )
    covers = dataclasses.replace(head(shop), gtids="")
    with pytest.raises(SnapshotRefusedError, match="FLUSH TABLES WITH READ LOCK") as caught, view(shop, covers):
        pytest.fail("opened")
    assert "gtid_mode=ON" in caught.value.hint
    assert "GRANT RELOAD" in caught.value.hint
    assert not caught.value.retryable
    shop.sql(f"GRANT RELOAD ON *.* TO '{shop.name}'@'%'")
    with view(shop, covers) as opened:
        assert ids(opened, shop) == {1000}


@pytest.fixture
def long_statement(anonymous: Shop) -> Iterator[Shop]:
    """A statement of some seconds on the table `t`."""
    anonymous.sql(f"CREATE TABLE {anonymous.name}.u (id INT PRIMARY KEY)")
    anonymous.send(f"SELECT SLEEP(5) FROM {anonymous.name}.t")
    yield anonymous
    anonymous.receive()


def test_a_read_lock_is_not_tried_beside_a_long_statement(long_statement: Shop) -> None:
    shop = long_statement
    with shop.connect() as session, session.cursor() as cursor:
        shop.wait_for(lambda: seconds_of_sleep(cursor) >= LONG_STATEMENT_S)
        covers = dataclasses.replace(head(shop), gtids="")
        with pytest.raises(SnapshotNotYetVisibleError, match="was not tried"), view(shop, covers, 0.1, login="root"):
            pytest.fail("opened")
        cursor.execute("INSERT INTO t VALUES (1)")
        session.commit()
        assert seconds_of_sleep(cursor) >= LONG_STATEMENT_S  # nobody waited for its end


def test_a_read_lock_is_given_up(long_statement: Shop) -> None:
    """An account that is not shown others' statements."""
    shop = long_statement
    covers = dataclasses.replace(head(shop), gtids="")
    with shop.connect() as session, session.cursor() as cursor:
        cursor.execute(f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT RELOAD, REPLICATION CLIENT ON *.* TO '{shop.name}'@'%'")
        shop.wait_for(lambda: seconds_of_sleep(cursor) >= 0)
        with pytest.raises(SnapshotNotYetVisibleError, match="was given up"), view(shop, covers, 0.1):
            pytest.fail("opened")
        cursor.execute("INSERT INTO u VALUES (1)")
        session.commit()
        assert seconds_of_sleep(cursor) >= 0


def seconds_of_sleep(cursor: Any) -> int:
    """How long the long statement has run; -1 when it does not."""
    cursor.execute("SELECT MAX(TIME) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(5)%'")
    (found,) = cursor.fetchone()
    return -1 if found is None else int(found)
