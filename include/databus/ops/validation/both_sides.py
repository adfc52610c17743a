"""Both sides of a comparison on disk: hashes to compare them by, and the rows that these stand for.

Contents are compared as they were written. Where that differs, and the key is on both sides, their canonical forms are
compared: a row of another lane, of a former version or of a former definition may be written otherwise.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from databus.core.protocols.validated_sink import held_schema
from databus.ops.validation.expected_rows import ExpectedRows
from databus.ops.validation.row_hashes import DifferingRows, Numbers, RowHashes, differing
from databus.ops.validation.row_spool import RowSpool
from databus.sinks.row_state import settled

_EXPECTED = pa.schema([("output", pa.string()), ("key", pa.binary()), ("content", pa.binary()), ("table", pa.string())])


class BothSides:
    """Rows of both sides; a context manager that closes its files.

    Memory does not grow with the number of rows, but by 8 bytes for each that differs; each side may be filled by a
    thread of its own.

    Args:
        folder: empty folder for the files.
    """

    def __init__(self, folder: Path):
        self._folder, self._secret = folder, secrets.token_bytes(32)
        self._stack = ExitStack()
        self._expected, self._held = self._hashes("expected"), self._hashes("held")
        self._expected_rows = self._stack.enter_context(RowSpool(folder / "expected_rows", _EXPECTED))
        self._held_rows = self._stack.enter_context(RowSpool(folder / "held_rows", held_schema()))
        self._later_from: int | None = None

    @property
    def expected(self) -> int:
        """Number of rows that are expected."""
        return self._expected.rows

    @property
    def held(self) -> int:
        """Number of rows that are held."""
        return self._held.rows

    def expect(self, part: ExpectedRows) -> None:
        """Take expected rows, whose keys are not NULL."""
        self._expected.append(part.rows, part.held)
        columns = [*(part.rows[name] for name in ("output", "key", "content")), part.tables]
        self._expected_rows.append(pa.RecordBatch.from_arrays(columns, schema=_EXPECTED))

    def hold(self, rows: pa.RecordBatch, *, later: bool = False) -> None:
        """Take held rows, `later` ones behind all others."""
        if later and self._later_from is None:
            self._later_from = self._held.rows
        self._held.append(rows)
        self._held_rows.append(rows)

    def differing(self) -> DifferingRows:
        """Return the rows whose states differ; to be called once, when both sides are there."""
        self._expected_rows.done()
        self._held_rows.done()
        seen = differing(self._expected, self._held, self._later_from)
        if not len(seen.on_both):
            return seen
        mine, theirs = self._hashes("expected_states"), self._hashes("held_states")
        for hashes, spool, numbers in (
            (mine, self._expected_rows, seen.on_both),
            (theirs, self._held_rows, seen.held_on_both),
        ):
            for taken, rows in spool.taken(numbers):
                hashes.append(_settled(rows), numbers=taken)
        again = differing(mine, theirs, self._later_from)
        return replace(
            seen,
            expected=_changed(seen.expected, seen.on_both, again.expected),
            held=_changed(seen.held, seen.held_on_both, again.held),
            alike=seen.alike + again.alike,
        )

    def expected_rows(self, numbers: Numbers) -> Iterator[pa.RecordBatch]:
        """Yield expected rows by their numbers, with their `table`."""
        return (rows for _, rows in self._expected_rows.taken(numbers))

    def held_rows(self, numbers: Numbers) -> Iterator[pa.RecordBatch]:
        """Yield held rows by their numbers: `ROWS_HELD`."""
        return (rows for _, rows in self._held_rows.taken(numbers))

    def __enter__(self) -> BothSides:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _hashes(self, name: str) -> RowHashes:
        return self._stack.enter_context(RowHashes(self._folder / name, self._secret))


def _settled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with canonical contents."""
    contents = pa.array([settled(content) for content in rows["content"].to_pylist()], pa.binary())
    return rows.set_column(rows.schema.get_field_index("content"), "content", contents)


def _changed(all_of: Numbers, looked_at: Numbers, left: Numbers) -> Numbers:
    """Return numbers of which those that were looked at are in only where they are left."""
    return np.sort(np.concatenate([np.setdiff1d(all_of, looked_at), left]))
