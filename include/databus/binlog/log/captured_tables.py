"""The captured tables of a walk: their schemas in order of first appearance, and the row changes of rows events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.arena import kernel_columns
from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.decoding.versioned_rows import delivered_counts
from databus.binlog.kernels.images import C_WIDTH
from databus.binlog.kernels.walk import R_AT, R_SLOT
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.row_counting import count_events
from databus.binlog.log.tablemap import TableMap
from databus.binlog.log.walk import as_buffer
from databus.core.errors.source import DecodeError
from databus.core.tables.schemas import TableSchema

Ints = npt.NDArray[np.int64]


class CapturedTables:
    """Numbers the schemas of captured tables; one numbering for all files of a range."""

    def __init__(self, capture: TableCapture):
        self._capture = capture
        self._ids = SchemaIds()
        self._slots: list[TableMap] = []
        self._known = 0
        self._schema_of = np.empty(0, np.int64)
        self._columns = np.zeros((0, C_WIDTH), np.int64)
        self._places = np.zeros((0, 2), np.int64)

    @property
    def schemas(self) -> tuple[TableSchema, ...]:
        """Schemas by number."""
        return self._ids.schemas

    def count(self, events: npt.NDArray[np.uint8], rows: Ints, slots: list[TableMap], file: str) -> tuple[Ints, Ints]:
        """Return per rows event the schema number of its table, −1 when it is not captured, and its row changes.

        Args:
            events: raw events.
            rows: R_… lines that point into them.
            slots: tables by R_SLOT; a list that grows during a file, and another one for the next file.
            file: log file, for messages.

        Raises:
            DecodeError: an event does not fit its table, or the table cannot be decoded.
        """
        self._learn(slots)
        rows = np.ascontiguousarray(rows)
        slot = rows[:, R_SLOT]
        schemas = (
            np.where(slot >= 0, self._schema_of[slot], -1) if len(self._schema_of) else np.full(len(rows), -1, np.int64)
        )
        marked = rows.copy()
        marked[schemas < 0, R_SLOT] = -1
        counts = np.zeros(len(rows), np.int64)
        bad = int(count_events(as_buffer(events), marked, self._columns, self._places, counts))
        if bad >= 0:
            table = slots[int(slot[bad])]
            raise DecodeError(
                f"{file}: a rows event of {table.full_name} does not fit its table "
                f"(at byte {rows[bad, R_AT]} of a batch)"
            )
        for number, table in enumerate(slots):
            if table.period is not None and self._schema_of[number] >= 0:
                chosen = np.flatnonzero(slot == number)
                counts[chosen] = delivered_counts(as_buffer(events), table, rows[chosen], file)
        return schemas, counts

    def _learn(self, slots: list[TableMap]) -> None:
        if slots is not self._slots:
            self._slots, self._known = slots, 0
            self._schema_of = np.empty(0, np.int64)
            self._columns, self._places = np.zeros((0, C_WIDTH), np.int64), np.zeros((0, 2), np.int64)
        new = slots[self._known :]
        if not new:
            return
        numbers, columns, places = [], [self._columns], []
        lines = len(self._columns)
        for table in new:
            captured = self._capture(table.database, table.table)
            numbers.append(self._number(table) if captured else -1)
            count = len(table.columns) if captured else 0
            places.append((lines, count))
            if captured:
                columns.append(kernel_columns(table.columns))
                lines += count
        self._schema_of = np.concatenate((self._schema_of, np.array(numbers, np.int64)))
        self._columns = np.concatenate(columns)
        self._places = np.concatenate((self._places, np.array(places, np.int64)))
        self._known = len(slots)

    def _number(self, table: TableMap) -> int:
        refusal = table.refusal()
        if refusal is not None:
            raise DecodeError(refusal[0], hint=refusal[1])
        return self._ids.number(table.to_schema(-1)).schema_id
