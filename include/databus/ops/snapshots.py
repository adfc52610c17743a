"""Snapshots of a flow's tables: begun by a person, shown, paused, resumed and cancelled while the stream goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from databus.core.errors.config import ConfigError
from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Level
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.snapshot import Snapshot, TableProgress
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
        SnapshotRefusedError: a setting or a grant is missing.
        SourceError: the tables cannot be listed.
    """
    if where and len(tables) != 1:
        raise ConfigError("a condition is of one table", hint="Name it with --table DATABASE.TABLE.")
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with closing(flow.source.open(services.connections, context)) as source:
        if not isinstance(source, SnapshotSource):
            raise ConfigError(
                f"flow {flow.name}: a source of kind {flow.source.kind} has no snapshots",
                hint="Snapshots read tables of MySQL and MariaDB.",
            )
        found = {table.table: table for table in source.snapshot_tables()}
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
    wanted: list[TableProgress] = [replace(found[name], where=where) for name in tables or found]
    last = services.store.snapshot(flow.name)
    return Snapshot(1 if last is None else last.number + 1, "request", services.clock.now(), tuple(wanted))


def begin(flow: Flow, services: Services, snapshot: Snapshot, said: Attribution) -> Snapshot:
    """Begin a snapshot: batches of the flow take its chunks along from the next one on.

    Raises:
        SnapshotUnfinishedError: another one is unfinished.
        CheckpointError: the flow has no checkpoint yet, or the store cannot be used.
    """
    return services.store.begin_snapshot(flow.name, None, snapshot, said.who, said.why)
