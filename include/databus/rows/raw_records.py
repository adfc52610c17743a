"""Records of one Kafka partition as they are, beside the rows of every other source: what a mirror moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.tables.schemas import TableSchema

if TYPE_CHECKING:
    from databus.rows.columns import Ints


ORIGIN = "databus.origin"
"""Names the sites a mirrored record came through, oldest first, one header each."""

CLAIM = "databus.claim"
"""Hash of a value that lies in the segment store; the reference to it stands in the value's place."""

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class RawRecords:
    """Records of one partition in the order of their offsets, column by column.

    Lists and no Arrow: their bytes go from one client to the other by reference, where Arrow would copy them twice.

    Attributes:
        schema: the topic as the plan's table.
        server: id of the cluster.
        log: name of the partition's log, part of event ids.
        partition: its number.
        offsets: offset of each.
        keys: keys; None for none.
        values: values; None for a tombstone.
        headers: headers in order, names may repeat, values may be None; None for a record without any.
        stamps: timestamps, ms since the epoch; -1 without.
        topic: where they go; "" before that is known.
    """

    schema: TableSchema
    server: str
    log: str
    partition: int
    offsets: Ints
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header] | None]
    stamps: Sequence[int]
    topic: str = ""

    @property
    def num_rows(self) -> int:
        """Number of records."""
        return len(self.offsets)

    def event_id(self, row: int) -> str:
        """Return what names a record for ever: cluster, partition and offset."""
        return f"{self.server}:{self.log}:{self.offsets[row]}:0:0"

    def slice(self, start: int, length: int | None = None) -> RawRecords:
        """Return up to `length` records from `start` on."""
        end = self.num_rows if length is None else start + length
        return self if start == 0 and end >= self.num_rows else self._each(lambda column: column[start:end])

    def filter(self, kept: Sequence[bool]) -> RawRecords:
        """Return the records where `kept` is true."""
        if all(kept):
            return self
        chosen = self._each(lambda column: list(compress(column, kept)))
        return replace(chosen, offsets=np.asarray(chosen.offsets, np.int64))

    def _each(self, part: Callable[..., Any]) -> RawRecords:
        names = ("offsets", "keys", "values", "headers", "stamps")
        changed: dict[str, Any] = {name: part(getattr(self, name)) for name in names}
        return replace(self, **changed)
