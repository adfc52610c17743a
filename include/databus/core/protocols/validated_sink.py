"""Promise of a sink that holds the state of its rows, so that it can be compared with the source's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from databus.core.protocols.sink import Sink
from databus.core.tables.schemas import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_HELD = {"output": "string", "key": "binary", "content": "binary", "version": "string"}
"""Columns of rows that a sink holds, and their Arrow types (`held_schema`).

output: name of the topic or index. key: identity of the row in the output. content: JSON of the row's state there, as
it was written or canonical (`sinks.row_state`), without op, times, source and event id; NULL where the row was deleted
or never came. Equal bytes are equal states; others are told by their canonical form.
version: another text whenever the row was written anew, even with equal content; NULL where nothing tells it, and
always in `expected`.
"""


def held_schema() -> pa.Schema:
    """Return the Arrow schema of `ROWS_HELD`."""
    import pyarrow as pa

    return pa.schema([(name, getattr(pa, kind)()) for name, kind in ROWS_HELD.items()])


class SinkState(Protocol):
    """State of some outputs of a sink, open for reading; used by one thread at a time.

    Attributes:
        of_one_moment: whether `rows` yields what the outputs held when it was called, whatever is written meanwhile.
    """

    of_one_moment: bool

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield all that the outputs hold as `ROWS_HELD`; asked once.

        A later row of a key replaces an earlier one. All that was committed before the call is among them; rows
        without a key are left out.

        Raises:
            SinkError: the sink does not answer.
        """
        ...

    def later(self) -> Iterator[pa.RecordBatch]:
        """Yield what was written behind all that `rows` or the last `later` yielded, as far as it can be told.

        Several rows of a key are in the order of their writing.

        Raises:
            SinkError: the sink does not answer.
        """
        ...

    def look(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the sink holds now of some rows: `ROWS_HELD`, one row for each, in their order.

        All that was committed before the call is seen. A version equal to that of `rows` or of an earlier look means
        that the row was not written in between.

        Args:
            keys: columns output and key.

        Raises:
            SinkError: the sink does not answer.
        """
        ...

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        ...


@dataclass(frozen=True)
class RowOrigin:
    """Origin of a row, as the record of it says.

    Attributes:
        flow: name of the flow that wrote it.
        table: `database.table`.
    """

    flow: str
    table: str


@runtime_checkable
class OriginTellingState(SinkState, Protocol):
    """State of outputs whose records may say where their rows come from."""

    def origin(self, output: str, key: bytes) -> RowOrigin | None:
        """Return the origin of a row that a `look` was asked for, as of the last one; None where nothing says it."""
        ...


@runtime_checkable
class ValidatedSink(Sink, Protocol):
    """A sink of which can be told what it holds of each row."""

    def expected(self, encoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return the state that encoded rows (of `Sink.encode` or `DirectEncoder.encode`) leave, as `ROWS_HELD`.

        One row for each, in their order; key NULL where a row has no identity in the output.
        """
        ...

    def held(self, outputs: Sequence[str]) -> SinkState:
        """Open the state of outputs; those that are not there hold nothing.

        Raises:
            ValidationRefusedError: an output does not keep state; the error names it.
            SinkError: the sink does not answer.
        """
        ...


@runtime_checkable
class KeyReadingSink(ValidatedSink, Protocol):
    """A sink whose keys are not the key JSON of rows, or say of which table a row is."""

    def row_keys(self, table: TableSchema, keys: Collection[bytes]) -> Sequence[bytes] | None:
        """Return the key JSON of those keys that a row of a table may have; None where one does not say it.

        Args:
            table: the table as the source has it.
            keys: keys as `ROWS_HELD` has them.
        """
        ...

    def table_of(self, key: bytes, tables: Sequence[str]) -> str | None:
        """Return of which of some tables (`database.table`) a key is; "" of none, None where it does not say."""
        ...
