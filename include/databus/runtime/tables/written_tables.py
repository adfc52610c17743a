"""Tables as sinks get them: the columns that a flow's transforms leave."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from databus.core.flow import Flow
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of

log = logging.getLogger(__name__)


def written_tables(flow: Flow, tables: Sequence[TableSchema], *, compared: bool = False) -> tuple[TableSchema, ...]:
    """Return the tables as the transforms leave them; without columns where a transform does not tell.

    The primary key stays the source's: it is that of the record.

    Args:
        flow: the flow.
        tables: as the source reads them.
        compared: whether a comparison tells of columns that are missing, so that nothing is logged of them.
    """
    if not flow.transforms:
        return tuple(tables)
    changes = FrameChanges(
        None, tuple(tables), {table.schema_id: fields_of(table) for table in tables}, compared=compared
    )
    try:
        for spec in flow.transforms:
            changes = spec.columns_after(changes)  # type: ignore[assignment] # the only implementation
    except Exception as error:  # noqa: BLE001 - of any user's transform; where it matters, reading raises it again
        log.debug("flow %s: columns behind the transforms are not known: %s", flow.name, error)
        return tuple(replace(table, columns=()) for table in tables)
    return tuple(
        replace(table, columns=tuple(field.column for field in changes.fields[table.schema_id])) for table in tables
    )
