"""Rows that sinks refused: how many of each table, and why, in words that hold nothing of the rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from databus.core.amounts import counted
from databus.core.batches.receipts import CHECK, RejectedRow, WriteReceipt
from databus.core.errors.sink import RecordRejectedError

MOST_CAUSES = 3
"""Causes that a message names."""

MOST_ROWS = 5
"""Rows that a message names, by their event ids."""

_LONGEST = 160
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DETAILS = (
    re.compile(r"field \[[\w.@-]{1,80}\](?: of type \[\w+\])?"),
    re.compile(r"dynamic introduction of \[[\w.@-]{1,80}\]"),
    re.compile(r"object mapping for \[[\w.@-]{1,80}\]"),
    re.compile(r"Limit of total fields \[\d+\]"),
    re.compile(r"topic [\w.-]{1,249} takes \d+"),
    re.compile(r"the after-image lacks [\w, ]{1,80}"),
)
"""Servers quote keys and values; only what is known to name a field, a type or a setting is passed on."""


@dataclass(frozen=True)
class Refusals:
    """Rows of one table that one sink refused.

    Attributes:
        sink: sink name.
        table: `database.table`.
        rows: how many.
        causes: (cause in words without row data, rows), the most frequent first.
    """

    sink: str
    table: str
    rows: int
    causes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        shown = "; ".join(f"{rows} × {cause}" for cause, rows in self.causes[:MOST_CAUSES])
        more = len(self.causes) - MOST_CAUSES
        return f"sink {self.sink} refused {counted(self.rows, 'row')} of {self.table}: {shown}" + (
            f"; and {counted(more, 'other cause')}" if more > 0 else ""
        )


def cause_class(cause: str) -> str:
    """Return a cause's kind, with the field, type or limit it names, and without keys and values of the row."""
    kind = _KIND.match(cause)
    words = kind[0] if kind else "refused"
    found = next((match[0] for detail in _DETAILS if (match := detail.search(cause))), "")
    return f"{words[:60]}: {found}"[:_LONGEST] if found else words[:60]


def kind_of_cause(stage: str, cause: str) -> str:
    """Return the kind by which held rows are grouped and told: the names of violated checks, or a sink's `cause_class`.

    Args:
        stage: "check", or the name of a sink.
        cause: as it is held.
    """
    return cause if stage == CHECK else cause_class(cause)


def refusals(receipts: Iterable[WriteReceipt]) -> list[Refusals]:
    """Return what the sinks refused, by sink and table; empty when they took all."""
    return grouped(row for receipt in receipts for row in receipt.rejected)


def grouped(rows: Iterable[RejectedRow]) -> list[Refusals]:
    """Return refused rows by sink (their stage) and table."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        found.setdefault((row.stage, row.table), Counter())[cause_class(row.cause)] += 1
    return [
        Refusals(sink, table, causes.total(), tuple(causes.most_common()))
        for (sink, table), causes in sorted(found.items())
    ]


def stopped(rows: Sequence[RejectedRow], place: str, hint: str) -> RecordRejectedError:
    """Return the error of a batch that stops for rows which a sink refused.

    Args:
        rows: all of them that are known, at least one.
        place: what of the sink refused them.
        hint: what to do.
    """
    ids = ", ".join(row.event_id for row in rows[:MOST_ROWS]) + (", …" if len(rows) > MOST_ROWS else "")
    told = "; ".join(map(str, grouped(rows)))
    error = RecordRejectedError(f"{place}: {told} (event ids: {ids})", hint=hint)
    error.sink = rows[0].stage
    return error
