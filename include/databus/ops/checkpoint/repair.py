"""Repair of what a move of the checkpoint passes over: a snapshot of all tables that begins in the same step."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from databus.checkpoints.codec import check_size, encode
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.protocols.source import Source
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.runtime.context import Services

log = logging.getLogger(__name__)

_ACCESS = "source_access_denied"

NOT_MENDED = (
    "rows that were deleted in the range are in no table: they stay in the sinks, and `databus validate {flow}` names "
    "them; changes in between are not sent, each row comes as it stands"
)


def tables_of(flow: Flow, source: Source, conditions: Mapping[str, str]) -> dict[str, TableProgress]:
    """Return table → progress of the flow's tables, none begun.

    Args:
        flow: the flow.
        source: its source, opened.
        conditions: table → condition in SQL that its rows must meet.

    Raises:
        ConfigError: the source has no snapshots.
        SnapshotConditionError: a condition is none, or the server refuses it.
        SnapshotRefusedError: a setting or a grant is missing.
        SourceError: the tables cannot be listed.
    """
    if not isinstance(source, SnapshotSource):
        raise ConfigError(
            f"flow {flow.name}: a source of kind {flow.source.kind} has no snapshots",
            hint="Snapshots read tables of MySQL and MariaDB.",
        )
    found = {table.table: table for table in source.snapshot_tables(conditions)}
    require_readable(source.snapshot_findings())
    return found


def require_readable(findings: Sequence[Finding]) -> None:
    """Stop on the first ERROR finding of a snapshot; say which tables the account may not be shown.

    Raises:
        SnapshotRefusedError: of the finding's code.
    """
    for finding in findings:
        if finding.level is Level.ERROR:
            raise SnapshotRefusedError(f"{finding.subject}: {finding.message}", hint=finding.hint, code=finding.code)
    tell_hidden_tables(findings)


def hidden_tables(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings by which tables of a pattern may be hidden from the account."""
    return [finding for finding in findings if finding.level is Level.WARN and finding.code == _ACCESS]


def tell_hidden_tables(findings: Sequence[Finding]) -> None:
    """Log that tables of a pattern may be hidden from the account: nothing of them is read or compared."""
    for finding in hidden_tables(findings):
        log.warning("%s: %s %s", finding.subject, finding.message, finding.hint)


def all_rows(tables: Iterable[TableProgress]) -> tuple[TableProgress, ...]:
    """Return tables to be read whole, whatever the flow's options leave out of a snapshot: its stream has all rows."""
    return tuple(replace(table, where="") for table in tables)


def repair_of(flow: Flow, services: Services, source: Source) -> Snapshot:
    """Return the snapshot that would mend what a move of the checkpoint passes over; changes nothing.

    Of all tables and all rows: nobody can tell which ones a log that is gone has changed.

    Raises:
        ConfigError: the source has no snapshots, or the flow's patterns fit no table.
        CheckpointTooLargeError: it has too many tables for one write.
        SnapshotRefusedError, SourceError: as `tables_of`.
    """
    tables, last = tables_of(flow, source, {}), services.store.snapshot(flow.name)
    if not tables:
        raise ConfigError(
            f"flow {flow.name}: there is no table that a snapshot could read", hint="Pass over it without --repair."
        )
    number = 1 if last is None else last.number + 1
    made = Snapshot(number, "repair", services.clock.now(), all_rows(tables.values()))
    check_size(2 * len(encode(made.to_json())), f"flow {flow.name}: a snapshot of {len(tables)} tables")
    return made


def repair_facts(flow: str, snapshot: Snapshot) -> dict[str, Any]:
    """Return what a repair would read, and what it cannot mend, as plain JSON."""
    rows = sum(table.estimate or 0 for table in snapshot.tables)
    return {
        "snapshot": snapshot.number,
        "reads": f"{counted(len(snapshot.tables), 'table')}, about {counted(rows, 'row')}",
        "tables": {table.table: table.estimate for table in snapshot.tables},
        "not_mended": NOT_MENDED.format(flow=flow),
    }
