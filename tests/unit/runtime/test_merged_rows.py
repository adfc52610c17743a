"""Merge of the lanes' rows: any two streams of one log, cut anywhere, come out as the log has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import DecodeError
from databus.runtime.direct import merged_rows
from databus.runtime.direct.merged_rows import merged

SCHEMA = pa.schema(
    {"value": pa.binary(), "log": pa.string(), "place": pa.int64(), "ordinal": pa.int64(), "part": pa.int16()}
)
PLACES = st.tuples(
    st.sampled_from(["log.9", "log.10", "log.11"]), st.integers(4, 7), st.integers(0, 3), st.integers(0, 1)
)
Row = tuple[str, int, int, int]


def in_log(row: Row) -> Any:
    return (len(row[0]), *row)


def batch(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = [[str(row).encode() for row in rows], *([row[n] for row in rows] for n in range(4))]
    arrays = dict(zip(SCHEMA.names, map(pa.array, columns, SCHEMA.types), strict=True))
    return pa.RecordBatch.from_arrays([arrays[f.name].cast(f.type) for f in schema], schema=schema)


def cut(rows: Sequence[Row], bounds: Sequence[int], schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    places = sorted({0, len(rows), *(bound % (len(rows) + 1) for bound in bounds)})
    for start, stop in itertools.pairwise(places):
        yield batch(rows[start:stop], schema)
        yield batch([], schema)


def told(batches: Any) -> list[bytes]:
    return [value for each in batches for value in each["value"].to_pylist()]


@given(st.sets(PLACES, max_size=60), st.integers(0), st.lists(st.integers(0)), st.lists(st.integers(0)), st.booleans())
def test_rows_come_in_log_order(rows: set[Row], lane: int, ours: list[int], theirs: list[int], alike: bool) -> None:
    """Also where the lanes' columns cannot be one Arrow column, and where they stand in another order."""
    ordered = sorted(rows, key=in_log)
    direct = [row for number, row in enumerate(ordered) if lane >> number & 1]
    spark = [row for number, row in enumerate(ordered) if not lane >> number & 1]
    other = pa.schema(list(reversed(SCHEMA))) if alike else SCHEMA.append(pa.field("more", pa.string()))
    if alike:
        found = merged(cut(direct, ours), cut(spark, theirs, other))
    else:
        more = (each.append_column("more", pa.nulls(each.num_rows, pa.string())) for each in cut(spark, theirs))
        found = merged(cut(direct, ours), more)
    assert told(found) == [str(row).encode() for row in ordered]


@given(st.sets(PLACES, min_size=1, max_size=30), st.data())
def test_a_place_in_both_streams_is_refused(rows: set[Row], data: st.DataObject) -> None:
    ordered = sorted(rows, key=in_log)
    shared = data.draw(st.sampled_from(ordered))
    other = sorted({shared, *data.draw(st.sets(st.sampled_from(ordered)))}, key=in_log)
    with pytest.raises(DecodeError):
        told(merged(cut(ordered, data.draw(st.lists(st.integers(0)))), cut(other, [])))


def test_rows_out_of_order_are_refused() -> None:
    first, second, third = ("log.1", 4, 0, 0), ("log.1", 5, 0, 0), ("log.1", 6, 0, 0)
    with pytest.raises(DecodeError, match=r"log\.1:4 \(row 0, part 0\) behind log\.1:5"):
        told(merged([batch([second, first])], [batch([third])]))
    with pytest.raises(DecodeError, match=r"log\.1:4 \(row 0, part 0\) behind log\.1:6"):
        told(merged([batch([third]), batch([first])], [batch([second])]))
    with pytest.raises(DecodeError, match="out of order"):
        told(merged([batch([third]), batch([second])], []))


def test_large_pieces_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_rows, "_COPIED_BYTES", 0)
    ordered: list[Row] = [("log.1", place, 0, 0) for place in range(4, 12)]
    found = list(merged([batch(ordered[::3])], [batch([row for n, row in enumerate(ordered) if n % 3])]))
    assert [each.num_rows for each in found] == [1, 2, 1, 2, 1, 1]
    assert told(found) == [str(row).encode() for row in ordered]


def test_an_end_of_the_reader_ends_both() -> None:
    """A writer that stops in the middle closes the merge: nothing runs on behind it."""
    rows: list[Row] = [("log.1", place, 0, 0) for place in range(4, 8)]
    found = merged(iter([batch(rows[:1]), batch(rows[2:3])]), iter([batch(rows[1:2]), batch(rows[3:])]))
    assert told([next(found)]) == [str(rows[0]).encode()]
    found.close()
    assert list(found) == []
