"""Boundaries of the source's transactions, as a sink writes them beside rows."""

from __future__ import annotations

from typing import NamedTuple

from databus.core.events import END

NAMELESS_TABLE = "_ddl"
"""Stands for the table of a statement that names none or several."""

BEGIN_ORDINAL, END_ORDINAL = -1, 1 << 62
"""Ordinals of a transaction's boundaries: before its rows, and behind them."""


class TransactionBoundary(NamedTuple):
    """Beginning or end of a transaction, of what one sink writes of it.

    Attributes:
        status: `BEGIN` or `END`.
        log: as of its rows.
        place: as of its rows.
        transaction: as of its rows: the GTID, "" without.
        head: what the event ids of its rows begin with.
        ts_ms: commit time, ms since the epoch.
        server_id: as of its rows.
        collections: of an end, "database.table" → rows written, by name.
        quarantined: of an end, the transaction's rows that checks hold back.
    """

    status: str
    log: str
    place: int
    transaction: str
    head: str
    ts_ms: int
    server_id: int
    collections: tuple[tuple[str, int], ...] = ()
    quarantined: int = 0

    @property
    def id(self) -> str:
        """Id of the transaction: its GTID, without one LOG:PLACE of its end."""
        return self.transaction or f"{self.log}:{self.place}"

    @property
    def event_id(self) -> str:
        """Unique for ever: "…:begin" or "…:end"; ids of rows end with two numbers there."""
        return f"{self.head}:{self.status.lower()}"

    @property
    def ordinal(self) -> int:
        """Ordinal by which it stands before or behind the rows."""
        return END_ORDINAL if self.status == END else BEGIN_ORDINAL

    @property
    def total(self) -> int:
        """Rows written."""
        return sum(count for _, count in self.collections)

    def ended(self, collections: tuple[tuple[str, int], ...], quarantined: int) -> TransactionBoundary:
        """Return the end of the transaction that begins here."""
        return self._replace(status=END, collections=collections, quarantined=quarantined)


def event_head(event_id: str) -> str:
    """Return what the event ids of a transaction's rows have in common: they end with ordinal and part."""
    return event_id.rsplit(":", 2)[0]


def named_table(database: str, table: str) -> str:
    """Return "database.table", also of a statement without a table."""
    return f"{database}.{table or NAMELESS_TABLE}"
