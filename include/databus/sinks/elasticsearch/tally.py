"""Counting what became of each row, for the receipt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from databus.core.batches.counts import APPLIED
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.sinks.elasticsearch.bulk import ItemResult, Outcome

if TYPE_CHECKING:
    from databus.sinks.elasticsearch.documents import RowWrite

_WRITTEN = tuple(o.value for o in (Outcome.CREATED, Outcome.UPDATED, Outcome.DELETED, Outcome.NOOP))

EMPTIED = "emptied"
"""Fact of an output: how many statements emptied its table."""


class DocumentTally:
    """Counts of one slot's rows: by table, and by index and outcome."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._rows: Counter[str] = Counter()
        self._outputs: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._rejected: list[RejectedRow] = []
        self._statements = 0
        self.refused: defaultdict[str, list[RejectedRow]] = defaultdict(list)
        """Index → rows that the server refused; those that were not sent are not among them."""

    def read(self, table: str) -> None:
        """Count a row that came in."""
        self._rows[table] += 1

    def statement(self, table: str) -> None:
        """Count a statement that came in: a row of the log that becomes no document."""
        self._rows[table] += 1
        self._statements += 1

    def settled(self, result: ItemResult) -> None:
        """Count a row that was sent, and those before it of its document, which are dropped unless it was refused."""
        write = result.write
        facts = self._outputs[write.index]
        facts[result.outcome.value] += 1
        if result.outcome is Outcome.REJECTED:
            self._rows[write.table] -= 1
            row = rejected_row(write, result.cause, self._sink)
            self._rejected.append(row)
            if not write.refusal:
                self.refused[write.index].append(row)
            return
        older = write.superseded
        while older is not None:
            facts["superseded"] += 1
            older = older.superseded

    def over(self, index: str) -> None:
        """Count a row that is not sent, because its table was emptied by a later statement."""
        self._outputs[index][Outcome.CONFLICT_NEWER.value] += 1

    def cleared(self, index: str, outcomes: Mapping[str, int]) -> None:
        """Count a statement that emptied a table, and what became of the documents."""
        facts = self._outputs[index]
        facts.update(outcomes)
        facts[EMPTIED] += 1

    def receipt(self, slot: int, batch: int, retries: int) -> WriteReceipt:
        """Return the receipt.

        `outputs` holds, per index, the numbers of items created, updated, deleted, noop, not_found (deletes of
        documents that were not there), conflict_newer (a newer version was there) and rejected, of rows superseded
        inside the batch, and of statements that emptied the table; under "" the numbers of retries and of statements
        among `rows`, when there were any.
        """
        outputs = {index: dict(facts) for index, facts in sorted(self._outputs.items())}
        whole = {name: count for name, count in (("retries", retries), (APPLIED, self._statements)) if count}
        if whole:
            outputs[""] = whole
        return WriteReceipt(
            sink=self._sink,
            slot=slot,
            batch=batch,
            written=sum(facts[outcome] for facts in self._outputs.values() for outcome in _WRITTEN),
            rows={table: count for table, count in sorted(self._rows.items()) if count},
            rejected=tuple(self._rejected),
            outputs=outputs,
        )


def rejected_row(write: RowWrite, cause: str, sink: str) -> RejectedRow:
    """Return the quarantined form of a row that the server refused."""
    batch, number = write.row
    row = {name: batch.column(name)[number].as_py() for name in ("event_id", "key", "op", "document", "before")}
    before = _json_text(row["before"])
    return RejectedRow(
        event_id=row["event_id"],
        table=write.table,
        key=row["key"].decode(),
        cause=cause,
        stage=sink,
        position=":".join(str(part) for part in write.transaction),
        payload=f'{{"op":"{row["op"]}","before":{before},"after":{row["document"] or "null"}}}',
    )


def _json_text(value: dict[str, bytes] | bytes | None) -> str:
    """Return an image as JSON: it comes as a VARIANT, and in the direct lane as text."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.decode()
    from pyspark.sql.types import VariantVal

    text: str = VariantVal(value["value"], value["metadata"]).toJson()
    return text
