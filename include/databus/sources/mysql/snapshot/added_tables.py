"""Tables added to a flow: those that its patterns mean now, and did not mean before, as far as they can be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from databus.binlog.log.capture import TableCapture
from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Level
from databus.core.state.snapshot import CaptureScope, TableProgress
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.snapshot_preflight import ACCESS, snapshot_findings
from databus.sources.mysql.snapshot.snapshot_reader import SnapshotReader
from databus.sources.mysql.snapshot_options import SnapshotOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AddedCapture(TableCapture):
    """Capture of the tables that were not captured before.

    Attributes:
        before: what was captured.
    """

    before: TableCapture | None = None

    def __call__(self, database: str, table: str) -> bool:
        """Return whether a table is captured, and was not before."""
        known = self.before is not None and self.before(database, table)
        return not known and super().__call__(database, table)


def added_tables(
    server: MysqlServer, capture: TableCapture, before: CaptureScope, options: SnapshotOptions | None
) -> Sequence[TableProgress]:
    """Return the added tables that are there, in the order of reading, none begun.

    Args:
        server: the source.
        capture: what the flow captures now.
        before: what it captured at its last claim.
        options: order of tables, their conditions.

    Raises:
        SnapshotRefusedError: a setting or a grant is missing without which they cannot be read.
        SnapshotConditionError: a condition is none, or the server refuses it.
        SourceError: the tables cannot be listed.
    """
    former = TableCapture(before.tables, before.exclude_tables, folds=capture.folds)
    added = AddedCapture(capture.include, capture.exclude, capture.folds, former)
    found = SnapshotReader(server, added, options).tables({})
    for finding in snapshot_findings(server, added):
        if finding.level is Level.ERROR and (found or finding.code == ACCESS):
            raise SnapshotRefusedError(
                f"tables were added to the flow, and cannot be read as they stand: {finding.subject}: "
                f"{finding.message}",
                hint=f'{finding.hint} snapshot="never" at the source leaves their present rows out.',
                code=finding.code,
            )
        if finding.level is Level.WARN and finding.code == ACCESS:
            log.warning("tables were added to the flow: %s: %s; %s", finding.subject, finding.message, finding.hint)
    return found
