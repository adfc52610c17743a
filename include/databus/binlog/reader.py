"""Read the binary log of MySQL and MariaDB as Arrow: from a file or from a server, without Spark and Airflow.

    from databus.binlog import read_file

    with read_file("/var/lib/mysql/mysql-bin.000003", tables=["shop.*"]) as log:
        for batch in log:
            print(log.table_of(batch), batch.num_rows, batch["position"][-1])

Each batch holds changes of one table, one per row, or one statement (TRUNCATE, DDL):

| column | type | meaning |
|---|---|---|
| op | string | c insert, u update, d delete, t TRUNCATE, m other definition statement |
| before, after | struct of the table's columns | row images; null where the change has none |
| file, position | string, int64 | log file, and the position after the change's transaction |
| gtid | string | GTID of the transaction, "" without one |
| ts_ms | int64 | commit time at the original source, ms since the epoch |
| server_id | int64 | server that wrote the transaction first |
| ordinal | int64 | number of the change in its transaction, across all tables, from 0 |
| before_absent, after_absent | list<string> | columns that the image does not carry (row image MINIMAL): not NULL |
| before_exceptions, after_exceptions | map<string, string> | text of values that Arrow cannot hold (zero dates) |
| before_undecodable, after_undecodable | map<string, binary> | bytes that are no text of their column's character set |
| after_partial | list<string> | absent documents that changed: the log holds their differences only (PARTIAL_JSON) |
| statement | string | SQL text of a statement |

Batches of one table are in log order. Tables follow one another within a piece of the log, but none passes a statement;
(file, position, ordinal) orders all. Rows come out when their transaction's end was seen, never before. An event that
is damaged, unknown or unsupported ends the reading with its position; all transactions before it have come out. A value
that cannot be decoded ends it too; then rows of other tables before it may not have come out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import SecretStr

from databus.binlog.decoding.change_batches import DATABASE, TABLE, change_batch, statement_batch
from databus.binlog.decoding.decode import TableFilter, every_table
from databus.binlog.decoding.log_dump import LogDump
from databus.binlog.decoding.log_file import PIECE_BYTES, Change, Prepared
from databus.binlog.decoding.log_files import NO_DEFINITIONS, LogFiles
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import type_name
from databus.core.connections import Connection

if TYPE_CHECKING:
    import pyarrow as pa


class LogSource(Protocol):
    """Log source of a reader: a file, or the dump of a server."""

    @property
    def file(self) -> str:
        """Log file being read."""
        ...

    @property
    def position(self) -> int:
        """File position after the last transaction that came out."""
        ...

    @property
    def transactions(self) -> int:
        """Transactions that came out."""
        ...

    @property
    def event_counts(self) -> npt.NDArray[np.int64]:
        """Events per type, int64[256]."""
        ...

    @property
    def bytes_read(self) -> int:
        """Log bytes read."""
        ...

    @property
    def server_version(self) -> str:
        """Version of the server that wrote the log."""
        ...

    @property
    def prepared(self) -> Collection[str]:
        """XA transactions that are prepared and not resolved."""
        ...

    def __iter__(self) -> Iterator[Change]: ...

    def close(self) -> None:
        """Give back what is open; safe to call twice."""
        ...


class LogReader:
    """Iterates over a log once; a context manager that closes what it reads from.

    Attributes:
        rows: row changes that came out so far.
    """

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.rows = 0

    @property
    def file(self) -> str:
        """Log file being read."""
        return self._source.file

    @property
    def position(self) -> int:
        """File position after the last transaction whose rows came out; with `file` a place to start from again."""
        return self._source.position

    @property
    def transactions(self) -> int:
        """Transactions read, also those without rows of the wanted tables."""
        return self._source.transactions

    @property
    def bytes_read(self) -> int:
        """Log bytes read."""
        return self._source.bytes_read

    @property
    def event_counts(self) -> Mapping[str, int]:
        """Name of each event type seen → how often."""
        return named_counts(self._source.event_counts)

    @property
    def server_version(self) -> str:
        """Version of the server that wrote the log, "" before anything was read."""
        return self._source.server_version

    @property
    def prepared(self) -> tuple[str, ...]:
        """XA transactions, by xid, that are prepared and not resolved where reading stands: rows held back."""
        return tuple(self._source.prepared)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield changes, at most 32,768 row images in a batch.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported; names file and position.
            SourceError: the server refused or cut the connection.
        """
        for item, transactions in self.changes():
            if isinstance(item, TableBatch):
                yield change_batch(item, transactions)
            else:
                yield statement_batch(item, transactions)

    def changes(self) -> Iterator[Change]:
        """Yield the same as plain `TableBatch` and `TableEvent`, each with its transactions; spares a copy."""
        for change in self._source:
            if isinstance(change[0], TableBatch):
                self.rows += len(change[0])
            yield change

    @staticmethod
    def table_of(batch: pa.RecordBatch) -> str:
        """Return `database.table` of a batch; the name is empty where a statement names no table."""
        metadata = batch.schema.metadata
        return f"{metadata[DATABASE].decode()}.{metadata[TABLE].decode()}"

    def close(self) -> None:
        """Close the file or the connection; safe to call twice."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def named_counts(counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """Return name of each event type → how often, of int64[256]."""
    return {type_name(kind): int(counts[kind]) for kind in np.flatnonzero(counts).tolist()}


def wanted_tables(patterns: Sequence[str]) -> TableFilter:
    """Return the filter for patterns as `MysqlBinlog` takes them: "shop.orders", "shop.*", "re:…"; none wants all.

    Raises:
        ConfigError: a pattern is not one.
    """
    return TableCapture(tuple(patterns)) if patterns else every_table


def read_file(
    path: str | Path,
    *,
    tables: Sequence[str] = (),
    piece_bytes: int = PIECE_BYTES,
    prepared: Prepared = "inside",
    definitions: Mapping[str, str] = NO_DEFINITIONS,
) -> LogReader:
    """Open a log file: the server's own, a copy by `mysqlbinlog --raw`, or a segment (no 4-byte magic).

    Memory stays bounded, whatever the size of the file and of its transactions: pieces of `piece_bytes` are held, or
    the largest single event. Reading needs no server. The file is mapped: it may grow meanwhile, but not shrink.

    Args:
        path: the file.
        tables: patterns of `database.table`; none for every table.
        piece_bytes: how much of the file is held at a time; transactions longer than that are walked three times.
        prepared: where the rows of XA COMMITs are. "inside": the XA PREPARE must lie in the file, before its commit;
            "elsewhere": the rows of one that lies before the file are left out.
        definitions: `database.table` → its CREATE TABLE statement, as SHOW CREATE TABLE gives it, for tables that the
            log does not describe (below binlog_row_metadata=FULL; in MariaDB also UUID, INET4, INET6 and versioned
            tables). They hold where reading begins, and are followed through the statements in the log.

    Raises:
        SourceError: the file cannot be opened.
        DecodeError: it is no log file.
        ConfigError: a pattern is not one, or a definition cannot be read.
    """
    return read_files(
        [path], tables=tables, piece_bytes=piece_bytes, prepared=prepared, definitions=definitions
    )  # fmt: skip


def read_files(
    paths: Sequence[str | Path],
    *,
    tables: Sequence[str] = (),
    piece_bytes: int = PIECE_BYTES,
    prepared: Prepared = "inside",
    definitions: Mapping[str, str] = NO_DEFINITIONS,
) -> LogReader:
    """Open log files that are read one after the other; arguments and errors are those of `read_file`.

    An XA transaction that is prepared in one file and resolved in a later one is joined as long as each file goes on
    where the one before it ended: the next number of the same name, or the next segment.

    Raises:
        SourceError: the first file cannot be opened; of later ones while iterating.
    """
    wanted = wanted_tables(tables)
    return LogReader(
        LogFiles(paths, tables=wanted, piece_bytes=piece_bytes, prepared=prepared, definitions=definitions)
    )


def read_server(  # noqa: PLR0913 - one parameter per word of a connection
    host: str,
    *,
    user: str,
    password: str = "",
    port: int = 3306,
    start: str = "earliest",
    follow: bool = False,
    tables: Sequence[str] = (),
    server_id: int = 0,
    piece_bytes: int = PIECE_BYTES,
    prepared: Prepared = "inside",
    definitions: Mapping[str, str] = NO_DEFINITIONS,
    **extra: Any,
) -> LogReader:
    """Read a server's log as a replica does.

    The account needs REPLICATION SLAVE, and for `earliest` and `latest` REPLICATION CLIENT (MariaDB: BINLOG MONITOR).

    Args:
        host: name or address.
        user: login name.
        password: its password; appears in no message.
        port: TCP port.
        start: "earliest", "latest", "FILE:POS" at a transaction boundary, or "gtid:SET" with what was read
            already: what gtid_executed (MariaDB: the GTID position) was at one moment.
        follow: True waits for the log to grow, for ever; False ends at the head it has when it gets there.
        tables: patterns of `database.table`; none for every table outside the server's own databases.
        server_id: replication id, unique among the server's readers; 0 takes a random high one.
        piece_bytes: how much is held at a time; a transaction longer than 64 MiB waits in a temporary file.
        prepared: where the rows of XA COMMITs are. "inside": the XA PREPARE must lie behind `start`; "elsewhere": the
            rows of one that lies before it are left out.
        definitions: as for `read_file`; they hold at `start`.
        **extra: TLS and time-out settings as a connection's `extra` names them (ssl_ca, ssl_mode, …).

    Raises:
        SourceUnavailableError, SourceAccessError: nobody answers, or the login is refused.
        OffsetInvalidError: `start` names no place.
        ConfigError: a pattern is not one, or the TLS settings cannot be used.
    """
    connection = Connection(
        conn_id=host, conn_type="mysql", host=host, port=port, login=user, password=SecretStr(password), extra=extra
    )
    capture = TableCapture(tuple(tables) or ("*.*",))
    return LogReader(
        LogDump(
            connection, start, follow=follow, tables=capture, server_id=server_id, piece_bytes=piece_bytes,
            prepared=prepared, definitions=definitions,
        )
    )  # fmt: skip
