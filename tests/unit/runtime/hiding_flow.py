"""A flow that hides columns, its memory of them, and sources that tell or change the columns of their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from databus import Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import CheckpointUnavailableError
from databus.core.positions.offsets import Offset, SequenceOffset
from databus.core.settings import Settings
from databus.core.tables.hidden_columns import NOTHING_GONE, RememberedHidden
from databus.core.tables.schemas import TableChange
from databus.core.tables.wanted import TablesNow
from databus.core.times import SystemClock
from databus.runtime.batch import run_batch
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session
from databus.sinks.memory import Memory, clear, records
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from databus.testing.table_batches import table
from tests.unit.runtime.marked_sinks import Engine, Reports

FOUND = RememberedHidden({"shop.a": {"x"}})


class Kept:
    """Hidden columns in memory; `away` as ZooKeeper is."""

    def __init__(self, **tables: set[str]) -> None:
        self.hidden = RememberedHidden({f"shop.{name}": frozenset(names) for name, names in tables.items()})
        self.away, self.asked = False, 0
        self.sinks: dict[str, Kept] = {}

    def of_sink(self, sink: str) -> Kept:
        return self.sinks.setdefault(sink, Kept())

    def load(self, flow: str) -> RememberedHidden:
        self._ask(flow)
        return self.hidden

    def add(self, flow: str, found: RememberedHidden, gone: RememberedHidden = NOTHING_GONE) -> None:
        self._ask(flow)
        self.hidden = self.hidden.without(gone).with_added(found)

    def _ask(self, flow: str) -> None:
        assert flow == "hides"
        self.asked += 1
        if self.away:
            raise CheckpointUnavailableError("away", hint="wait")


def opened(flow: Flow, kept: Kept) -> FlowSession:
    store: Any = MemoryCheckpoints()
    recorder: Any = Reports()
    settings, connections = Settings("t", "", ""), EnvironmentConnections({})
    services = Services(settings, connections, store, None, recorder, SystemClock(), hidden_columns=kept)
    return open_session(flow, services, Engine(), RunIdentity("run", "", __version__))


def moved(
    kept: Kept,
    column: str,
    *transforms: Any,
    view: dict[str, Any] | None = None,
    until: int | None = None,
    own: tuple[Any, ...] = (),
) -> list[dict[str, Any]]:
    """Move one batch, of two transactions, of a table with one column beside its key.

    Args:
        kept: where it is remembered what is hidden.
        column: the column.
        transforms: of the flow.
        view: what the session is besides.
        until: where the flow stood before it was set back.
        own: transforms of its sink; another sink has none then.
    """
    clear("hidden")
    source = Mock(rows=4, rows_per_transaction=2, columns={column: "varchar"})
    sinks = Memory(store="hidden", transforms=own), Memory(name="plain", store="plain")
    flow = Flow(name="hides", source=source, transforms=transforms, sinks=sinks if own else sinks[:1])
    with opened(flow, kept) as session:
        for name, value in (view or {}).items():
            setattr(session, name, value)
        store = session.store
        lease = store.claim("hides", "run", 0)
        standing = store.start("hides", lease, session.source.start_offset(), "run")
        run_batch(session, lease, replace(standing, replay_until=SequenceOffset(until) if until else None))
    return records("hidden")


class Told(MockSource):
    """A source whose server tells the columns of its table as they are now."""

    def __init__(self, *columns: str):
        super().__init__(Mock(rows=4, rows_per_transaction=2, columns={"email": "varchar"}))
        self.columns = columns
        self.tells: Callable[[str], bool] = lambda _table: True

    def tables_now(self) -> TablesNow:
        captured = (table("shop.orders", dict.fromkeys(self.columns, "text")),) if self.columns else ()
        return TablesNow("here", captured, (), tells=self.tells)

    def tables_gone(self, standing: Offset | None = None) -> tuple[str, ...]:
        return ()

    def tables_may_be_gone(self) -> bool:
        return False


class Renaming(Told):
    """Such a source; a statement in each range gives a column another name, and its name to another one."""

    renames = (("shop.orders", (("email", "mail"), ("note", "email"))),)

    def plan(self, *args: Any, **more: Any) -> Any:
        planned = super().plan(*args, **more)
        return planned and replace(planned, columns_renamed=self.renames)

    def reopen(self, planned: Any) -> Any:
        return replace(super().reopen(planned), columns_renamed=self.renames)


class Beside(Told):
    """Such a source; a statement in each range, which has no row of the flow, changes a table that is none of it."""

    def __init__(self, *changes: TableChange) -> None:
        super().__init__("id", "email")
        self.changes = changes

    def plan(self, *args: Any, **more: Any) -> Any:
        planned = super().plan(*args, **more)
        return planned and replace(planned, rows=0, tables=(), table_changes=self.changes)
