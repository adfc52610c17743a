"""Row change, as a consumer gets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from databus.core.events import Op

Place = tuple[str, int]
"""Topic and partition."""
Row = dict[str, Any]
"""Column → value."""
Form = Literal["iso", "debezium", "schema", "maxwell", "canal"]
"""Format of values: databus's own JSON, Debezium's types without and with schemas, Maxwell's, Canal's."""
RowClass = TypeVar("RowClass")
WHOLE = "e"
"""Operation of the change that says that the state of a partition is whole."""


class Message(Protocol):
    """Kafka record, as confluent-kafka gives it."""

    def topic(self) -> str:
        """Return the topic."""
        ...

    def partition(self) -> int:
        """Return the partition."""
        ...

    def offset(self) -> int:
        """Return the offset."""
        ...

    def key(self) -> bytes | None:
        """Return the key."""
        ...

    def value(self) -> bytes | None:
        """Return the value."""
        ...

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Return the headers."""
        ...


class Change:
    """Row change, or a statement (TRUNCATE, schema change).

    Numbers with a fraction are `Decimal`, never float. Bytes are base64 text, except where the record says its types
    (Debezium with schemas, Canal, Avro): bytes there. Dates and times are ISO texts, with schemas `datetime` values.

    Attributes:
        op: "c" insert, "u" update, "d" delete, "r" read by a snapshot or from a state topic, "t" TRUNCATE, "m" schema
            change, "e" end of a partition's state (it has no row).
        table: "database.table"; "" where the record does not say it (plain rows without the header `table`).
        before: row before the change; None without. Maxwell and Canal write of an update the values that changed, and
            of them `before` has these and the key.
        after: row after the change; None of a delete.
        event_id: unique for ever, the same at each repeat; of other connectors TOPIC:PARTITION:OFFSET.
        ts_ms: commit time at the source, ms since the epoch; None where the record does not say it.
        position: "file:pos" of the end of the transaction; "" where the record does not say it.
        gtid: GTID of the transaction; "" without.
        transaction: id of the source's transaction; "" of rows that belong to none (snapshots, replays).
        order: number of the change in its transaction, from 1; 0 without.
        flags: values that are not as their column says, "IMAGE.COLUMN:REASON" (docs/reference/messages.md#flags).
        query: statement of a TRUNCATE or schema change; "" of rows.
        form: how its values are written.
        state: number of the state that it belongs to, of the flow's state topic; 0 of changes of the stream alone.
    """

    __slots__ = (
        "_key",
        "_message",
        "_owner",
        "after",
        "before",
        "event_id",
        "flags",
        "form",
        "gtid",
        "op",
        "order",
        "position",
        "query",
        "state",
        "table",
        "transaction",
        "ts_ms",
    )

    def __init__(self, message: Message, op: str, table: str, before: Row | None, after: Row | None):
        """Make a change; the further attributes are set by the reader of its form."""
        self._message = message
        self._key: Mapping[str, Any] | None = None
        self._owner: Any = None
        self.op, self.table, self.before, self.after = op, table, before, after
        self.event_id = self.position = self.gtid = self.transaction = self.query = ""
        self.ts_ms: int | None = None
        self.order = self.state = 0
        self.flags: Sequence[str] = ()
        self.form: Form = "iso"

    @property
    def topic(self) -> str:
        """Topic of the record."""
        return self._message.topic()

    @property
    def partition(self) -> int:
        """Partition of the record."""
        return self._message.partition()

    @property
    def offset(self) -> int:
        """Offset of the record."""
        return self._message.offset()

    @property
    def key(self) -> Mapping[str, Any] | None:
        """Primary key, column → value; None without."""
        if self._key is None and (raw := self._message.key()) is not None:
            from databus.consumer.json_text import key_of

            self._key = key_of(raw, self)
        return self._key

    def set_key(self, key: Mapping[str, Any] | None) -> None:
        """Take the key as its reader has it, instead of the record's bytes as JSON."""
        self._key = key

    @property
    def row(self) -> Row | None:
        """Row after the change, of a delete the one before it; None of a statement."""
        return self.before if self.after is None else self.after

    @property
    def deleted(self) -> bool:
        """True for a row that is gone."""
        return self.op == Op.DELETE

    def as_row(self, kind: type[RowClass], image: Literal["row", "before", "after"] = "row") -> RowClass | None:
        """Return the row as a dataclass or a pydantic model.

        Fields take columns of their name; other columns are left out. Values are turned into the field's type: Decimal,
        datetime, date, time, timedelta, bytes, bool, int, float, str, dict and list (of a JSON column).

        Args:
            kind: the class.
            image: which row: `row`, `before` or `after`.

        Returns:
            The row; None where there is none.

        Raises:
            RowTypeError: a column that the class needs is absent, or a value does not fit.
        """
        values: Row | None = getattr(self, image)
        if values is None:
            return None
        from databus.consumer.typed_rows import typed_row

        row: RowClass = typed_row(values, kind, self)
        return row

    def __repr__(self) -> str:
        return f"Change({self.op} {self.table} {self.topic}:{self.partition}:{self.offset} {self.event_id})"


@dataclass(frozen=True)
class Transaction:
    """Transaction of the source, complete or said to be incomplete.

    Attributes:
        id: GTID, or file:pos of its end; "" of a change that belongs to none (a snapshot's row, a replayed one), which
            comes alone.
        changes: its changes in the order of the log; those that filters leave out are not in it. Of a large
            transaction they are read from disk as they are iterated.
        complete: whether all of the source's transaction that the flow writes is here.
        why: what is missing; "" of a complete one.
        ts_ms: commit time, ms since the epoch; None where no record says it.
        expected: records that END counts; None where END is missing.
        quarantined: its rows that checks of the flow hold back.
    """

    id: str
    changes: Sequence[Change]
    complete: bool
    why: str = ""
    ts_ms: int | None = None
    expected: int | None = None
    quarantined: int = 0

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)
