"""The changes of one transaction, read again from the server's log or from kept segments."""

from __future__ import annotations

from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange
from databus.core.settings import Settings
from databus.core.trace import Change, log_number, row_of_copy
from databus.records.batch_record import BatchRecord
from databus.runtime.beside.look import look

MOST_ROWS = 1_000
"""Of one transaction; of a larger one the first are shown."""

_COLUMNS = ("op", "database", "table", "key", "log", "place", "transaction", "ordinal", "event_id", "ts_ms")


def rows_of_log(
    flow: Flow, connections: ConnectionSource, settings: Settings, batch: BatchRecord, wanted: Change
) -> list[Change]:
    """Return the changes of the transaction that has a GTID or holds a place, in log order.

    The batch's range is staged under a name of its own beside the flow's segments, and deleted.

    Args:
        flow: the flow.
        connections: where its source is.
        settings: the installation's.
        batch: the batch that moved it.
        wanted: its GTID, else its position (the first transaction that ends there or behind), else its event id.

    Raises:
        OffsetPurgedError, SourceDivergedError: the log is gone.
        SourceUnavailableError: the server does not answer.
    """
    found: list[Change] = []
    with look(flow, connections, FlowContext(flow.name, settings)) as source:
        planned = source.reopen(OffsetRange(batch.start, batch.end))
        try:
            for split in source.splits(planned, 1):
                for rows in split.read():
                    for row in rows.select(list(_COLUMNS)).to_pylist():
                        change = _change(row)
                        if not _is(change, wanted, found):
                            continue
                        found.append(change)
                        if len(found) >= MOST_ROWS:
                            return found
        finally:
            source.discard(planned)
    return found


def _is(change: Change, wanted: Change, found: list[Change]) -> bool:
    if wanted.gtid:
        return change.gtid == wanted.gtid
    if wanted.position is None or change.position is None:
        return row_of_copy(wanted.event_id) == change.event_id
    if found:
        return (change.file, change.position) == (found[0].file, found[0].position)
    theirs, mine = (c.file.rpartition(".")[2] for c in (wanted, change))
    if not (theirs.isdigit() and mine.isdigit()):
        return change.position == wanted.position
    return log_number(int(mine), change.position) >= log_number(int(theirs), wanted.position)


def _change(row: dict[str, Any]) -> Change:
    key = row["key"]
    return Change(
        event_id=row["event_id"],
        gtid=row["transaction"] or "",
        file=row["log"],
        position=row["place"],
        ordinal=row["ordinal"],
        op=row["op"],
        table=f"{row['database']}.{row['table']}",
        key=None if key is None else key.decode("utf-8", "replace"),
        ts_ms=row["ts_ms"],
    )
