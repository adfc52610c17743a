"""Markerless sinks' base: one or more slots, nothing to prepare, rows as Debezium-style JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import WriteReceipt
from databus.core.events import Op
from databus.core.findings import Finding
from databus.core.protocols.optional_sink import DirectEncoder
from databus.core.protocols.sink import SlotWriter
from databus.core.state.amendments import SinkEffect
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.sinks import envelope, envelope_text
from databus.sinks.collect_rows import Address, Deliver, Mailbox

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("event_id", "database", "table", "key", "log", "place", "ordinal", "part", "route", "op")
"""Columns of the encoded rows as in `ROW_COLUMNS`; `slot` int and, where rows are sent home, `value` stand before."""


class UnmarkedSink:
    """An open sink whose rows are counted, and sent to the control process where `deliver` is given."""

    def __init__(self, name: str, deliver: Deliver | None = None, limit: int | None = None):
        self._name = name
        self._limit = limit
        self._mailbox = Mailbox(deliver) if deliver else None

    def preflight(self) -> Sequence[Finding]:
        """Return nothing: there is no server."""
        return ()

    def accepts(self) -> frozenset[str]:
        """Return every operation; a row that the source filtered is none."""
        return frozenset(op.value for op in Op if op is not Op.FILTERED)

    def prepare(self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]]) -> SinkPlan:  # noqa: ARG002
        """Return a plan with one slot; there is nothing to make."""
        return SinkPlan()

    def wrote_any_of(self, plan: Plan) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False: a batch written again replaces itself."""
        return False

    def abandon(self, plan: Plan) -> Mapping[int, str]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: there are no markers to close."""
        return {}

    def fence(self, plan: Plan) -> None:  # noqa: ARG002 - the protocol's signature
        """Return None: there are no markers, so no writer to keep from them."""
        return

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:  # noqa: ARG002 - it promises nothing
        """Say what a move of the checkpoint does."""
        return SinkEffect(self._name, "rows come again" if back else "the rows passed over never come")

    def encode(self, rows: Any, plan: Plan) -> Any:
        """Return the DataFrame of `COLUMNS`, with `value` where the rows are sent home."""
        from pyspark.sql import functions as f

        value = [envelope.debezium(plan).alias("value")] if self._mailbox else []
        return rows.select(f.lit(0).alias("slot"), *value, *COLUMNS)

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the encoder of the direct lane; it gives the same columns."""
        return UnmarkedEncoder(plan, valued=self._mailbox is not None)

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the plan's writer."""
        return UnmarkedWriter(self._name, plan.batch, self._mailbox.address if self._mailbox else None, self._limit)

    def close(self) -> None:
        """Close the mailbox; safe to call twice."""
        if self._mailbox:
            self._mailbox.close()


@dataclass(frozen=True)
class UnmarkedEncoder:
    """Chooses the columns of the rows, in the reader's task.

    Attributes:
        plan: the plan.
        valued: whether rows are sent home, and need their value.
    """

    plan: Plan
    valued: bool

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:  # noqa: ARG002 - there is one slot only
        """Return `COLUMNS`, with `value` where the rows are sent home."""
        chosen = rows.select(list(COLUMNS))
        if not self.valued:
            return chosen
        return chosen.append_column("value", envelope_text.debezium(rows, self.plan).cast("string"))


@dataclass(frozen=True)
class UnmarkedWriter:
    """Counts rows and sends them home; at least once, a batch written again is known by its number.

    Attributes:
        sink: sink name.
        batch: batch number.
        address: where rows are sent, None to count only.
        limit: rows sent per batch and slot at most, None for all; all are counted.
    """

    sink: str
    batch: int
    address: Address | None = None
    limit: int | None = None

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Count all rows and deliver them.

        Raises:
            SinkUnavailableError: the control process does not answer.
        """
        counts: Counter[str] = Counter()
        records: list[dict[str, Any]] = []
        for batch in rows:
            counts.update(_by_table(batch))
            if self.address is not None:
                room = batch.num_rows if self.limit is None else max(self.limit - len(records), 0)
                records += [_record(row) for row in batch.slice(0, room).to_pylist()]
        if self.address is not None:
            self.address.send(self.batch, slot, records)
        written = sum(counts.values())
        return WriteReceipt(
            self.sink, slot, self.batch, written, dict(counts), outputs={self.sink: {"records": written}}
        )


def _by_table(batch: pa.RecordBatch) -> dict[str, int]:
    """Return `database.table` → rows."""
    import numpy as np

    databases, tables = (batch[name].dictionary_encode() for name in ("database", "table"))
    pairs = np.asarray(databases.indices).astype(np.int64) * len(tables.dictionary) + np.asarray(tables.indices)
    found = np.bincount(pairs)
    names = [f"{d}.{t}" for d in databases.dictionary.to_pylist() for t in tables.dictionary.to_pylist()]
    return {names[pair]: int(found[pair]) for pair in np.flatnonzero(found).tolist()}


def _record(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "route": row["route"],
        "event_id": row["event_id"],
        "key": None if row["key"] is None else row["key"].decode(),
        "value": row["value"],
    }
