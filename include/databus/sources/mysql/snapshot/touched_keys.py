"""Touched keys of a staged range of the log: those of which it has any image, table by table.

A row that a snapshot read is superseded where the range that its batch reads has its key: the log tells what became of
it. All rows of the log count, also those that the flow's row filters leave out; those of an XA transaction count where
it commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import UPDATE, SchemaIds, TableBatch
from databus.binlog.schema_history.definitions import PinnedDefinitions
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.binlog.segments.store import SegmentStore, load_segment
from databus.core.errors.source import DecodeError
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.rows.columns import text
from databus.rows.keys import KeyEncoder, key_encoder
from databus.rows.murmur2 import key_hashes
from databus.sources.mysql.segments.address import SegmentAddress
from databus.sources.mysql.segments.rows import decoded_segment

Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.int32]

_MOST_BYTES = 64 << 10
"""A larger value of a row is not read: no column of a key holds one, short of a prefix key on a TEXT or BLOB."""


@dataclass(frozen=True, eq=False)
class TableKeys:
    """Touched keys of one table.

    Attributes:
        columns: columns of the key, in its order.
        keys: large_binary[n], keys as `KeyEncoder` makes them, ordered by their hashes.
        hashes: int32[n], their hashes.
    """

    columns: tuple[str, ...]
    keys: pa.LargeBinaryArray
    hashes: Hashes

    def mask(self, keys: pa.BinaryArray) -> Mask:
        """Return bool[n], which of some keys are touched."""
        hashes = key_hashes(*text(keys))
        low, high = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        found: Mask = low < high
        if found.any():
            # The hash only says where a key would be: the bytes decide.
            alike = self.keys.take(pa.array(_ranges(low[found], high[found]))).cast(pa.binary())
            found[found] = pc.is_in(keys.filter(pa.array(found)), value_set=alike).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True)
class TouchedKeys:
    """Touched keys of the wanted tables in one range.

    Attributes:
        tables: `database.table` → its keys.
        untold: `database.table` of the wanted ones of which a change does not tell its key: the row image is not FULL,
            or the table has not the key's columns. A chunk of these cannot be compared with the range.
        partial: `database.table` of those of which an update does not carry all columns of its row: it would supersede
            a whole row that was read, and the rest of it would never come.
    """

    tables: Mapping[str, TableKeys]
    untold: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()

    def any_of(self, table: str) -> bool:
        """Tell whether the range has any key of a table.

        Raises:
            ValueError: see `mask`.
        """
        return len(self._of(table).keys) > 0

    def mask(self, batch: TableBatch) -> Mask:
        """Return bool[n], which rows of a batch of op READ are superseded.

        Raises:
            ValueError: the table was not wanted, or is one of `untold`.
        """
        wanted = self._of(batch.schema.full_name)
        if not len(wanted.keys):
            return np.zeros(len(batch), np.bool_)
        encoder = _encoder(batch, wanted.columns)
        if encoder is None:
            raise ValueError(f"{batch.schema.full_name} has not the columns {', '.join(wanted.columns)}")
        return wanted.mask(encoder.keys(batch.after_row, batch.before_row))

    def _of(self, table: str) -> TableKeys:
        if table in self.untold:
            raise ValueError(f"a change of {table} in the range does not tell its key")
        if table not in self.tables:
            raise ValueError(f"the keys of {table} were not looked for")
        return self.tables[table]


def touched_keys(index: RangeIndex, store: SegmentStore, wanted: Mapping[str, tuple[str, ...]]) -> TouchedKeys:
    """Return the keys of all before- and after-images of a staged range, of the wanted tables alone.

    Args:
        index: the range.
        store: where it is staged.
        wanted: `database.table` → columns of its key, e.g. those of a unique NOT NULL index. A table that the range
            redefines must not be among them (`redefined`).

    Raises:
        DecodeError: damaged or unsupported bytes.
        SourceUnavailableError: a segment cannot be read.
    """
    found: dict[str, list[pa.BinaryArray]] = {table: [] for table in wanted}
    untold: set[str] = set()
    partial: set[str] = set()
    for batch in _changes(index, store, wanted):
        table = batch.schema.full_name
        if not _whole(batch):
            partial.add(table)
        if table in untold:
            continue
        try:
            found[table] += _keys(batch, wanted[table])
        except DecodeError:
            untold.add(table)
            found[table] = []
    return TouchedKeys(
        {table: _ordered(wanted[table], keys) for table, keys in found.items() if table not in untold},
        frozenset(untold),
        frozenset(partial),
    )


def redefined(plan: SourcePlan, chunks: Mapping[str, TableSchema]) -> frozenset[str]:
    """Return the tables whose chunks a range makes useless: a statement redefines or empties them, or the schema moved.

    Statements are those on the table or its database (so is one that renames several tables), such that give it another
    name or take its name for another table, and those on partitions, of which no row event tells.

    Args:
        plan: the staged range.
        chunks: `database.table` → schema of its chunks' rows.
    """
    names: set[str] = set()
    databases: set[str] = set()
    for _, subject in plan.named:
        (names if subject.table else databases).add(subject.full_name if subject.table else subject.database)
    for change in plan.table_changes:
        names |= {change.table, change.becomes}
    for renamed in plan.renamed:
        names |= {renamed.old, renamed.new}
    names |= {table for change in plan.unlogged for table in change.tables}
    for schema in plan.tables:
        mine = chunks.get(schema.full_name)
        if mine is not None and replace(mine, schema_id=schema.schema_id) != schema:
            names.add(schema.full_name)
    return frozenset(name for name, mine in chunks.items() if name in names or mine.database in databases)


def _changes(index: RangeIndex, store: SegmentStore, wanted: Mapping[str, object]) -> Iterator[TableBatch]:
    """Yield the row changes of the wanted tables."""
    numbers = {schema.schema_id for schema in index.tables if schema.full_name in wanted}

    def is_wanted(database: str, table: str) -> bool:
        return f"{database}.{table}" in wanted

    for segment in index.segments:
        if numbers.isdisjoint(segment.rows):
            continue
        address = _address(store, index, segment)
        pinned = index.definitions if segment.definitions is None else segment.definitions
        definitions = PinnedDefinitions(pinned) if pinned else None
        data = load_segment(address.uri)
        for decoded in decoded_segment(data, address, is_wanted, SchemaIds(index.tables), definitions, _MOST_BYTES):
            yield from (item for item in decoded if isinstance(item, TableBatch))


def _address(store: SegmentStore, index: RangeIndex, segment: Segment) -> SegmentAddress:
    uri, rows = store.address(index, segment), sum(segment.rows.values())
    return SegmentAddress(uri, segment.file, segment.start_pos, rows, segment.commits, segment.definitions)


def _encoder(batch: TableBatch, columns: tuple[str, ...]) -> KeyEncoder | None:
    """Return the encoder of keys of these columns; None for a table that has not all of them, or none."""
    if not columns or not set(columns) <= {column.name for column in batch.schema.columns}:
        return None
    return key_encoder(replace(batch, schema=replace(batch.schema, primary_key=columns)))


def _keys(batch: TableBatch, columns: tuple[str, ...]) -> list[pa.BinaryArray]:
    """Return the keys of all images of a batch.

    Raises:
        DecodeError: an image does not tell its key.
    """
    try:
        encoder = _encoder(batch, columns)
    except TypeError as error:  # a value over `_MOST_BYTES`
        raise DecodeError(f"a key of {batch.schema.full_name} is too large to be compared") from error
    before, after = batch.before_row, batch.after_row
    olds = before[before >= 0]
    if encoder is None or not all(carried[olds].all() for carried in encoder.carried):
        raise DecodeError(f"a row change of {batch.schema.full_name} does not carry its key ({', '.join(columns)})")
    # What an after-image lacks is as it was before; a before-image lacks nothing of the key.
    updates = batch.op == UPDATE
    found = [encoder.keys(before, after)]
    if updates.any():
        found.append(encoder.keys(after[updates], before[updates]))
    return [pc.unique(keys) for keys in found]


def _whole(batch: TableBatch) -> bool:
    """Tell whether each update of a batch has every column in its before- or after-image."""
    sets = np.array(batch.presence_sets, np.bool_)
    if sets.all():
        return True
    updates = batch.op == UPDATE
    before, after = (sets[batch.presence[rows[updates]]] for rows in (batch.before_row, batch.after_row))
    return bool((before | after).all())


def _ordered(columns: tuple[str, ...], found: list[pa.BinaryArray]) -> TableKeys:
    hashes = [key_hashes(*text(keys)) for keys in found]
    joined = np.concatenate(hashes) if hashes else np.zeros(0, np.int32)
    keys = pa.chunked_array([keys.cast(pa.large_binary()) for keys in found], pa.large_binary()).combine_chunks()
    order = np.argsort(joined, kind="stable")
    return TableKeys(columns, keys.take(pa.array(order)), joined[order])


def _ranges(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return all numbers of ranges that are alike or apart, each once."""
    starts, first = np.unique(low, return_index=True)
    counts = high[first] - starts
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
