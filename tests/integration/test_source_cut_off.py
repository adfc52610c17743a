"""A dump that ends in the middle: killed, its server restarted, its server id taken. Each change is read once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from databus.binlog.server.dump import Dump, DumpRequest
from databus.core.batching import Batching
from databus.core.errors import ServerIdTakenError, SourceUnavailableError
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.sandbox import Sandbox
from databus.sources.mysql.dump import range_dumper
from databus.sources.mysql.dump.range_dumper import DumpRetries
from databus.sources.mysql.spec import MysqlBinlog
from tests.contract.source_contract import ROW_OPS, rows_of
from tests.integration.binlog_shop import Connections, Shop

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PATIENT = Batching(max_wait=timedelta(seconds=150))


class Ids:
    """Leases ids in order, and remembers."""

    def __init__(self) -> None:
        self.next, self.held, self.released = 71_000, set[int](), list[int]()

    def lease(self, server: str) -> int:
        self.next += 1
        self.held.add(self.next)
        return self.next

    def release(self, server: str, server_id: int) -> None:
        self.held.discard(server_id)
        self.released.append(server_id)


class Following:
    """A source that follows the log in a thread, under ids of its own, until it has found row changes or met an error.

    A range without any is followed by the next: a server that was restarted may begin a new log file, or be told
    statements, and a busy machine may take longer for that than a range waits.
    """

    def __init__(self, shop: Shop):
        self.shop, self.ids, self.found, self.rows = shop, Ids(), list[Any](), list[Any]()
        settings = Settings("test", str(shop.folder / "segments"), "")
        spec = MysqlBinlog(conn_id="shop", tables=(f"{shop.name}.*",), snapshot="never")
        self.source: Any = spec.open(Connections(shop.connection), FlowContext(shop.name, settings, self.ids))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.begin = self.shop.open(start="latest").start_offset()  # knows its file: nothing else is dumped first
        threads = set(self.shop.dump_threads())
        self._thread.start()
        self.shop.wait_for(lambda: bool(set(self.shop.dump_threads()) - threads))
        (self.thread_id,) = set(self.shop.dump_threads()) - threads

    def _run(self) -> None:
        place = self.begin
        try:
            while not self.rows:
                plan = self.source.plan(place, PATIENT)
                if plan is not None:
                    self.rows += [row for row in rows_of(self.source, plan) if row["op"] in ROW_OPS]
                    place = plan.range.end
        except Exception as error:  # noqa: BLE001 - handed to the test
            self.found.append(error)

    def ids_of(self) -> list[int]:
        """Wait for row changes, and return their ids."""
        self._thread.join(500)
        assert self.found == []
        return [row["ordinal"] for row in self.rows]


@pytest.fixture(params=["mysql", "mariadb"])
def shop(request: pytest.FixtureRequest, make_shop: Callable[[str, str], Shop]) -> Shop:
    found = make_shop(request.param, "numba")
    found.sql(f"CREATE TABLE {found.name}.t (id INT PRIMARY KEY)")
    return found


def test_a_killed_dump_is_asked_for_again(shop: Shop) -> None:
    following = Following(shop)
    following.start()
    shop.sql(f"KILL {following.thread_id}")
    shop.wait_for(lambda: following.thread_id not in shop.dump_threads())
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1), (2), (3)")
    assert len(following.ids_of()) == 3
    following.source.close()
    assert not following.ids.held


def test_the_server_restarts_under_a_dump(shop: Shop, databases: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_long(place: str, renew: Callable[[], None]) -> DumpRetries:
        return DumpRetries(place, renew, (1.0,) * 120)  # a busy machine restarts a server slowly

    monkeypatch.setattr(range_dumper, "DumpRetries", for_long)
    following = Following(shop)
    following.start()
    databases.restart(shop.flavor)
    shop.reconnect()
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1), (2), (3)")
    assert len(following.ids_of()) == 3
    following.source.close()


def test_a_taken_server_id_is_given_up_for_another(make_shop: Callable[[str, str], Shop]) -> None:
    """MariaDB ends the older of two dumps with one id; MySQL tells readers apart by their uuid, ours is random."""
    shop = make_shop("mariadb", "numba")
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    following = Following(shop)
    following.start()
    (mine,) = following.ids.held
    request = DumpRequest(following.begin.file, following.begin.pos, "mariadb", follow=True, server_id=mine)
    with Dump(shop.connection, request) as thief:
        shop.wait_for(lambda: following.ids.held == {mine + 1})
        shop.sql(f"INSERT INTO {shop.name}.t VALUES (1), (2), (3)")
        assert len(following.ids_of()) == 3
        assert following.ids.released == [mine]
        # The other reader was left in peace.
        ends = time.monotonic() + 10
        assert next(events for events in thief.batches(lambda: ends) if events.end).end > 0
    following.source.close()


def test_an_id_that_is_taken_again_and_again_is_named(
    make_shop: Callable[[str, str], Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(place: str, renew: Callable[[], None]) -> DumpRetries:
        return DumpRetries(place, renew, ())

    monkeypatch.setattr(range_dumper, "DumpRetries", at_once)
    shop = make_shop("mariadb", "numba")
    following = Following(shop)
    following.start()
    (mine,) = following.ids.held
    request = DumpRequest(following.begin.file, following.begin.pos, "mariadb", follow=True, server_id=mine)
    with Dump(shop.connection, request):
        shop.wait_for(lambda: bool(following.found))
    (error,) = following.found
    assert isinstance(error, ServerIdTakenError)
    assert isinstance(error, SourceUnavailableError)
    assert (error.code, error.retryable) == ("source_server_id_taken", True)
    assert "server_id" in error.message
    assert "first_server_id" in error.hint
    following.source.close()
