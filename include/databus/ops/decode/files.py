"""Decode local log files: rows out as JSON lines or Arrow, and a summary of what the files hold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from databus.core.errors.source import DecodeError

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.binlog.decoding.log_file import LogFile, Prepared
    from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions

_HINT = (
    "The rows before it came out. The file is damaged here, or the event is not one this decoder knows: compare with "
    "mysqlbinlog --start-position."
)
_NOT_IN_A_FILE = "event_id"
"""Begins with the server's identity, which its log files do not hold."""


@dataclass
class DecodedFile:
    """Decoded file; grows while it is read.

    Attributes:
        path: the file.
        size_bytes: its length.
        bytes: how much of it was read.
        first_pos: file position after the first transaction whose rows came out, None without any.
        position: file position after the last transaction.
        transactions: transactions read.
        changes: `database.table` → op letter → rows.
        events: event type → how often.
        server_version: version of the server that wrote it.
        prepared: XA transactions, by xid, that are prepared and not resolved at its end.
    """

    path: Path
    size_bytes: int
    bytes: int = 0
    first_pos: int | None = None
    position: int = 0
    transactions: int = 0
    changes: dict[str, Counter[str]] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    server_version: str = ""
    prepared: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that came out, statements included."""
        return sum(sum(ops.values()) for ops in self.changes.values())


@dataclass
class DecodedFiles:
    """Decoded files in total.

    Attributes:
        files: in the order given.
        seconds: wall time.
        unmatched: patterns of tables that nothing in the files matches.
    """

    files: list[DecodedFile] = field(default_factory=list)
    seconds: float = 0.0
    unmatched: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes read of all files."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: totals, and per file its tables, events and positions."""
        seconds = max(self.seconds, 1e-9)
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows / seconds),
            "mb_per_second": round(self.bytes / seconds / 1e6, 1),
            "files": [
                {
                    "file": str(file.path),
                    "server_version": file.server_version,
                    "first_position": file.first_pos,
                    "last_position": file.position,
                    "transactions": file.transactions,
                    "tables": {table: dict(sorted(ops.items())) for table, ops in sorted(file.changes.items())},
                    "events": file.events,
                    "prepared": list(file.prepared),
                }
                for file in self.files
            ],
        }


class Output(Protocol):
    """Row output of decoded files."""

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        """Take a batch of changes, or a statement."""
        ...

    def close(self) -> None:
        """Write what is still held."""
        ...


class NoOutput:
    """Decodes to record batches and lets them go."""

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        """Decode only."""

    def close(self) -> None:
        """Close nothing: no file is held."""


class JsonLines:
    """JSON lines output: a row per line, in the form of `databus peek`, without the event id."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        """Write a line per row."""
        from databus.binlog.decoding.table_batch import TableBatch
        from databus.ops.decode.row_lines import plain_rows, printable
        from databus.rows.emit import emit, emit_events

        rows = emit(item, transactions, "") if isinstance(item, TableBatch) else emit_events([item], transactions, "")
        for batch in rows:
            for row in plain_rows(batch.drop_columns([_NOT_IN_A_FILE])):
                self._target.write(printable(row).encode() + b"\n")

    def close(self) -> None:
        """Flush."""
        self._target.flush()


class ArrowStreams:
    """Arrow IPC streams, one after the other: a new one begins where another table or schema follows.

    Read them with `pyarrow.ipc.open_stream` until the input ends; columns as in `databus.binlog.reader`.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        """Write one record batch."""
        import pyarrow as pa

        from databus.binlog.decoding.change_batches import change_batch, statement_batch
        from databus.binlog.decoding.table_batch import TableBatch

        if isinstance(item, TableBatch):
            batch = change_batch(item, transactions)
        else:
            batch = statement_batch(item, transactions)
        if self._writer is None or not batch.schema.equals(self._schema, check_metadata=True):
            self.close()
            self._schema = batch.schema
            self._writer = pa.ipc.new_stream(self._target, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """End the stream."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._target.flush()


def decode_files(
    paths: Sequence[Path],
    tables: Sequence[str],
    output: Output,
    progress: Callable[[DecodedFile], None] = lambda _: None,
    *,
    prepared: Prepared = "inside",
    definitions: Mapping[str, str] | None = None,
) -> DecodedFiles:
    """Decode files one after the other, as `databus.binlog.read_files` does.

    Args:
        paths: log files, raw copies, or segments.
        tables: patterns of `database.table`; none for every table.
        output: takes the rows.
        progress: is called after each batch with the file being read.
        prepared: "elsewhere" leaves the rows of XA COMMITs out whose XA PREPARE lies before the files.
        definitions: as for `read_files`.

    Raises:
        DecodeError: a file is damaged, cut short or of an unknown format; names file and position.
        SourceError: a file cannot be read.
        ConfigError: a pattern is not one.
    """
    from databus.binlog.decoding.log_file import PIECE_BYTES
    from databus.binlog.decoding.log_files import LogFiles
    from databus.binlog.log.capture import means
    from databus.binlog.reader import wanted_tables

    decoded, began = DecodedFiles(), time.perf_counter()
    with _hinted():
        logs = LogFiles(
            paths, tables=wanted_tables(tables), piece_bytes=PIECE_BYTES, prepared=prepared,
            definitions=definitions or {},
        )  # fmt: skip
        for path, log in zip(paths, logs.files(), strict=True):
            decoded.files.append(file := DecodedFile(path, path.stat().st_size))
            for _ in _written(log, output, file):
                _note(log, file)
                progress(file)
            _note(log, file)
        logs.close()
    output.close()
    names = {name for file in decoded.files for name in file.changes}
    decoded.unmatched = tuple(p for p in tables if not any(means(p, name) for name in names))
    decoded.seconds = time.perf_counter() - began
    return decoded


@contextmanager
def _hinted() -> Iterator[None]:
    """Give a decode error a hint that fits a local file, where there is no checkpoint."""
    try:
        yield
    except DecodeError as error:
        if error.hint == DecodeError.default_hint:
            raise DecodeError(error.message, hint=_HINT) from error
        raise


def _written(log: LogFile, output: Output, file: DecodedFile) -> Iterator[None]:
    from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, TableBatch

    for item, transactions in log:
        output.write(item, transactions)
        if isinstance(item, TableBatch):
            ops = file.changes.setdefault(item.schema.full_name, Counter())
            for letter, op in (("c", INSERT), ("u", UPDATE), ("d", DELETE)):
                if count := int((item.op == op).sum()):
                    ops[letter] += count
            first = int(item.transaction[0]) if len(item) else 0
        else:
            file.changes.setdefault(f"{item.database}.{item.table}", Counter())[item.op] += 1
            first = item.transaction
        if file.first_pos is None:
            file.first_pos = int(transactions.end_pos[first])
        yield


def _note(log: LogFile, file: DecodedFile) -> None:
    from databus.binlog.reader import named_counts

    file.bytes, file.position, file.transactions = log.bytes_read, log.position, log.transactions
    file.events, file.server_version = named_counts(log.event_counts), log.server_version
    file.prepared = tuple(log.prepared)
