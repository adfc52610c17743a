"""Chunk files give back the rows that went in, whole or not at all, in memory that their size does not move."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import hashlib
import os
import resource
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.store import LEFT_AGE_S, SegmentStore
from databus.core.errors import ChunkFileError, SegmentStoreFullError
from databus.core.state.snapshot import ChunkFile
from databus.sources.mysql.snapshot.chunk_file import open_chunk, read_chunk, without_touched, write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.touched_keys import TableKeys, TouchedKeys, _ordered
from databus.testing.table_batches import Unrepresentable, batch, table
from tests.unit.sources import chunk_memory_probe

VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (-128, 127), "smallint": (-(1 << 15), 1), "int": (-(1 << 31), (1 << 31) - 1),
    "bigint": (-(1 << 63), (1 << 63) - 1), "int unsigned": (0, (1 << 32) - 1),
    "bigint unsigned": (0, (1 << 64) - 1), "bit": (0, 1 << 63), "year": (1901, 2155), "float": (1.5, -0.0),
    "double": (1e308, -2.5), "decimal(12,2)": (Decimal("-1.25"), Decimal("9999999999.99")),
    "date": (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "datetime(6)": (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    "timestamp(6)": (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), dt.datetime(2038, 1, 19, tzinfo=dt.UTC)),
    "time(6)": (dt.timedelta(hours=-838), dt.timedelta(hours=838, microseconds=1)), "varchar(20)": ("", "äöü 🐬 '\"\\"),
    "text": ("x" * 70_000, "\x00\n"), "enum": ("a", ""), "set": ("a,b", ""), "json": ('{"a": 1}', "null"),
    "blob": (b"", bytes(range(256))), "binary": (b"\0", b"a"), "varbinary": (b"\xff", b"\xfe"),
}  # fmt: skip
"""Type → two values; each column has NULL beside them."""

SCHEMA = table("shop.orders", {"id": "int", "v": "varchar(40)", "d": "date"}, schema_id=3)
HEAD = ChunkHead(SCHEMA, 2, 7, 1_700_000_000_123)


def rows(*ids: int) -> TableBatch:
    images = [{"id": n, "v": f"row {n}", "d": dt.date(2026, 1, 1) if n % 3 else None} for n in ids]
    return batch(SCHEMA, [(None, image) for image in images], read=True)


def same(one: TableBatch, other: TableBatch) -> None:
    assert one.images.equals(other.images, check_metadata=True)
    assert one.images.schema == other.images.schema
    assert (one.schema, dict(one.exceptions)) == (other.schema, dict(other.exceptions))
    for name in ("op", "before_row", "after_row", "transaction", "ordinal", "presence"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
        assert getattr(one, name).dtype == getattr(other, name).dtype, name
    assert [set_.tolist() for set_ in one.presence_sets] == [set_.tolist() for set_ in other.presence_sets]


def touching(*ids: int) -> TouchedKeys:
    keys = [pa.array([f'{{"id":{n}}}'.encode() for n in ids], pa.binary())] if ids else []
    return TouchedKeys({"shop.orders": _ordered(("id",), keys)})


def ids_of(store: ChunkStore, file: ChunkFile) -> list[int]:
    found = list(read_chunk(store.address(file.name), file.sha256))
    ordinals = [int(n) for piece in found for n in piece.ordinal]
    assert ordinals == list(range(file.rows))
    return [n for piece in found for n in piece.images["id"].to_pylist()]


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ChunkStore:
    root = str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"
    return ChunkStore(root, "orders", "server")


def files_of(store: ChunkStore) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in store._files.find(store._home))


def test_every_type_and_exception_comes_back(store: ChunkStore) -> None:
    columns = {f"c{n}": kind for n, kind in enumerate(VALUES)}
    schema = table("shop.all", columns, ("c2",), schema_id=1)
    images: list[dict[str, Any]] = [
        {name: VALUES[kind][at] if at < 2 else None for name, kind in columns.items()} for at in range(3)
    ]
    bad = {"date": "0000-00-00", "datetime(6)": "2026-02-31 00:00:00", "varchar(20)": b"\xff\xfe", "text": b""}
    images.append({name: Unrepresentable(bad[kind]) if kind in bad else None for name, kind in columns.items()})
    one = batch(schema, [(None, image) for image in images], read=True)
    head = ChunkHead(schema, 1, 1, 5)

    file = write_chunk(store, head, [one])
    chunk = open_chunk(store.address(file.name), file.sha256)

    assert len({field.type for field in one.images.schema}) == 15
    assert [len(found) for found in one.exceptions.values()] == [1, 1, 1, 1]
    assert chunk.head == head
    (back,) = chunk.batches()
    same(back, one)
    assert [type(v) for f in back.exceptions.values() for v in f.values()] == [str, str, bytes, bytes]
    (again,) = chunk.batches()
    same(again, one)


def test_the_name_is_the_hash_of_what_only_the_owner_reads(tmp_path: Path) -> None:
    store = ChunkStore(str(tmp_path / "store"), "orders", "server")

    file = write_chunk(store, HEAD, [rows(1, 2), rows(3)])

    path = tmp_path / "store" / "orders" / "server" / "chunks" / file.name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    assert file == ChunkFile(f"{file.sha256}.chunk", file.sha256, "shop.orders", 3, 0)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert ids_of(store, file) == [1, 2, 3]
    assert write_chunk(store, HEAD, [rows(1, 2), rows(3)]) == file
    assert files_of(store) == [file.name]
    assert write_chunk(store, replace(HEAD, number=8), [rows(1, 2), rows(3)]).name != file.name


def test_a_chunk_without_rows_is_a_file_too(store: ChunkStore) -> None:
    file = write_chunk(store, HEAD, [])

    assert (file.rows, file.superseded) == (0, 0)
    assert ids_of(store, file) == []
    left = write_chunk(store, HEAD, [rows(1, 2)], touching(1, 2))
    assert (left.rows, left.superseded) == (0, 2)
    assert ids_of(store, left) == []


def test_touched_rows_are_left_out_and_counted(store: ChunkStore) -> None:
    one = rows(*range(10))
    odd = batch(SCHEMA, [(None, {"id": n, "v": Unrepresentable(b"\xff"), "d": None}) for n in range(10, 14)], read=True)
    touched = touching(0, 3, 9, 11, 12, 999)

    file = write_chunk(store, HEAD, [one, odd, rows(20)], touched)

    assert (file.rows, file.superseded) == (10, 5)
    assert ids_of(store, file) == [1, 2, 4, 5, 6, 7, 8, 10, 13, 20]
    kept = list(read_chunk(store.address(file.name), file.sha256))
    assert [dict(piece.exceptions) for piece in kept] == [{}, {1: {0: b"\xff", 1: b"\xff"}}, {}]

    whole = write_chunk(store, HEAD, [one, odd, rows(20)])
    assert without_touched(store, whole, touching()) is whole
    assert without_touched(store, whole, touching(999)) == whole
    assert sorted(files_of(store)) == sorted({whole.name, file.name})
    assert without_touched(store, whole, touched) == file
    assert files_of(store) == [file.name]
    assert without_touched(store, file, touching(20)).superseded == 6


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "empty", "gone"])
def test_a_damaged_file_gives_no_row(store: ChunkStore, damage: str) -> None:
    file = write_chunk(store, HEAD, [rows(*range(n, n + 500)) for n in range(0, 5_000, 500)])
    path, files = f"{store._home}/{file.name}", store._files
    data = files.cat_file(path)
    spots = np.linspace(0, len(data) - 1, 7).astype(int).tolist() if damage == "flip" else [0]
    for spot in spots:
        changed = {
            "flip": data[:spot] + bytes([data[spot] ^ 1]) + data[spot + 1 :],
            "cut": data[:-1],
            "longer": data + b"\0",
            "empty": b"",
            "gone": b"",
        }[damage]
        if damage == "gone":
            files.rm_file(path)
        else:
            files.pipe_file(path, changed)

        with pytest.raises(ChunkFileError, match="is gone" if damage == "gone" else "is damaged") as refused:
            next(read_chunk(store.address(file.name), file.sha256))
        assert file.name in refused.value.message
        assert "planned anew" in str(refused.value.hint)
        assert not refused.value.retryable
    files.pipe_file(path, data)
    assert ids_of(store, file) == list(range(5_000))


def test_what_is_no_chunk_is_named(store: ChunkStore) -> None:
    write_chunk(store, HEAD, [])
    text = b"no stream of Arrow"
    sha256 = hashlib.sha256(text).hexdigest()
    store._files.pipe_file(f"{store._home}/{sha256}.chunk", text)

    with pytest.raises(ChunkFileError, match="cannot be read"):
        open_chunk(store.address(f"{sha256}.chunk"), sha256)


def test_a_reader_that_breaks_off_leaves_nothing(store: ChunkStore) -> None:
    def broken() -> Iterator[TableBatch]:
        yield rows(1)
        raise ConnectionError("the server is gone")

    with pytest.raises(ConnectionError, match="the server is gone"):
        write_chunk(store, HEAD, broken())
    assert files_of(store) == []


def test_a_full_store_is_named_and_keeps_nothing(tmp_path: Path) -> None:
    store = ChunkStore(str(tmp_path), "orders", "server")
    noise = [
        batch(SCHEMA, [(None, {"id": n, "v": os.urandom(20_000).hex(), "d": None}) for n in range(100)], read=True)
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(SegmentStoreFullError, match=r"bytes were to be written there, \d+ are free"):
            write_chunk(store, HEAD, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert files_of(store) == []
    assert write_chunk(store, HEAD, noise).rows == 100


def test_what_is_no_row_of_the_chunk_is_refused(store: ChunkStore) -> None:
    insert = batch(SCHEMA, [(None, {"id": 1, "v": "a", "d": None})])
    partial = batch(SCHEMA, [(None, {"id": 1, "v": "a"})], read=True)
    other = replace(rows(1), schema=replace(SCHEMA, table="items"))
    large = replace(rows(1), exceptions={1: {0: LargeValue(np.zeros(1, np.uint8), None)}})
    for refused in (insert, partial, large, other):
        with pytest.raises(ValueError, match=r"op READ|do not belong|left outside"):
            write_chunk(store, HEAD, [refused])
    assert files_of(store) == []
    assert write_chunk(store, HEAD, [replace(rows(1), schema=replace(SCHEMA, schema_id=9))]).rows == 1


def test_only_files_of_no_plan_are_swept(tmp_path: Path) -> None:
    store = ChunkStore(str(tmp_path), "orders", "server")
    planned, left, young = (write_chunk(store, replace(HEAD, number=n), [rows(n)]) for n in range(3))
    staged = store.stage()
    staged.write_bytes(b"half")
    home, past = tmp_path / "orders" / "server" / "chunks", time.time() - LEFT_AGE_S - 60
    now = time.time()
    for path in (home / young.name, home / planned.name, home / left.name, staged, home):
        os.utime(path, (past, past))
    assert SegmentStore(str(tmp_path), "orders", "server").leftovers(now) == []
    os.utime(home / young.name, (now, now))

    assert sorted(store.old(now)) == sorted([planned.name, left.name, staged.name])
    assert store.sweep(store.old(now), None) == []
    assert sorted(store.sweep(store.old(now), {planned.name})) == sorted([left.name, staged.name])
    assert files_of(store) == sorted([planned.name, young.name])
    store.delete(planned.name)
    store.delete(planned.name)
    assert files_of(store) == [young.name]


def test_a_hash_alone_touches_no_row() -> None:
    """Keys whose hashes collide: the bytes decide."""
    numbers = list(range(300_000))
    keys = pa.array([f'{{"id":{n}}}'.encode() for n in numbers], pa.binary())
    touched: TableKeys = _ordered(("id",), [keys.slice(0, 150_000), keys.slice(0, 10)])
    others = keys.slice(150_000)
    far = _ordered(("id",), [others])
    alike = np.isin(far.hashes, touched.hashes)

    assert alike.sum() >= 3
    assert not touched.mask(others).any()
    assert touched.mask(keys).tolist() == [n < 150_000 for n in numbers]


def test_memory_does_not_grow_with_the_chunk(tmp_path: Path) -> None:
    few, many = (chunk_memory_probe.measure(tmp_path / str(count), count) for count in (8, 40))

    assert many["file_mib"] - few["file_mib"] > 240
    for mode in ("write_mib", "read_mib", "left_mib"):
        assert many[mode] - few[mode] < 60, (few, many)
