"""The rows of the mock source, computed from their numbers alone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, TableBatch, Transactions
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sources.mock.spec import LOG_FILE

# Ten changes of a table: six inserts, three updates of the first three rows, the sixth row deleted.
_CYCLE, _INSERTS, _UPDATES = 10, 6, 3
_WORDS = pa.array(["new", "paid", "packed", "shipped", "café", "returned", "a much longer state than the others", ""])


@dataclass(frozen=True)
class MockTable:
    """Mock table.

    Attributes:
        schema: its columns; the first is the key.
        seed: decides its values.
        null_ratio: share of NULLs.
    """

    schema: TableSchema
    seed: int
    null_ratio: float

    def batch(
        self, numbers: npt.NDArray[np.int64], transaction: npt.NDArray[np.int32], ordinal: npt.NDArray[np.int64]
    ) -> TableBatch:
        """Return the row changes with these numbers within the table."""
        group, place = np.divmod(numbers, _CYCLE)
        op = np.where(place < _INSERTS, INSERT, np.where(place < _INSERTS + _UPDATES, UPDATE, DELETE)).astype(np.int8)
        of_cycle = np.where(op == INSERT, place, np.where(op == UPDATE, place - _INSERTS, _INSERTS - 1))
        key = group * _INSERTS + of_cycle
        has_before, has_after = op != INSERT, op != DELETE
        images = np.cumsum(has_before.astype(np.int32) + has_after)
        first = np.concatenate(([0], images[:-1])).astype(np.int32)
        n = int(images[-1]) if len(images) else 0
        before = np.where(has_before, first, np.int32(-1)).astype(np.int32)
        after = np.where(has_after, first + has_before, np.int32(-1)).astype(np.int32)
        keys, versions = np.zeros(n, np.int64), np.zeros(n, np.int64)
        keys[before[has_before]] = key[has_before]
        keys[after[has_after]] = key[has_after]
        versions[after[op == UPDATE]] = 1
        return TableBatch(
            self.schema,
            self._images(keys, versions),
            op,
            before,
            after,
            transaction,
            ordinal,
            np.zeros(n, np.int32),
            (np.ones(len(self.schema.columns), np.bool_),),
        )

    def _images(self, keys: npt.NDArray[np.int64], versions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        arrays, names = [pa.array(keys)], ["id"]
        for column in self.schema.columns[1:]:
            salt = zlib.crc32(f"{self.seed}:{self.schema.full_name}:{column.name}".encode())
            bits = _mix(keys.astype(np.uint64) * np.uint64(2) + versions.astype(np.uint64), salt)
            null = _mix(bits, 1) < np.uint64(int(self.null_ratio * (2**64 - 1)))
            arrays.append(_values(column.type, bits, null))
            names.append(column.name)
        return pa.RecordBatch.from_arrays(arrays, names)


def mock_tables(
    names: tuple[str, ...], columns: Mapping[str, str], seed: int, null_ratio: float
) -> tuple[MockTable, ...]:
    """Return the tables; `schema_id` is the place in `names`."""
    layout = (
        ColumnSchema("id", "bigint", "bigint", nullable=False),
        *(ColumnSchema(name, kind, _spark_type(kind)) for name, kind in columns.items()),
    )
    found = []
    for schema_id, name in enumerate(names):
        database, _, table = name.partition(".")
        found.append(MockTable(TableSchema(schema_id, database, table, layout, ("id",)), seed, null_ratio))
    return tuple(found)


def transactions(first: int, last: int, since_ms: float, step_ms: float) -> Transactions:
    """Return transactions first … last, both inclusive; a transaction's number is its position."""
    number = np.arange(first, last + 1, dtype=np.int64)
    return Transactions(
        LOG_FILE,
        number - 1,
        number,
        pa.array([""] * len(number), pa.string()),
        commit_ms(number, since_ms, step_ms),
        np.ones(len(number), np.int64),
    )


def commit_ms(number: npt.NDArray[np.int64], since_ms: float, step_ms: float) -> npt.NDArray[np.int64]:
    """Return commit times of transactions by number, one each `step_ms` after `since_ms` (since the epoch)."""
    stamps: npt.NDArray[np.int64] = (since_ms + number * step_ms).astype(np.int64)
    return stamps


def _values(  # noqa: PLR0911 - one return per type
    kind: str, bits: npt.NDArray[np.uint64], null: npt.NDArray[np.bool_]
) -> pa.Array:
    if kind == "varchar":
        text = _WORDS.take(pa.array((bits % np.uint64(len(_WORDS))).astype(np.int64)))
        return pa.compute.if_else(pa.array(null), pa.scalar(None, pa.string()), text)
    if kind == "double":
        return pa.array(bits.astype(np.float64) / 2**64 * 1000, mask=null)
    if kind == "bigint":
        return pa.array(bits.view(np.int64), mask=null)
    if kind == "int":
        return pa.array(bits.astype(np.uint32).view(np.int32), mask=null)
    if kind == "date":
        return pa.array((bits % np.uint64(20_000)).astype(np.int32), pa.int32(), mask=null).cast(pa.date32())
    numbers = [int(n) for n in re.findall(r"\d+", kind)]
    if kind.startswith("datetime"):
        step = 10 ** (6 - numbers[0])
        micros = (bits % np.uint64(2_000_000_000_000_000)).astype(np.int64) // step * step
        return pa.array(micros, pa.timestamp("us"), mask=null)
    precision, scale = numbers
    digits = (bits % np.uint64(10 ** min(precision, 18))).astype(np.int64)
    unscaled = pa.array(digits, mask=null).cast(pa.decimal128(38, 0)).cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(unscaled), unscaled.buffers(), unscaled.null_count
    )


def _spark_type(kind: str) -> str:
    if kind == "varchar":
        return "string"
    return "timestamp_ntz" if kind.startswith("datetime") else kind


def _mix(values: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits (SplitMix64: Steele et al., "Fast Splittable Pseudorandom Generators", 2014)."""
    with np.errstate(over="ignore"):
        z = values + np.uint64((salt * 0x9E3779B97F4A7C15) & (2**64 - 1))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
