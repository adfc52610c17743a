"""Table ids and the tables they stand for, along one log file: the walk's kernel looks them up, TABLE_MAP sets them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import walk as w
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.log.tablemap import TableMap, parse_table_map
from databus.binlog.log.walk import WalkPlace, as_buffer
from databus.binlog.schema_history.definitions import Definitions

Ints = npt.NDArray[np.int64]


class TableBindings:
    """The table ids bound so far.

    Attributes:
        slots: the tables met; lines of rows events count them.
        lines: int64[n, B_WIDTH], a hash table by table id that the kernel reads.
        bodies: TABLE_MAP bodies that the kernel compares further ones with.
    """

    def __init__(self, slots: list[TableMap], definitions: Definitions | None, place: WalkPlace) -> None:
        """Bind nothing yet.

        Args:
            slots: takes the tables met.
            definitions: adds to tables what TABLE_MAP events leave open; None where the log says it all.
            place: the event that is bound.
        """
        self.slots, self._definitions, self._place = slots, definitions, place
        self.lines: Ints = np.full((64, w.B_WIDTH), -1, dtype=np.int64)
        self._known: dict[bytes, int] = {}
        self._slot_of: dict[TableMap, int] = {}
        self._bound = 0
        self._store = np.empty(1 << 14, dtype=np.uint8)
        self.bodies = as_buffer(self._store)
        self._stored = 0

    def bind(self, body: bytes, flavor: str) -> None:
        """Bind a table id to the table its TABLE_MAP describes; ids of one and the same table share a slot.

        Args:
            body: the event's body.
            flavor: "mysql" or "mariadb".

        Raises:
            DecodeError, ValueError, KeyError, IndexError: the body cannot be read.
            SchemaUnknownError: what it leaves open cannot be determined.
        """
        slot = self._known.get(body[8:])
        if slot is None:
            slot = self._slot(body, flavor)
            self._known[body[8:]] = slot
        if 2 * self._bound >= len(self.lines):
            self._grow()
        table_id = int.from_bytes(body[:6], "little")
        line = self.lines[w.find_binding(self.lines, table_id)]
        self._bound += int(line[w.B_ID] == -1)
        line[:] = (table_id, slot, self._keep(body), len(body))

    def redefine(self, query: QueryEvent, end_pos: int) -> None:
        """Pass a definition statement on; what a TABLE_MAP stands for may be another table from here on."""
        if self._definitions is None:
            return
        self._definitions.follow(query, self._place.file, end_pos)
        self._known = {}
        self.lines[:] = -1
        self._bound = self._stored = 0

    def _slot(self, body: bytes, flavor: str) -> int:
        table = parse_table_map(body, str(self._place), flavor)
        if self._definitions is not None:
            table = self._definitions.complete(table, flavor, self._place.file, self._place.pos)
            slot = self._slot_of.setdefault(replace(table, table_id=0), len(self.slots))
            if slot < len(self.slots):
                return slot
        self.slots.append(table)
        return len(self.slots) - 1

    def _keep(self, body: bytes) -> int:
        """Copy a TABLE_MAP body to where the kernel compares later ones with it; returns its offset there."""
        at = self._stored
        if at + len(body) > len(self._store):
            larger = np.empty(2 * (at + len(body)), dtype=np.uint8)
            larger[:at] = self._store[:at]
            self._store, self.bodies = larger, as_buffer(larger)
        self._store[at : at + len(body)] = np.frombuffer(body, dtype=np.uint8)
        self._stored = at + len(body)
        return at

    def _grow(self) -> None:
        old = self.lines[self.lines[:, w.B_ID] != -1]
        self.lines = np.full((4 * len(self.lines), w.B_WIDTH), -1, dtype=np.int64)
        for line in old:
            self.lines[w.find_binding(self.lines, int(line[w.B_ID]))] = line
