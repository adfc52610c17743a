"""Chunk file: rows of one table that a snapshot read, as an Arrow IPC stream whose metadata says which chunk it is.

Rows are written and read batch by batch, so that memory does not follow the size of a chunk.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.mapped import release
from databus.binlog.segments.chunk_store import ChunkStore, load_chunk
from databus.binlog.segments.store_space import writing
from databus.core.errors.source import ChunkFileError
from databus.core.private_files import private_opener
from databus.core.state.snapshot import ChunkFile
from databus.sources.mysql.snapshot.chunk_form import EXCEPTIONS, ChunkHead, batch_of, stored_of

if TYPE_CHECKING:
    from databus.sources.mysql.snapshot.touched_keys import TouchedKeys

_METADATA = b"databus"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_AT_ONCE = 1 << 20
_RELEASE_BYTES = 16 << 20


class ChunkWriter:
    """Writer of one chunk file; a context manager that leaves nothing where it is not published.

    Args:
        store: where the file goes.
        head: which chunk it is.

    Raises:
        SegmentStoreFullError, SourceUnavailableError: the store cannot be used.
    """

    def __init__(self, store: ChunkStore, head: ChunkHead) -> None:
        self._store, self._head = store, head
        self._path = store.stage()
        self._file = _HashedFile(self._path)
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        self._rows = self._superseded = 0

    def append(self, batch: TableBatch, superseded: npt.NDArray[np.bool_] | None = None) -> None:
        """Write rows.

        Args:
            batch: rows of op READ, each of which has its image at its own place; or keys to delete.
            superseded: bool[n], which rows are left out and counted; None for none.

        Raises:
            ValueError: it is no batch that a snapshot read, or of another table.
            SegmentStoreFullError: there is no room for it.
        """
        stored = stored_of(batch, self._head)
        if superseded is not None and superseded.any():
            stored = stored.filter(pa.array(~superseded))
            self._superseded += len(batch) - stored.num_rows
        self._rows += stored.num_rows
        if stored.num_rows:
            self._open(stored.schema).write_batch(stored)

    def publish(self) -> ChunkFile:
        """End the file, make it visible, and return what a plan says of it.

        Raises:
            SegmentStoreFullError, SourceUnavailableError: the store cannot be used; nothing is visible.
        """
        self._open(pa.schema([EXCEPTIONS])).close()
        self._file.close()
        sha256 = self._file.hashed.hexdigest()
        name = self._store.publish(self._path, sha256)
        return ChunkFile(name, sha256, self._head.schema.full_name, self._rows, self._superseded)

    def _open(self, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if self._stream is None:
            metadata = {_METADATA: json.dumps(self._head.to_json(), ensure_ascii=False).encode()}
            self._stream = pa.ipc.new_stream(self._file, schema.with_metadata(metadata), options=_OPTIONS)
        return self._stream

    def __enter__(self) -> ChunkWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._file.abandon()
        self._store.discard(self._path)


def write_chunk(
    store: ChunkStore, head: ChunkHead, batches: Iterable[TableBatch], touched: TouchedKeys | None = None
) -> ChunkFile:
    """Write a chunk file without the rows whose keys the log has touched; publish it whole or not at all.

    Args:
        store: where it goes.
        head: which chunk it is.
        batches: its rows, in the order of the key; read one at a time.
        touched: keys of the batch's range of the log; None where that is not staged yet (see `without_touched`).

    Raises:
        SegmentStoreFullError, SourceUnavailableError: the store cannot be used; nothing is visible.
    """
    with ChunkWriter(store, head) as writer:
        for batch in batches:
            writer.append(batch, None if touched is None else touched.mask(batch))
        return writer.publish()


def without_touched(store: ChunkStore, file: ChunkFile, touched: TouchedKeys) -> ChunkFile:
    """Return the chunk file without the rows whose keys the log has touched: itself where it has none of them.

    Another file takes its place else, and it is deleted: no plan may name it yet.

    Raises:
        ChunkFileError: it is gone, or damaged.
        SegmentStoreFullError, SourceUnavailableError: the store cannot be used.
    """
    if not touched.any_of(file.table):
        return file
    chunk = open_chunk(store.address(file.name), file.sha256)
    left = write_chunk(store, chunk.head, chunk.batches(), touched)
    if left.name != file.name:
        store.delete(file.name)
    return ChunkFile(left.name, left.sha256, left.table, left.rows, file.superseded + left.superseded)


@dataclass(frozen=True)
class OpenChunk:
    """Chunk file whose bytes were compared with their hash.

    Attributes:
        head: which chunk it is.
    """

    head: ChunkHead
    _address: str
    _data: npt.NDArray[np.uint8]

    def batches(self) -> Iterator[TableBatch]:
        """Yield its rows as they were appended; `ordinal` counts them from 0 over the whole chunk.

        Raises:
            ChunkFileError: it cannot be read.
        """
        with _named(self._address, self._data) as stream:
            done, passed = 0, 0
            for stored in stream:
                batch = batch_of(stored, self.head, done)
                done += len(batch)
                yield batch
                passed += stored.nbytes
                if passed > _RELEASE_BYTES:
                    release(self._data)
                    passed = 0


def open_chunk(address: str, sha256: str) -> OpenChunk:
    """Return a chunk file for reading after comparing its bytes with their hash.

    Args:
        address: where it is: `ChunkStore.address`.
        sha256: hex digest of its bytes, as planned.

    Raises:
        ChunkFileError: it is gone, damaged, or cannot be read.
        SourceUnavailableError: the store does not answer.
    """
    data = load_chunk(address, sha256)
    with _named(address, data) as stream:
        head = ChunkHead.from_json(json.loads(stream.schema.metadata[_METADATA]))
    return OpenChunk(head, address, data)


def read_chunk(address: str, sha256: str) -> Iterator[TableBatch]:
    """Yield the rows of a chunk file; see `open_chunk` and `OpenChunk.batches`."""
    yield from open_chunk(address, sha256).batches()


class _HashedFile(io.RawIOBase):
    """A private file that hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self._path, self.hashed = path, hashlib.sha256()
        with writing(path, 0):
            self._file = open(path, "wb", buffering=_AT_ONCE, opener=private_opener)  # noqa: SIM115

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override] # Arrow hands bytes over
        view = memoryview(data).cast("B")
        with writing(self._path, len(view)):
            self._file.write(view)
        self.hashed.update(view)
        return len(view)

    def close(self) -> None:
        if not self.closed:
            with writing(self._path, 0):
                self._file.close()
        super().close()

    def abandon(self) -> None:
        """Close it whatever the disk says."""
        with suppress(OSError):
            self._file.close()
        super().close()


@contextmanager
def _named(address: str, data: npt.NDArray[np.uint8]) -> Iterator[pa.ipc.RecordBatchStreamReader]:
    """Open the stream of a chunk file; name the file where it is none."""
    try:
        yield pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(data)))
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise ChunkFileError(f"the chunk file {address} cannot be read: {type(error).__name__}: {error}") from error
