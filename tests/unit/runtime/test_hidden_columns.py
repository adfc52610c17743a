"""What a flow remembers of the columns it hides, through batches of the direct lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus import DropColumns, Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import CheckpointUnavailableError, TransformError
from databus.core.hidden_columns import HiddenByTable, with_added
from databus.core.settings import Settings
from databus.observe.clock import SystemClock
from databus.runtime.batch import run_batch
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.hidden_columns import HiddenMemory
from databus.sinks.memory import Memory, clear, records
from databus.sources.mock import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.test_batch_order import Records
from tests.unit.runtime.test_direct import InProcess


class Kept:
    """Hidden columns in memory; `away` as ZooKeeper is."""

    def __init__(self) -> None:
        self.hidden: dict[str, frozenset[str]] = {}
        self.away = False

    def load(self, flow: str) -> dict[str, frozenset[str]]:
        return dict(self.hidden)

    def add(self, flow: str, found: HiddenByTable) -> None:
        if self.away:
            raise CheckpointUnavailableError("away", hint="wait")
        self.hidden = with_added(self.hidden, found)


def moved(kept: Kept, column: str, *transforms: Any, view: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Move one batch of a table with one column beside its key."""
    clear("hidden")
    source = Mock(rows=4, rows_per_transaction=4, columns={column: "varchar"})
    flow = Flow(name="hides", source=source, transforms=transforms, sinks=(Memory(store="hidden"),))
    store: Any = MemoryCheckpoints()
    recorder: Any = Records()
    settings, connections = Settings("t", "", ""), EnvironmentConnections({})
    services = Services(settings, connections, store, None, recorder, SystemClock(), hidden_columns=kept)
    spark: Any = InProcess()
    with open_session(flow, services, spark, RunIdentity("run", "", __version__)) as session:
        for name, value in (view or {}).items():
            setattr(session, name, value)
        lease = store.claim("hides", "run", 0)
        run_batch(session, lease, store.start("hides", lease, session.source.start_offset(), "run"))
    return records("hidden")


def test_nothing_is_dispatched_of_a_table_that_lost_a_hidden_column() -> None:
    kept = Kept()
    assert moved(kept, "card_number", DropColumns("card_number"))
    assert kept.hidden == {"shop.orders": {"card_number"}}
    with pytest.raises(TransformError) as told:
        moved(kept, "card_no", DropColumns("card_number"))
    assert told.value.code == "hidden_column_gone"
    assert records("hidden") == []
    assert moved(kept, "card_no", DropColumns("card_no", former=("card_number",)))
    assert kept.hidden == {"shop.orders": {"card_number", "card_no"}}


@pytest.mark.parametrize(
    "view",
    [{"passed": SimpleNamespace(over=lambda _moved: frozenset())}, {"replays": True}],
    ids=["behind", "replays"],
)
def test_what_moves_older_ranges_asks_and_adds_nothing(view: dict[str, Any]) -> None:
    kept = Kept()
    kept.hidden = {"shop.orders": frozenset({"email"})}
    assert moved(kept, "card", DropColumns("email", "card"), view=view)
    assert kept.hidden == {"shop.orders": {"email"}}


def test_what_cannot_be_written_while_zookeeper_is_away_is_written_later() -> None:
    kept = Kept()
    memory = HiddenMemory("hides", kept)
    assert memory.known() == {}
    kept.away = True
    memory.remember({"shop.a": {"x"}})
    assert memory.known() == {"shop.a": {"x"}}
    kept.away = False
    memory.remember({"shop.a": {"x"}})
    assert kept.hidden == {"shop.a": {"x"}}
