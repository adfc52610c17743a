"""Hashes by key: two sides compared as a dictionary would, and rows told by their numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from databus.core.protocols.validated_sink import held_schema
from databus.ops.validation.row_hashes import RowHashes, differing
from databus.ops.validation.row_spool import RowSpool

Row = tuple[str, bytes, bytes | None]


def batch(rows: list[Row]) -> pa.RecordBatch:
    names = ("output", "key", "content")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(found, schema=held_schema())


def hashes(rows: list[Row], held: set[int] | None = None) -> RowHashes:
    made = RowHashes()
    for start in range(0, len(rows), 3):
        part = rows[start : start + 3]
        mask = None if held is None else np.array([start + n in held for n in range(len(part))])
        made.append(batch(part), mask)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_sides_differ_where_dictionaries_do(seed: int) -> None:
    chance = random.Random(seed)
    keys: list[tuple[str, bytes]] = [(output, b"%d" % n) for output in "ab" for n in range(20)]
    wanted: list[Row] = [(*key, b"%d" % chance.randrange(2)) for key in keys if chance.random() < 0.7]
    records: list[Row] = [
        (*chance.choice(keys), None if chance.random() < 0.2 else b"%d" % chance.randrange(2)) for _ in range(100)
    ]
    withheld = {n for n in range(len(wanted)) if chance.random() < 0.2}
    state = {(o, k): content for o, k, content in records}
    state = {key: content for key, content in state.items() if content is not None}
    expects = {(o, k): content for n, (o, k, content) in enumerate(wanted) if n not in withheld}
    skipped = {wanted[n][:2] for n in withheld}
    seen = differing(hashes(wanted, withheld).joined(), hashes(records).joined())
    assert {wanted[n][:2] for n in seen.expected} == {k for k, v in expects.items() if state.get(k) != v}
    assert {records[n][:2] for n in seen.held} == {
        k for k, v in state.items() if expects.get(k) != v and k not in skipped
    }
    assert [records[n][2] for n in seen.held] == [state[records[n][:2]] for n in seen.held]
    assert seen.alike == sum(state.get(k) == v for k, v in expects.items())
    assert (seen.held_back, seen.twice) == (len(skipped), 0)


def test_nothing_is_equal_to_nothing() -> None:
    seen = differing(RowHashes().joined(), RowHashes().joined())
    assert (len(seen.expected), len(seen.held), seen.alike) == (0, 0, 0)


def test_a_key_that_two_rows_have_is_counted() -> None:
    seen = differing(hashes([("a", b"1", b"x"), ("a", b"1", b"y")]).joined(), hashes([("a", b"1", b"y")]).joined())
    assert (len(seen.expected), seen.alike, seen.twice) == (0, 1, 1)


def test_a_spool_tells_rows_by_their_numbers(tmp_path: Path) -> None:
    rows: list[Row] = [("a", b"%d" % n, b"v") for n in range(10)]
    with RowSpool(tmp_path / "spool", held_schema()) as spool:
        for start in range(0, 10, 4):
            spool.append(batch(rows[start : start + 4]))
        spool.done()
        found = [key for part in spool.taken(np.array([9, 0, 4])) for key in part["key"].to_pylist()]
        assert found == [b"0", b"4", b"9"]
        assert (tmp_path / "spool").stat().st_mode & 0o077 == 0
    assert not (tmp_path / "spool").exists()
