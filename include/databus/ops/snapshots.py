"""Snapshots of a flow's tables: begun by a person, shown, paused, resumed and cancelled while the stream goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.errors.config import ConfigError
from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Level
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.snapshot import Snapshot
from databus.ops.checkpoint.amend import Attribution
from databus.runtime.context import Services


def proposed(flow: Flow, services: Services, tables: Sequence[str] = (), where: str = "") -> Snapshot:
    """Return the snapshot that would begin: its tables with the rows that the server estimates; changes nothing.

    Args:
        flow: the flow.
        services: the installation's services.
        tables: `database.table` of those to read; all of the flow's when empty.
        where: condition in SQL that rows of the tables must meet; "" for all rows.

    Raises:
        ConfigError: the flow's source has no snapshots, a table is none of the flow's, or a condition names no table.
        CheckpointConflictError: the flow has no checkpoint yet, or another snapshot is unfinished.
        SnapshotConditionError: the condition is none, or the server refuses it.
        SnapshotRefusedError: a setting or a grant is missing.
        SourceError: the tables cannot be listed.
    """
    if where and len(tables) != 1:
        raise ConfigError("a condition is of one table", hint="Name it with --table DATABASE.TABLE.")
    last = services.store.snapshot(flow.name)
    _may_begin(flow, services, last)
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with closing(flow.source.open(services.connections, context)) as source:
        if not isinstance(source, SnapshotSource):
            raise ConfigError(
                f"flow {flow.name}: a source of kind {flow.source.kind} has no snapshots",
                hint="Snapshots read tables of MySQL and MariaDB.",
            )
        found = {table.table: table for table in source.snapshot_tables(dict.fromkeys(tables, where))}
        for finding in source.snapshot_findings():
            if finding.level is Level.ERROR:
                raise SnapshotRefusedError(
                    f"{finding.subject}: {finding.message}", hint=finding.hint, code=finding.code
                )
    if unknown := [name for name in tables if name not in found]:
        raise ConfigError(
            f"flow {flow.name} has no table {', '.join(unknown)}",
            hint=f"Its tables are {', '.join(found) or 'none'}: write DATABASE.TABLE.",
        )
    wanted = [found[name] for name in dict.fromkeys(tables) or found]
    return Snapshot(1 if last is None else last.number + 1, "request", services.clock.now(), tuple(wanted))


def first_words(flow: Flow, services: Services) -> str:
    """Say how the first snapshot of a flow comes about."""
    if services.store.load(flow.name) is not None:
        return f"`databus snapshot begin {flow.name}` reads its tables."
    if flow.source.begins_with_snapshot():
        return "its first run begins with the rows that its tables hold."
    return (
        "let it run once, and begin one then; or leave `start` and `snapshot` out of its source: it begins with rows."
    )


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
