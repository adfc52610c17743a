"""Flows compared with their tables by runs: what is asked again, what stops a run, and what is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from databus import (
    Flow,
    Mask,
    MysqlBinlog,
    RenameColumns,
)
from databus.cli import run as moving
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import ConfigError
from databus.core.findings import Level
from databus.core.settings import Settings
from databus.core.tables.hidden_columns import NOTHING_GONE, RememberedHidden
from databus.core.times import SystemClock
from databus.ops.health.preflight import require_tables
from databus.ops.tables.wants import wants_of
from databus.runtime.context import Services
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.ops.told_tables import INDEX, KEYLESS, ORDERS, Kept, Told, flow, now, only


def services(store: Any, kept: Kept) -> Services:
    recorder: Any = None
    return Services(
        Settings("test", "", ""), EnvironmentConnections({}), store, None, recorder, SystemClock(), accepted=kept
    )


def started(store: MemoryCheckpoints, source: Told) -> None:
    lease = store.claim("shop", "test", 0)
    store.start("shop", lease, source.start_offset(), "test")
    lease.release()


def test_a_flow_is_compared_again_only_where_it_asks_for_something_else() -> None:
    source, kept, store = Told(now()), Kept(), MemoryCheckpoints()
    require_tables(flow(Mask("email")), services(store, kept), source)
    require_tables(flow(Mask("email")), services(store, kept), source)
    assert source.asked == 1
    with pytest.raises(ConfigError, match="no table of the flow has a column 'mail'") as refused:
        require_tables(flow(Mask("mail")), services(store, kept), source)
    assert refused.value.code == "column_unknown"
    assert kept.wants == wants_of(flow(Mask("email")))


class Hides:
    """Hidden columns in memory."""

    def __init__(self) -> None:
        self.hidden = RememberedHidden()

    def load(self, flow: str) -> RememberedHidden:
        return self.hidden

    def add(self, flow: str, found: RememberedHidden, gone: RememberedHidden = NOTHING_GONE) -> None:
        self.hidden = self.hidden.without(gone).with_added(found)


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_what_a_flow_hides_is_known_before_its_first_row_where_it_begins_at_the_head(start: str) -> None:
    hides, store = Hides(), MemoryCheckpoints()
    spec = flow(RenameColumns({"email": "mail"}), Mask("mail"))
    spec = spec.model_copy(update={"source": spec.source.model_copy(update={"start": start})})
    require_tables(spec, replace(services(store, Kept()), hidden_columns=hides), Told(now()))
    assert hides.hidden.tables == ({"shop.orders": {"mail"}} if start == "latest" else {})
    hides.hidden = RememberedHidden()
    source = Told(now())
    started(store, source)
    require_tables(spec, replace(services(store, Kept()), hidden_columns=hides), source)
    assert not hides.hidden


def test_a_run_from_the_desk_refuses_before_it_starts_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, source, started_spark = Kept(), Told(now(ORDERS, unmatched=("shop.log",))), []
    spec = flow(tables=("shop.orders", "shop.log"))

    @contextmanager
    def opened(*_: object) -> Iterator[tuple[Flow, Services]]:
        yield spec, services(MemoryCheckpoints(), kept)

    def spark(_: object) -> None:
        started_spark.append("started")
        raise ConfigError("the run goes on")

    monkeypatch.setattr(moving, "opened", opened)
    monkeypatch.setattr(moving, "findings_beside", lambda *_: [])
    monkeypatch.setattr("databus.runtime.spark.session.classic_session", spark)
    monkeypatch.setattr(MysqlBinlog, "open", lambda *_: source)
    with pytest.raises(ConfigError, match=r"table shop\.log: the table does not exist"):
        moving.run("shop", spark="local[1]")
    assert (started_spark, kept.wants) == ([], None)
    source.now = now(ORDERS)
    with pytest.raises(ConfigError, match="the run goes on"):
        moving.run("shop", spark="local[1]")
    assert started_spark == ["started"]


def test_what_was_found_once_stops_no_flow_later(caplog: pytest.LogCaptureFixture) -> None:
    """Its rows may lie in the log before the flow: the table dropped or renamed, the column renamed, the key gone."""
    both, kept, store = flow(tables=("shop.orders", "shop.log"), sinks=(INDEX,)), Kept(), MemoryCheckpoints()
    with_key = replace(KEYLESS, primary_key=("line",))
    require_tables(both, services(store, kept), Told(now(ORDERS, with_key)))
    started(store, Told(now()))
    gone = now(ORDERS, known=("shop.orders",), unmatched=("shop.log",))
    more = both.model_copy(update={"transforms": (Mask("email"),)})
    require_tables(more, services(store, kept), Told(gone))
    assert "table shop.log: the table does not exist" in caplog.text
    assert only(more, now(ORDERS, KEYLESS), kept.wants or frozenset()).level is Level.WARN
    column_gone = now(replace(ORDERS, columns=ORDERS.columns[:2]), with_key)
    assert only(more, column_gone, kept.wants or frozenset()).level is Level.WARN
    # What is asked for anew is refused all the same.
    added = more.model_copy(update={"source": MysqlBinlog(conn_id="m", tables=("shop.orders", "shop.log", "shop.x"))})
    with pytest.raises(ConfigError, match=r"shop\.x: the table does not exist"):
        require_tables(added, services(store, kept), Told(replace(gone, unmatched=("shop.log", "shop.x"))))


def test_a_run_names_a_table_that_is_gone_though_the_flow_asks_for_nothing_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both, kept, store = flow(tables=("shop.orders", "shop.log")), Kept(), MemoryCheckpoints()
    require_tables(both, services(store, kept), Told(now(ORDERS, KEYLESS)))
    gone = Told(now(ORDERS, known=("shop.orders",), unmatched=("shop.log",)))
    require_tables(both, services(store, kept), gone, hands_over=True)
    assert not caplog.records
    require_tables(both, services(store, kept), gone)
    assert "flow shop: table shop.log is gone" in caplog.text
    assert gone.asked == 0


def test_a_flow_that_ran_before_wants_were_kept_goes_on() -> None:
    source, kept, store = Told(now(unmatched=("shop.gone",))), Kept(), MemoryCheckpoints()
    spec = flow(tables=("shop.*", "shop.gone"))
    with pytest.raises(ConfigError, match=r"shop\.gone"):
        require_tables(spec, services(store, kept), source)
    started(store, source)
    require_tables(spec, services(store, kept), source)
    assert kept.wants == wants_of(spec)


def test_a_table_that_is_waited_for_is_accepted_once_it_came() -> None:
    kept, store = Kept(), MemoryCheckpoints()
    waits = flow(tables=("shop.orders", "shop.log"), source={"on_missing_table": "wait"})
    absent = Told(now(ORDERS, unmatched=("shop.log",)))
    require_tables(waits, services(store, kept), absent)
    require_tables(waits, services(store, kept), absent)
    assert absent.asked == 2
    strict = flow(tables=("shop.orders", "shop.log"))
    with pytest.raises(ConfigError, match=r"shop\.log"):
        require_tables(strict, services(store, kept), absent)
    require_tables(strict, services(store, kept), Told(now(ORDERS, KEYLESS)))
    require_tables(strict, services(store, kept), absent)


def test_a_paused_flow_and_a_source_that_cannot_tell_are_left_alone() -> None:
    kept, store = Kept(), MemoryCheckpoints()
    spec = flow(tables=("shop.nothing",))
    require_tables(spec, services(store, kept), MockSource(Mock(rows=0)))
    started(store, Told(now()))
    store.pause("shop", "me", "for now")
    source = Told(now(unmatched=("shop.nothing",)))
    require_tables(spec, services(store, kept), source)
    assert (source.asked, kept.wants) == (0, None)


def test_the_new_option_changes_no_hash_where_it_says_nothing() -> None:
    plain = MysqlBinlog(conn_id="m", tables=("shop.*",))
    assert "on_missing_table" not in plain.to_json()
    waits = MysqlBinlog(conn_id="m", tables=("shop.*",), on_missing_table="wait")
    assert waits.to_json()["on_missing_table"] == "wait"
