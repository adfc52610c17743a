"""Spool of rows on disk: what hashes stand for, so that the rows of some keys can be told by their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.core.private_files import private_opener

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class RowSpool:
    """Batches of rows in a file, numbered from 0 over all of them; a context manager that deletes it.

    Args:
        path: file that is not there yet.
        schema: of the batches.
    """

    def __init__(self, path: Path, schema: pa.Schema):
        self._path = path
        self._file = open(path, "wb", opener=private_opener)  # noqa: SIM115 - closed by `done` or `__exit__`
        self._stream = pa.ipc.new_stream(self._file, schema, options=_OPTIONS)

    def append(self, rows: pa.RecordBatch) -> None:
        """Write rows; raises OSError where there is no room."""
        self._stream.write_batch(rows)

    def done(self) -> None:
        """End writing."""
        self._stream.close()
        self._file.close()

    def taken(self, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
        """Yield the rows of some numbers with these, in their order in the file."""
        wanted, passed = np.sort(numbers), 0
        with self._path.open("rb") as file, pa.ipc.open_stream(file) as stream:
            for rows in stream:
                low, high = np.searchsorted(wanted, (passed, passed + rows.num_rows))
                if high > low:
                    yield wanted[low:high], rows.take(pa.array(wanted[low:high] - passed))
                passed += rows.num_rows

    def __enter__(self) -> RowSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)
