"""The quarantine of a flow: what is held and why, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from databus.binlog.log.capture import TableCapture
from databus.core.batches.receipts import CHECK
from databus.core.errors.checkpoint import CheckpointConflictError, LeaseBusyError
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.ops.checkpoint.amend import Attribution
from databus.records.quarantine.causes import CauseCount, QuarantineCauses
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.store import RecordStore
from databus.runtime.context import Services

_MOST_NAMED = 5
"""Unknown events that are named."""


@contextmanager
def held_rows(flow: Flow, services: Services) -> Iterator[HeldRows]:
    """Open the flow's quarantine."""
    with RecordStore(services.settings.records_url) as store:
        yield HeldRows(store, flow.name)


def causes_of(flow: Flow, settings: Settings, state: HeldState | None, after: int, limit: int) -> CausesPage:
    """Return a page of a flow's quarantine by cause; needs no server but the records.

    Args:
        flow: the flow.
        settings: the installation's.
        state: what became of the rows; None for all.
        after: number of the last cause of the page before, 0 for the first page.
        limit: causes at most.
    """
    with RecordStore(settings.records_url) as store:
        causes = QuarantineCauses(store, flow.name).causes(state, after, limit)
        return CausesPage(causes, HeldRows(store, flow.name).tally())


@dataclass(frozen=True)
class CausesPage:
    """Page of a quarantine by cause.

    Attributes:
        causes: causes with the number of their rows.
        tally: state → stage → rows, of all.
    """

    causes: list[CauseCount]
    tally: dict[str, dict[str, int]]


def select(flow: Flow, services: Services, wanted: Selection) -> list[HeldRow]:
    """Return the rows that are meant, oldest first."""
    with held_rows(flow, services) as rows:
        return rows.select(wanted)


def select_facts(flow: Flow, services: Services, wanted: Selection) -> list[HeldRow]:
    """Return the rows that are meant, oldest first, without their payloads."""
    with held_rows(flow, services) as rows:
        return [row for page in rows.facts(wanted) for row in page]


def require_known(flow: Flow, services: Services, wanted: Selection) -> None:
    """Refuse to look for what no row of the flow can have: a misspelt name must not read as "no rows".

    Known are the stages and tables of rows in quarantine, whatever became of them, those that the flow has now, and
    events of rows in quarantine.

    Raises:
        ConfigError: an unknown stage, table or event; names those that there are.
    """
    stages = {CHECK, *(sink.sink_name for sink in flow.sinks)}
    # A large quarantine is not read for nothing: all its stages and tables are looked for once one is refused.
    with held_rows(flow, services) as rows:
        stage, table = wanted.stage, wanted.table
        if stage is not None and stage not in stages and not rows.any_of(stage=stage):
            stages |= {known for known, _ in rows.places()}
            raise ConfigError(
                f"flow {flow.name} has no stage {stage!r} that holds rows back",
                hint=f"Known: {', '.join(sorted(stages))}.",
            )
        if table is not None and not _is_of(flow, table) and not rows.any_of(table=table):
            held = sorted({known for _, known in rows.places()})
            named = [*(f"{known} (in quarantine)" for known in held), *flow.source.datasets()]
            raise ConfigError(f"flow {flow.name} has no table {table!r}", hint=f"Known: {', '.join(named)}.")
        events = rows.known_events(wanted.event_ids)
    if unknown := [event for event in dict.fromkeys(wanted.event_ids) if event not in events]:
        more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        raise ConfigError(
            f"flow {flow.name} has no row {', '.join(unknown[:_MOST_NAMED])}{more} in quarantine",
            hint=f"`databus quarantine list {flow.name}` names those that it has.",
        )


def _is_of(flow: Flow, table: str) -> bool:
    database, _, name = table.partition(".")
    if flow.source.kind != "mysql_binlog":
        return any(fnmatchcase(shown, pattern) for pattern in flow.source.datasets() for shown in (table, name))
    return TableCapture(flow.source.datasets())(database, name)


def require_number(flow: Flow, services: Services, wanted: Selection, seen: int | None) -> tuple[int, int]:
    """Return how many rows a decision is about, and the number of the newest; refuse one by a user who saw other rows.

    Args:
        flow: the flow.
        services: the installation.
        wanted: the rows.
        seen: how many they saw; None where any number will do.

    Raises:
        CheckpointConflictError: rows were held back, replayed or discarded since.
    """
    with held_rows(flow, services) as rows:
        found, newest = rows.count(wanted)
    if seen is not None and found != seen:
        raise CheckpointConflictError(
            f"flow {flow.name}: {found} rows are meant now, and {seen} were seen",
            hint="Nothing was done. Look at the rows again, then decide.",
            code="quarantine_changed",
        )
    return found, newest


def tally(flow: Flow, services: Services) -> dict[str, dict[str, int]]:
    """Return the number of rows by state and, in it, by stage: "check" or a sink's name."""
    with held_rows(flow, services) as rows:
        return rows.tally()


def discard(flow: Flow, services: Services, wanted: Selection, said: Attribution) -> int:
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
            held, pending, discarded = replace(wanted, state=HeldState.HELD), services.store.pending_plan(name), 0
            if pending is not None:
                _refuse_taken(flow, pending, (row for page in rows.facts(held) for row in page))
            for page in rows.facts(held):
                rows.discard(page, (said.who, said.why, services.clock.now()))
                discarded += len(page)
    finally:
        lease.release()
    return discarded


def replays_of(flow: Flow) -> str:
    """Return the name under which a flow's replays have lease, plan, checkpoint and markers."""
    return f"{flow.name}.quarantine"


def _refuse_taken(flow: Flow, pending: Plan, found: Iterable[HeldRow]) -> None:
    taken = [row for row in found if row.replay == pending.batch]
    if taken:
        raise CheckpointConflictError(
            f"flow {flow.name}: replay {pending.batch} has taken up {len(taken)} of these rows and is not finished, "
            f"first {taken[0].event_id}",
            hint=f"`databus quarantine replay {flow.name}` finishes it before anything else; then discard what is "
            "held still. Rows that it has not taken up can be discarded now, by --event.",
            code="quarantine_replay_open",
        )
