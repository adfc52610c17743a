"""Chunk files as splits: rows of op "r" in both forms, in front of the log's, under event ids of their own."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.segments.chunk_store import ChunkStore
from databus.core.errors import ChunkFileError, DecodeError
from databus.core.events import ROW_COLUMNS
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan
from databus.core.state.snapshot import ChunkFile
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.violation_bits import MARKS
from databus.rows.violations import ColumnValues, ImageMarks
from databus.runtime.direct.task import in_order
from databus.sinks import envelope, envelope_text
from databus.sources.mysql.row_filters import ModuloPartition, RowFilters
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.mysql.snapshot.chunk_file import write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.chunk_split import ChunkSplit, shared_chunks
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

ORDERS = table("shop.orders", {"id": "int", "v": "text"}, schema_id=1)
ITEMS = table("shop.items", {"a": "int", "b": "varchar(9)"}, (), schema_id=0)
TABLES = (ITEMS, ORDERS)


def read(schema: Any, *images: dict[str, Any]) -> TableBatch:
    return batch(schema, [(None, image) for image in images], read=True)


def orders(*ids: int) -> TableBatch:
    return read(ORDERS, *({"id": n, "v": f"row {n}"} for n in ids))


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    return ChunkStore(str(tmp_path), "orders", "server")


@pytest.fixture
def files(store: ChunkStore) -> list[ChunkFile]:
    """Three chunks: rows 0 to 4, none, two of a table without a key; each with its own schema ids."""
    odd = read(ITEMS, {"a": 1, "b": Unrepresentable(b"\xff")}, {"a": None, "b": "x"})
    made = (
        (replace(ORDERS, schema_id=77), [orders(0, 1, 2), orders(3, 4)], 1_000),
        (replace(ORDERS, schema_id=0), [], 2_000),
        (replace(ITEMS, schema_id=5), [odd], 3_000),
    )
    return [write_chunk(store, ChunkHead(s, 2, 11 + n, at), batches) for n, (s, batches, at) in enumerate(made)]


def split_of(files: list[ChunkFile], store: ChunkStore, **options: Any) -> ChunkSplit:
    (group,) = shared_chunks(files, store, 1)
    return ChunkSplit(group, "bin.000007", 400, TABLES, **options)


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for piece in batches for row in piece.to_pylist()]


def test_rows_say_where_they_come_from(files: list[ChunkFile], store: ChunkStore) -> None:
    split = pickle.loads(pickle.dumps(split_of(files, store, prefix="log3/")))
    text = rows_of(split.read_text({}))

    assert [row["event_id"] for row in text] == [
        *(f"log3/snapshot-2-11-1000:{n}:0" for n in range(5)),
        *(f"log3/snapshot-2-13-3000:{n}:0" for n in range(2)),
    ]
    assert [row["ordinal"] for row in text] == list(range(7))
    assert {(row["op"], row["log"], row["place"], row["part"]) for row in text} == {("r", "bin.000007", 400, 0)}
    assert {(row["transaction"], row["server_id"], row["statement"]) for row in text} == {("", 0, None)}
    assert [row["ts_ms"] for row in text] == [1_000] * 5 + [3_000] * 2
    assert [row["schema_id"] for row in text] == [1] * 5 + [0] * 2
    assert [row["key"] for row in text] == [*(f'{{"id":{n}}}'.encode() for n in range(5)), None, None]
    assert [row["flags"] for row in text] == [None] * 5 + [["after.b:undecodable"], None]
    assert all(row["before"] is row["absent"] is row["other_key"] is None for row in text)
    assert [json.loads(row["after"]) for row in text[4:]] == [
        {"id": 4, "v": "row 4"}, {"a": 1, "b": "/w=="}, {"a": None, "b": "x"}
    ]  # fmt: skip
    variant = list(split.read())
    assert {tuple(piece.schema.names) for piece in variant} == {tuple(name for name, _ in ROW_COLUMNS)}
    for same in ("key", "key_hash", "event_id", "ordinal", "op", "flags"):
        assert [row[same] for row in rows_of(iter(variant))] == [row[same] for row in text]
    assert rows_of(split.read_text({})) == text


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_any_number_of_splits_gives_the_same_rows_in_front_of_the_log(
    files: list[ChunkFile], store: ChunkStore, count: int
) -> None:
    groups = shared_chunks(files, store, count)
    splits = [ChunkSplit(group, "bin.000007", 400, TABLES) for group in groups]
    log = replace(transactions(file="bin.000007"), end_pos=np.array([401]))
    following = emit(batch(ORDERS, [(None, {"id": 1, "v": "x"})]), log, "srv", json_form({}))

    assert len(groups) == min(count, 2)
    read_all = in_order(
        piece for batches in (*(s.read_text({}) for s in splits), following) for piece in batches
    )  # fmt: skip
    found = rows_of(read_all)
    assert found[:-1] == rows_of(split_of(files, store).read_text({}))
    assert found[-1]["op"] == "c"
    turned = [piece for split in reversed([split_of(files, store)]) for piece in (*following, *split.read_text({}))]
    with pytest.raises(DecodeError, match="out of order"):
        list(in_order(turned))


def test_filtered_rows_are_counted_without_key_and_image(files: list[ChunkFile], store: ChunkStore) -> None:
    odd = RowFilters((ModuloPartition(tables=("shop.orders",), column="id", modulus=2, remainders=(1,)),))
    split = split_of(files, store, filters=odd)

    for found in (rows_of(split.read()), rows_of(split.read_text({}))):
        assert [row["op"] for row in found] == ["f", "r", "f", "r", "f", "r", "r"]
        assert [row["key"] for row in found[:3]] == [None, b'{"id":1}', None]
        assert [row["after"] is None for row in found] == [row["op"] == "f" for row in found]
        assert [row["ordinal"] for row in found] == list(range(7))
    none = RowFilters((ModuloPartition(tables=("shop.*",), column="id", modulus=9, remainders=(8,)),))
    everything_out = [row["op"] for row in rows_of(split_of(files[:1], store, filters=none).read_text({}))]
    assert everything_out == ["f"] * 5


@dataclass(frozen=True)
class _Third:
    """A check that one value violates; of op "d" too."""

    ops: tuple[str, ...] = ("c", "u", "r", "d")

    def violated_by(self, values: ColumnValues) -> Any:
        return np.array([value == "row 3" for value in values.array.to_pylist()], np.bool_)


def test_row_checks_look_at_what_was_read(files: list[ChunkFile], store: ChunkStore) -> None:
    marks = ImageMarks({1: ((2, "v", _Third()),)})
    odd = RowFilters((ModuloPartition(tables=("shop.orders",), column="id", modulus=2, remainders=(1,)),))
    for filters, expected in ((RowFilters(), [0, 0, 0, 4, 0, 0, 0]), (odd, [0, 0, 0, 4, 0, 0, 0])):
        found = rows_of(split_of(files, store, filters=filters).read_text({}, marks))
        assert [row[MARKS] for row in found] == expected


def test_values_that_are_too_large_leave_their_rows(store: ChunkStore, tmp_path: Path) -> None:
    text = "x" * 5_000
    file = write_chunk(store, ChunkHead(ORDERS, 1, 1, 0), [read(ORDERS, {"id": 1, "v": text}, {"id": 2, "v": "y"})])
    split = split_of([file], store, large_values=LargeValueRules(str(tmp_path / "claims"), 1_000))

    one, two = rows_of(split.read_text({}))
    reference = json.loads(json.loads(one["after"])["v"])
    assert (one["flags"], two["flags"]) == (["after.v:claimed"], None)
    assert reference["bytes"] == 5_000
    assert Path(reference["claim"].removeprefix("file://")).read_text() == text


def test_the_envelope_says_that_a_snapshot_read_them(files: list[ChunkFile], store: ChunkStore) -> None:
    places = OffsetRange(BinlogOffset("bin.000007", 400), BinlogOffset("bin.000007", 900))
    plan = Plan("test", "orders", 3, places, {}, "spec", datetime(2026, 1, 1, tzinfo=UTC))
    schema = jsonschema.Draft202012Validator(envelope.schema("debezium"))
    values = [
        json.loads(value)
        for piece in split_of(files, store).read_text({})
        for value in envelope_text.debezium(piece, plan).to_pylist()
    ]

    for number, value in enumerate(values):
        schema.validate(value)
        source = value["source"]
        assert (value["op"], value["before"], value["transaction"]) == ("r", None, None)
        assert (source["snapshot"], source["file"], source["pos"]) == ("true", "bin.000007", 400)
        assert (source["gtid"], source["row"], source["server_id"]) == (None, number, 0)
        assert source["ts_ms"] == (1_000 if number < 5 else 3_000)
    assert len(values) == 7
    assert values[6]["source"]["event_id"] == "snapshot-2-13-3000:1:0"


def test_another_count_or_schema_than_planned_is_refused(files: list[ChunkFile], store: ChunkStore) -> None:
    for rows in (4, 6):
        with pytest.raises(ChunkFileError, match=f"holds 5 rows where {rows} were planned"):
            list(split_of([replace(files[0], rows=rows)], store).read_text({}))
    split = replace(split_of(files, store), tables=(ITEMS, replace(ORDERS, columns=ORDERS.columns[:1])))
    with pytest.raises(ChunkFileError, match=r"rows of shop\.orders as no schema of the plan"):
        list(split.read_text({}))


def test_a_file_that_is_gone_gives_no_row(files: list[ChunkFile], store: ChunkStore) -> None:
    split = split_of(files[:1], store)
    store.delete(files[0].name)
    for form in (split.read(), split.read_text({})):
        with pytest.raises(ChunkFileError, match="is gone"):
            next(form)
