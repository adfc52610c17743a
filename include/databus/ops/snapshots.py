"""Snapshots of a flow's tables: begun by a person, shown, paused, resumed and cancelled while the stream goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Literal

from databus.checkpoints.rules.amendments import require_started
from databus.checkpoints.rules.mending import check_mends
from databus.core.amounts import counted
from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.snapshot import Snapshot
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.repair import all_rows, tables_of
from databus.ops.quarantine.show import held_rows
from databus.runtime.context import Services

Decision = Literal["pause", "resume", "cancel"]


def proposed(
    flow: Flow, services: Services, tables: Sequence[str] = (), where: str = "", mends: Sequence[int] = ()
) -> Snapshot:
    """Return the snapshot that would begin: its tables with the rows that the server estimates; changes nothing.

    Args:
        flow: the flow.
        services: the installation's services.
        tables: `database.table` of those to read; all of the flow's when empty.
        where: condition in SQL that rows of the tables must meet; "" for all rows.
        mends: numbers of gaps, passed over before, that it is to mend; it reads all tables then.

    Raises:
        ConfigError: the flow's source has no snapshots, a table is none of the flow's, a condition names no table, or
            gaps are to be mended by less than all rows.
        CheckpointConflictError: the flow has no checkpoint yet, another snapshot is unfinished, or a gap would not be
            mended.
        SnapshotConditionError: the condition is none, or the server refuses it.
        SnapshotRefusedError: a setting or a grant is missing.
        SourceError: the tables cannot be listed.
    """
    if where and len(tables) != 1:
        raise ConfigError("a condition is of one table", hint="Name it with --table DATABASE.TABLE.")
    if mends and (tables or where):
        raise ConfigError(
            "a gap is mended by all rows of all tables: its log is gone, and nobody can tell which it changed",
            hint="Leave --table and --where out, or leave --mends out.",
        )
    last = services.store.snapshot(flow.name)
    _may_begin(flow, services, last)
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with closing(flow.source.open(services.connections, context)) as source:
        found = tables_of(flow, source, dict.fromkeys(tables, where))
    if unknown := [name for name in tables if name not in found]:
        raise ConfigError(
            f"flow {flow.name} has no table {', '.join(unknown)}",
            hint=f"Its tables are {', '.join(found) or 'none'}: write DATABASE.TABLE.",
        )
    wanted = [found[name] for name in dict.fromkeys(tables) or found]
    number, cause = 1 if last is None else last.number + 1, "repair" if mends else "request"
    read = all_rows(wanted) if mends else tuple(wanted)
    made = Snapshot(number, cause, services.clock.now(), read, mends=tuple(sorted(set(mends))))
    if mends:
        standing = require_started(flow.name, services.store.load(flow.name))
        check_mends(flow.name, made, services.store.gaps(flow.name), standing.offset)
    return made


def load_of(flow: Flow, services: Services, snapshot: Snapshot) -> str:
    """Say which bound of the flow's options the servers' load passes just now, so that an unfinished snapshot waits.

    "" where none does, and where no server answers.
    """
    if not snapshot.under_way:
        return ""
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with suppress(DatabusError), closing(flow.source.open(services.connections, context)) as source:
        return source.snapshot_load() if isinstance(source, SnapshotSource) else ""
    return ""


def first_words(flow: Flow, services: Services) -> str:
    """Say how the first snapshot of a flow comes about."""
    if services.store.load(flow.name) is not None:
        return f"`databus snapshot begin {flow.name}` reads its tables."
    if flow.source.begins_with_snapshot():
        return "its first run begins with the rows that its tables hold."
    return "let it run once, and begin one then; or leave `start` and `snapshot` out: it begins with its rows."


def _may_begin(flow: Flow, services: Services, last: Snapshot | None) -> None:
    """Refuse what `begin` would refuse, so that a preview promises nothing."""
    if services.store.load(flow.name) is None:
        said = first_words(flow, services)
        raise CheckpointConflictError(
            f"flow {flow.name} has no checkpoint yet, beside which a snapshot could be read",
            hint=said[0].upper() + said[1:],
        )
    if last is not None and last.unfinished:
        finish = f"resume it (`databus snapshot resume {flow.name}`)" if last.paused else "let it finish"
        raise SnapshotUnfinishedError(
            f"flow {flow.name}: snapshot {last.number} is unfinished" + (", and paused" if last.paused else ""),
            hint=f"End it by `databus snapshot cancel {flow.name}`, or {finish}.",
        )


def begin(flow: Flow, services: Services, snapshot: Snapshot, said: Attribution) -> Snapshot:
    """Begin a snapshot: batches of the flow take its chunks along from the next one on.

    Raises:
        SnapshotUnfinishedError: another one is unfinished.
        CheckpointError: the flow has no checkpoint yet, or the store cannot be used.
    """
    return services.store.begin_snapshot(flow.name, None, snapshot, said.who, said.why)


def decide(flow: Flow, services: Services, decision: Decision, said: Attribution) -> Snapshot:
    """Pause, resume or cancel the flow's unfinished snapshot, and return it.

    Raises:
        CheckpointConflictError: none is unfinished.
    """
    store = services.store
    steps = {"pause": store.pause_snapshot, "resume": store.resume_snapshot, "cancel": store.cancel_snapshot}
    return steps[decision](flow.name, said.who, said.why)


def foreseen(flow: str, snapshot: Snapshot | None, decision: Decision) -> tuple[Snapshot, str]:
    """Return the snapshot that a decision would be about, and in words what the decision would do.

    Raises:
        CheckpointConflictError: there is none, or it has ended.
    """
    if snapshot is None or not snapshot.unfinished:
        ended = "there was none yet" if snapshot is None else f"snapshot {snapshot.number} has ended"
        raise CheckpointConflictError(
            f"flow {flow}: no snapshot to {decision}: {ended}", hint=f"`databus snapshot begin {flow}` begins one."
        )
    name, tables = f"snapshot {snapshot.number}", [t for t in snapshot.tables if t.state not in ("done", "gone")]
    rows = sum(max((table.estimate or 0) - table.rows - table.superseded, 0) for table in tables)
    left = f"{counted(len(tables), 'table')}, about {counted(rows, 'row')}"
    if decision == "cancel":
        gaps = f"gap {', '.join(map(str, snapshot.mends))}"
        mends = f", and {gaps} would not be mended by it" if snapshot.mends else ""
        return snapshot, f"{name} would end with {left} not read{mends}; what was delivered stays in the sinks"
    if decision == "pause":
        if snapshot.paused:
            return snapshot, f"{name} is paused already: nothing would change"
        return snapshot, f"{name} would stand still from the next batch on, with {left} left; the stream goes on"
    if not snapshot.paused:
        return snapshot, f"{name} is not paused: nothing would change"
    return snapshot, f"{name} would go on where it stands, with {left} left"


def shortfalls(flow: Flow, services: Services, snapshot: Snapshot) -> list[str]:
    """Return what of a snapshot that has ended did not reach the sinks, in words; none where all rows did.

    Raises:
        RecordingError: the quarantine cannot be read.
    """
    gone = [table.table for table in snapshot.tables if table.state == "gone"]
    with held_rows(flow, services) as rows:
        held = rows.of_snapshot(snapshot.number, snapshot.begun_at)
    told = []
    if gone:
        was = "was" if len(gone) == 1 else "were"
        told.append(f"{', '.join(gone)} {was} dropped or renamed before all rows were read")
    if held:
        told.append(
            f"{counted(held, 'row')} of it {'is' if held == 1 else 'are'} in quarantine "
            f"(`databus quarantine list {flow.name}`)"
        )
    return told
