"""Row counts of a batch by outcome and table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.events import RowState
from databus.core.stored_form import Form

STATEMENTS = "(statements)"
"""Name under which TRUNCATE and DDL are counted among tables: they belong to no schema of the plan."""

APPLIED = "statements"
"""Fact under "" in the outputs of a receipt: how many of its `rows` are statements, which became no document."""

LEFT_OUT = "filtered"
"""Fact beside it: how many rows the sink's own transforms left out; they are in no other count of the sink."""

COUNTS = Form("counts", "read filtered quarantined dispatched", "superseded snapshot", part=True)


@dataclass(frozen=True)
class SinkCounts:
    """Rows at one sink, whatever the others made of them; together they are what it was given.

    Attributes:
        dispatched: rows that it confirmed.
        rejected: rows that it refused, or that its own transforms hold back; they are in quarantine.
        statements: TRUNCATEs and DDL that it took and that became no document; 0 for sinks to which they are records
            as others, and in what was written before they were distinguished: there they count as dispatched.
        filtered: rows that its own transforms left out.
    """

    dispatched: int = 0
    rejected: int = 0
    statements: int = 0
    filtered: int = 0

    @classmethod
    def of(cls, rows: Mapping[str, int], rejected: int, outputs: Mapping[str, Mapping[str, Any]]) -> SinkCounts:
        """Count what a receipt confirms: its rows by table, the number it refused, its outputs."""
        statements, filtered = (int(outputs.get("", {}).get(fact, 0)) for fact in (APPLIED, LEFT_OUT))
        return cls(sum(rows.values()) - statements, rejected, statements, filtered)

    def plus(self, other: SinkCounts) -> SinkCounts:
        """Return the sum."""
        return SinkCounts(
            self.dispatched + other.dispatched,
            self.rejected + other.rejected,
            self.statements + other.statements,
            self.filtered + other.filtered,
        )

    def to_json(self) -> dict[str, int]:
        """Return plain JSON; statements and rows left out where there were any."""
        others = {"statements": self.statements, "filtered": self.filtered}
        applied = {name: rows for name, rows in others.items() if rows}
        return {"dispatched": self.dispatched, "rejected": self.rejected, **applied}


def by_sink(sinks: Mapping[str, SinkCounts]) -> str:
    """Say in words what each sink took and refused, "" without any."""
    return ", ".join(
        f"{name} took {counts.dispatched}"
        + (f" besides {counts.statements} statements" if counts.statements else "")
        + (f" and refused {counts.rejected}" if counts.rejected else "")
        + (f" (its own transforms left {counts.filtered} out)" if counts.filtered else "")
        for name, counts in sorted(sinks.items())
    )


def state_of(sinks: Iterable[SinkCounts], quarantined: int, lost: int) -> str:
    """Say whether all rows of a run went where they were to go: "lost", "rejected", "quarantined" or "ok".

    A run is described by this alone, by its window, its audit and its page.

    Args:
        sinks: what each sink took and refused: "rejected" where one refused a row, also where checks held back others.
        quarantined: rows held back, by a check or by a sink: "quarantined" where no sink refused any.
        lost: ranges that were passed over unread: "lost", whatever else, for no quarantine has these rows.
    """
    rejected = any(counts.rejected for counts in sinks)
    return "lost" if lost else "rejected" if rejected else "quarantined" if quarantined else "ok"


@dataclass(frozen=True)
class TableCounts:
    """Rows of one table by where they ended.

    Attributes:
        read: rows read; always filtered + quarantined + dispatched + superseded.
        filtered: dropped by a filter or not routed to any sink.
        quarantined: held back by a check, or refused by at least one sink; each row once, however many refused it.
        dispatched: confirmed by every sink that takes it. What a single sink took stands in its receipts.
        superseded: read by a snapshot and left out, for the batch's own range of the log has a change of the row.
        snapshot: how many of the rows read a snapshot brought, superseded ones among them; the log has the others.
    """

    read: int = 0
    filtered: int = 0
    quarantined: int = 0
    dispatched: int = 0
    superseded: int = 0
    snapshot: int = 0

    @property
    def reconciled(self) -> bool:
        """Return whether every row read is accounted for."""
        return self.read == self.filtered + self.quarantined + self.dispatched + self.superseded

    @property
    def figures(self) -> dict[str, int]:
        """Figures by name, as people and programs are shown them; those of snapshots only where there are any."""
        of_snapshots = {"superseded": self.superseded, "snapshot": self.snapshot}
        return {
            "read": self.read,
            RowState.FILTERED: self.filtered,
            RowState.QUARANTINED: self.quarantined,
            RowState.DISPATCHED: self.dispatched,
            **{name: rows for name, rows in of_snapshots.items() if rows},
        }

    def __str__(self) -> str:
        """Return the sum as every summary shows it: "read 12 = filtered 1 + quarantined 1 + dispatched 10".

        Superseded rows are named where there are any.
        """
        equals = "=" if self.reconciled else "≠"
        parts = f"filtered {self.filtered} + quarantined {self.quarantined} + dispatched {self.dispatched}"
        parts += f" + superseded {self.superseded}" if self.superseded else ""
        return f"read {self.read} {equals} {parts}"

    def plus(self, other: TableCounts) -> TableCounts:
        """Return the sum."""
        return TableCounts(
            self.read + other.read,
            self.filtered + other.filtered,
            self.quarantined + other.quarantined,
            self.dispatched + other.dispatched,
            self.superseded + other.superseded,
            self.snapshot + other.snapshot,
        )

    def to_json(self) -> dict[str, int]:
        """Return plain JSON as it is stored; as `figures`, with its version where that is not the first."""
        return COUNTS.write(self.figures)

    @classmethod
    def total(cls, counts: Iterable[TableCounts]) -> TableCounts:
        """Return the sum over tables, or batches."""
        total = cls()
        for each in counts:
            total = total.plus(each)
        return total

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> TableCounts:
        """Read what `to_json` wrote."""
        data = COUNTS.read(data)
        later = data.get("superseded", 0), data.get("snapshot", 0)
        return cls(data["read"], data["filtered"], data["quarantined"], data["dispatched"], *later)
