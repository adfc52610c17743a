"""Several log files read one after the other, as one log where each goes on where the one before it ended."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.decode import TableFilter
from databus.binlog.decoding.log_file import Change, LogFile, LoggedTransaction, Prepared
from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.schema_history.given import GivenDefinitions
from databus.core.errors.source import SourceError

_NO_BYTES: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

NO_DEFINITIONS: Mapping[str, str] = MappingProxyType({})
"""The log says it all."""


class LogFiles:
    """Reads files in the order given; facts of a file are those of the one being read.

    Attributes:
        bytes_read: bytes read of all files.
        transactions: transactions that came out of all files.
        event_counts: int64[256], events per type in all files.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        tables: TableFilter,
        piece_bytes: int,
        prepared: Prepared,
        definitions: Mapping[str, str] = NO_DEFINITIONS,
    ) -> None:
        """Open the first file; arguments as for `databus.binlog.read_files`."""
        self._paths, self._tables, self._piece_bytes = [Path(p) for p in paths], tables, piece_bytes
        self._prepared, self._given = prepared, definitions
        self._first_phases: dict[str, LoggedTransaction] = {}
        self._schema_ids = SchemaIds()
        self._definitions: GivenDefinitions | None = None
        self._before = np.zeros(256, np.int64)
        self._transactions_before = self._bytes_before = 0
        self._log: LogFile | None = self._opened(self._paths[0]) if paths else None

    @property
    def file(self) -> str:
        """Name of the log file being read."""
        return self._log.file if self._log else ""

    @property
    def position(self) -> int:
        """File position after the last transaction that came out."""
        return self._log.position if self._log else 0

    @property
    def server_version(self) -> str:
        """Version of the server that wrote the file."""
        return self._log.server_version if self._log else ""

    @property
    def transactions(self) -> int:
        """See the class."""
        return self._transactions_before + (self._log.transactions if self._log else 0)

    @property
    def bytes_read(self) -> int:
        """See the class."""
        return self._bytes_before + (self._log.bytes_read if self._log else 0)

    @property
    def event_counts(self) -> npt.NDArray[np.int64]:
        """See the class."""
        return self._before + self._log.event_counts if self._log else self._before

    @property
    def prepared(self) -> Collection[str]:
        """XA transactions that are prepared and not resolved."""
        return self._first_phases.keys()

    def __iter__(self) -> Iterator[Change]:
        """Decode the files; once.

        Raises:
            DecodeError, SourceError: as for `LogFile`, and as for opening a file.
        """
        for log in self.files():
            yield from log

    def files(self) -> Iterator[LogFile]:
        """Yield the files one by one, each to be read to its end before the next is asked for."""
        for path in self._paths[1:]:
            if self._log is None:  # closed
                return
            yield self._log
            former, self._log = self._log, self._opened(path)
            self._before = self._before + former.event_counts
            self._transactions_before += former.transactions
            self._bytes_before += former.bytes_read
            if not _goes_on(former, self._log):
                self._first_phases.clear()
                if self._definitions is not None:
                    self._definitions.lose(self._log.file, f"{self._log.file} does not go on where {former.file} ends")
        if self._log is not None:
            yield self._log

    def close(self) -> None:
        """Let all files go; safe to call twice."""
        if self._log is not None:
            self._log.close()
        self._first_phases.clear()

    def _opened(self, path: Path) -> LogFile:
        return LogFile(
            mapped(path),
            path.name,
            tables=self._tables,
            schema_ids=self._schema_ids,
            piece_bytes=self._piece_bytes,
            prepared=self._prepared,
            first_phases=self._first_phases,
            definitions=self._definitions_of,
        )

    def _definitions_of(self, flavor: str) -> GivenDefinitions | None:
        if self._given and self._definitions is None:
            self._definitions = GivenDefinitions(self._given, flavor, self._tables)
        return self._definitions


def _goes_on(former: LogFile, log: LogFile) -> bool:
    """Return whether a file begins where the one before it ended."""
    if log.file == former.file:
        return log.start == former.position
    (name, _, number), (former_name, _, former_number) = log.file.rpartition("."), former.file.rpartition(".")
    if name != former_name or not (number.isdigit() and former_number.isdigit()):
        return False
    return int(number) == int(former_number) + 1 and log.begins_file


def mapped(path: Path) -> npt.NDArray[np.uint8]:
    """Map a file.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ENODEV, "It is no regular file")
            if not status.st_size:
                return _NO_BYTES
            data: npt.NDArray[np.uint8] = np.memmap(opened, np.uint8, mode="r")
            return data
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read: {error.strerror}",
            hint="Name a log file; a server's own files can be read by its user only.",
            code="source_file_unreadable",
        ) from None
