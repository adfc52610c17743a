"""Chunk files as splits of a batch: rows of op "r", and keys to delete, in front of the rows of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from databus.core.errors.source import ChunkFileError
from databus.core.state.snapshot import ChunkFile
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.row_filters import ALL_ROWS, RowFilters
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.binlog.decoding.table_batch import TableBatch, Transactions
    from databus.binlog.segments.chunk_store import ChunkStore
    from databus.rows.image_form import ImageForm
    from databus.sources.mysql.snapshot.chunk_form import ChunkHead


@dataclass(frozen=True)
class ChunkAddress:
    """Address of a chunk file, and what reading it needs.

    Attributes:
        uri: address under which every worker reads it.
        sha256: hex digest of its bytes.
        rows: rows that it holds, which reading must find again.
        first_ordinal: rows of the chunk files that the batch delivers before it.
    """

    uri: str
    sha256: str
    rows: int
    first_ordinal: int


@dataclass(frozen=True)
class ChunkSplit(SplitRows):
    """Some chunk files in the order of a batch; picklable, without credentials.

    Attributes:
        chunks: what to read.
        log: log file of the place where the batch's range begins, as it is called where the range is read.
        place: byte position of that place; all rows of the range lie behind it.
        tables: schemas of the plan; those of the chunks are among them.
        filters: which rows are wanted; the others are read as rows of op "f".
        large_values: when values of a row leave it for the segment store; None for never.
        prefix: what all event ids begin with (`core.trace.log_prefix`).
    """

    chunks: tuple[ChunkAddress, ...]
    log: str
    place: int
    tables: tuple[TableSchema, ...]
    filters: RowFilters = ALL_ROWS
    large_values: LargeValueRules | None = None
    prefix: str = ""

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        from databus.sources.mysql.segments.emission import Emission
        from databus.sources.mysql.segments.large_values import RowLargeValues
        from databus.sources.mysql.snapshot.chunk_file import open_chunk

        claims = RowLargeValues(self.large_values) if self.large_values is not None else None
        for address in self.chunks:
            chunk, counts = open_chunk(address.uri, address.sha256), list[int]()
            log = self._transactions(chunk.head, address)
            emission = Emission("", form, counts.append, self.filters, claims, self.prefix)
            for batch in chunk.batches():
                yield from emission.rows(self._placed(batch, address), log)
            if sum(counts) != address.rows:
                raise ChunkFileError(
                    f"the chunk file {address.uri} holds {sum(counts)} rows where {address.rows} were planned",
                    hint="The plan and the file are not of one batch: report it as a defect.",
                )

    def _placed(self, batch: TableBatch, address: ChunkAddress) -> TableBatch:
        """Return rows under the plan's number of their schema, counted over all chunk files of the batch.

        Raises:
            ChunkFileError: the plan does not name the schema.
        """
        for schema in self.tables:
            if replace(batch.schema, schema_id=schema.schema_id) == schema:
                return replace(batch, schema=schema, ordinal=batch.ordinal + address.first_ordinal)
        raise ChunkFileError(
            f"the chunk file {address.uri} holds rows of {batch.schema.full_name} as no schema of the plan has them",
            hint="The plan and the file are not of one batch: report it as a defect.",
        )

    def _transactions(self, head: ChunkHead, address: ChunkAddress) -> Transactions:
        """Return what the rows of a chunk have for a transaction: the place where the range begins."""
        import numpy as np
        import pyarrow as pa

        from databus.binlog.decoding.table_batch import Transactions

        here = np.array([self.place], np.int64)
        return Transactions(
            self.log,
            here,
            here,
            pa.array([""]),
            np.array([head.read_at_ms], np.int64),
            np.zeros(1, np.int64),
            pa.array([head.event_head]),
            np.array([address.first_ordinal], np.int64),
        )


def shared_chunks(files: Sequence[ChunkFile], store: ChunkStore, count: int) -> list[tuple[ChunkAddress, ...]]:
    """Group chunk files that hold rows into at most `count` groups of about equally many, in the order of the batch.

    Args:
        files: chunk files of a plan.
        store: where they are.
        count: most groups, at least 1.
    """
    share = max(1, sum(file.rows for file in files)) / max(1, count)
    groups: dict[int, list[ChunkAddress]] = {}
    passed = 0
    for file in files:
        if file.rows:
            group = min(max(1, count) - 1, int((passed + file.rows / 2) / share))
            address = ChunkAddress(store.address(file.name), file.sha256, file.rows, passed)
            groups.setdefault(group, []).append(address)
            passed += file.rows
    return [tuple(chunks) for _, chunks in sorted(groups.items())]
