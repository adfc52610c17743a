"""Receipts of a sink's writers, and the rows they reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHECK = "check"
"""Stage of rows that a check holds back; any other stage is the name of the sink that refused them."""


@dataclass(frozen=True)
class RejectedRow:
    """A row held back, with all that is needed to look at it and to replay it once.

    Attributes:
        event_id: unique id of the row change.
        table: `database.table`.
        key: canonical key JSON, None without a key.
        cause: check name or the sink's error, e.g. "not_null(order_id)" or "mapper_parsing_exception: …".
        stage: "check" or the sink's name.
        position: file:pos of the transaction's end.
        payload: JSON of op, before and after.
    """

    event_id: str
    table: str
    key: str | None
    cause: str
    stage: str
    position: str
    payload: str


@dataclass(frozen=True)
class WriteReceipt:
    """Write receipt of one writer (slot) of a sink.

    Attributes:
        sink: sink name.
        slot: number of the slot.
        batch: batch number.
        written: records written to the sink, not rows: a delete and its tombstone are two.
        rows: rows dispatched by table.
        rejected: rows the sink refused for good, or its own transforms hold back.
        outputs: per output ("topic[partition]" or index) JSON facts: first and last offset, counts by outcome; "" has
            what is told of no output, such as rows that the sink's own transforms leave out.
        duplicate: the marker showed that an earlier attempt had already written this batch; nothing was written now.
        vanished: rows that an earlier attempt of the batch had written (or rejected) and that the source's log did not
            hold any more at the last one. `written` and `outputs` count their records, `rows` does not.
    """

    sink: str
    slot: int
    batch: int
    written: int
    rows: Mapping[str, int] = field(default_factory=dict)
    rejected: tuple[RejectedRow, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    duplicate: bool = False
    vanished: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; rejected rows are counted, not repeated, and `vanished` is left out where it is 0."""
        return {
            "sink": self.sink,
            "slot": self.slot,
            "batch": self.batch,
            "written": self.written,
            "rows": dict(self.rows),
            "rejected": len(self.rejected),
            "outputs": {name: dict(facts) for name, facts in sorted(self.outputs.items())},
            "duplicate": self.duplicate,
            **({"vanished": self.vanished} if self.vanished else {}),
        }


def outputs_told(receipt: Mapping[str, Any]) -> dict[str, None]:
    """Return the outputs that a receipt's JSON names, without what it tells of none."""
    return {name: None for name in receipt.get("outputs", {}) if name}
