"""The quarantine of a flow: what is held and why, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase

from databus.binlog.capture import TableCapture
from databus.core.errors import CheckpointConflictError, ConfigError, LeaseBusyError
from databus.core.flow import Flow
from databus.core.plan import Plan
from databus.core.receipts import CHECK
from databus.ops.mediation import Said
from databus.records.held_rows import HeldRow, HeldRows, HeldState, Selection
from databus.records.store import RecordStore
from databus.runtime.context import Services


@contextmanager
def held_rows(flow: Flow, services: Services) -> Iterator[HeldRows]:
    """Open the flow's quarantine."""
    with RecordStore(services.settings.records_url) as store:
        yield HeldRows(store, flow.name)


def select(flow: Flow, services: Services, wanted: Selection) -> list[HeldRow]:
    """Return the rows that are meant, oldest first."""
    with held_rows(flow, services) as rows:
        return rows.select(wanted)


def require_known(flow: Flow, services: Services, wanted: Selection) -> None:
    """Refuse to look for what no row of the flow can have: a misspelt name must not read as "no rows".

    Known are the stages and tables of rows in quarantine, whatever became of them, those that the flow has now, and
    events of rows in quarantine.

    Raises:
        ConfigError: an unknown stage, table or event; names those that there are.
    """
    if wanted.stage is None and wanted.table is None and not wanted.event_ids:
        return  # a large quarantine is not read for nothing
    with held_rows(flow, services) as rows:
        places = rows.places() if wanted.stage is not None or wanted.table is not None else []
        ids = wanted.event_ids
        events = {row.event_id for row in rows.select(Selection(None, event_ids=ids))} if ids else frozenset[str]()
    stages = sorted({CHECK, *(sink.sink_name for sink in flow.sinks), *(stage for stage, _ in places)})
    if wanted.stage is not None and wanted.stage not in stages:
        raise ConfigError(
            f"flow {flow.name} has no stage {wanted.stage!r} that holds rows back", hint=f"Known: {', '.join(stages)}."
        )
    tables = sorted({table for _, table in places})
    if wanted.table is not None and wanted.table not in tables and not _is_of(flow, wanted.table):
        known = [*(f"{table} (in quarantine)" for table in tables), *flow.source.datasets()]
        raise ConfigError(f"flow {flow.name} has no table {wanted.table!r}", hint=f"Known: {', '.join(known)}.")
    if unknown := [event for event in wanted.event_ids if event not in events]:
        raise ConfigError(
            f"flow {flow.name} has no row {', '.join(unknown)} in quarantine",
            hint=f"`databus quarantine list {flow.name}` names those that it has.",
        )


def _is_of(flow: Flow, table: str) -> bool:
    database, _, name = table.partition(".")
    if flow.source.kind != "mysql_binlog":
        return any(fnmatchcase(shown, pattern) for pattern in flow.source.datasets() for shown in (table, name))
    return TableCapture(flow.source.datasets())(database, name)


def tally(flow: Flow, services: Services) -> dict[str, dict[str, int]]:
    """Return the number of rows by state and, in it, by stage: "check" or a sink's name."""
    with held_rows(flow, services) as rows:
        return rows.tally()


def discard(flow: Flow, services: Services, wanted: Selection, said: Said) -> int:
    """Decide that held rows will never be replayed; they stay listed. Returns how many.

    Raises:
        LeaseBusyError: a replay of the flow runs.
        CheckpointConflictError: an unfinished replay has taken up some of the rows, and sinks may hold them.
    """
    name = replays_of(flow)
    try:
        lease = services.store.claim(name, said.who, 0.0)
    except LeaseBusyError as error:
        raise LeaseBusyError(f"a replay of flow {flow.name} runs: {error.message}", hint=error.hint) from error
    try:
        with held_rows(flow, services) as rows:
            found = rows.select(replace(wanted, state=HeldState.HELD))
            _refuse_taken(flow, services.store.pending_plan(name), found)
            rows.discard(found, (said.who, said.why, services.clock.now()))
    finally:
        lease.release()
    return len(found)


def replays_of(flow: Flow) -> str:
    """Return the name under which a flow's replays have lease, plan, checkpoint and markers."""
    return f"{flow.name}.quarantine"


def _refuse_taken(flow: Flow, pending: Plan | None, found: Sequence[HeldRow]) -> None:
    taken = [row for row in found if pending is not None and row.replay == pending.batch]
    if pending is not None and taken:
        raise CheckpointConflictError(
            f"flow {flow.name}: replay {pending.batch} has taken up {len(taken)} of these rows and is not finished, "
            f"first {taken[0].event_id}",
            hint=f"`databus quarantine replay {flow.name}` finishes it before anything else; then discard what is "
            "held still. Rows that it has not taken up can be discarded now, by --event.",
            code="quarantine_replay_open",
        )
