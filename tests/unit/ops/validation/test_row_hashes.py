"""Hashes by key: two sides compared as a dictionary would, and rows told by their numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from databus.core.protocols.validated_sink import held_schema
from databus.ops.validation.both_sides import BothSides
from databus.ops.validation.expected_rows import ExpectedRows
from databus.ops.validation.row_hashes import DifferingRows
from databus.ops.validation.row_spool import RowSpool

Row = tuple[str, bytes, bytes | None]
Compare = Callable[..., DifferingRows]


def batch(rows: list[Row]) -> pa.RecordBatch:
    names = ("output", "key", "content")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(found, schema=held_schema())


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Function that compares rows, three at a time."""

    def compared(
        wanted: list[Row], records: list[Row], later: list[Row] = [], withheld: set[int] = set()  # noqa: B006
    ) -> DifferingRows:  # fmt: skip
        with BothSides(tmp_path) as sides:
            for start in range(0, len(wanted), 3):
                part = wanted[start : start + 3]
                held = np.array([start + n in withheld for n in range(len(part))])
                sides.expect(ExpectedRows(batch(part), pa.array(["s.t"] * len(part)), held))
            for start in range(0, len(records), 3):
                sides.hold(batch(records[start : start + 3]))
            for row in later:
                sides.hold(batch([row]), later=True)
            seen = sides.differing()
            told = [key for rows in sides.expected_rows(seen.expected) for key in rows["key"].to_pylist()]
            assert told == [wanted[n][1] for n in seen.expected]
            return seen

    return compared


@pytest.mark.parametrize("seed", range(20))
def test_sides_differ_where_dictionaries_do(seed: int, compare: Compare) -> None:
    chance = random.Random(seed)

    def content() -> bytes:
        value = chance.randrange(2)
        return chance.choice((b'{"v":%d,"w":1}', b'{"v":%d.0,"w":1}', b'{"w":1, "v":%d}')) % value

    def meant(written: bytes | None) -> bool | None:
        return None if written is None else b'"v":1' in written

    keys: list[tuple[str, bytes]] = [(output, b"%d" % n) for output in "ab" for n in range(20)]
    wanted: list[Row] = [(*key, content()) for key in keys if chance.random() < 0.7]
    records, later = (
        [(*chance.choice(keys), None if chance.random() < 0.2 else content()) for _ in range(count)]
        for count in (100, chance.choice((0, 20)))
    )
    withheld = {n for n in range(len(wanted)) if chance.random() < 0.2}
    first = {(o, k): meant(written) for o, k, written in records}
    moments = {key: [first.get(key), *(meant(w) for o, k, w in later if (o, k) == key)] for key in keys}
    expects = {(o, k): meant(written) for n, (o, k, written) in enumerate(wanted) if n not in withheld}
    skipped = {wanted[n][:2] for n in withheld}
    other = {key for key in keys if expects.get(key) not in moments[key] and key not in skipped}
    seen = compare(wanted, records, later, withheld)
    assert {wanted[n][:2] for n in seen.expected} == other & expects.keys()
    assert {records[n][:2] for n in seen.held} == {key for key in other if first.get(key) is not None}
    last = {row[:2]: n for n, row in enumerate(records)}
    assert all(number == last[records[number][:2]] for number in seen.held)
    assert seen.alike == len(expects.keys() - other)
    assert (seen.held_back, seen.twice) == (len(skipped), 0)


def test_nothing_is_equal_to_nothing(compare: Compare) -> None:
    seen = compare([], [])
    assert (len(seen.expected), len(seen.held), seen.alike) == (0, 0, 0)


def test_a_key_that_two_rows_have_is_counted(compare: Compare) -> None:
    seen = compare([("a", b"1", b"x"), ("a", b"1", b"y")], [("a", b"1", b"y")])
    assert (len(seen.expected), seen.alike, seen.twice) == (0, 1, 1)


def test_a_foreign_value_is_no_row_of_the_same_text(compare: Compare) -> None:
    seen = compare([("a", b"1", b'{"v":1}')], [("a", b"1", b'\0{"v":1}')])
    assert (len(seen.expected), len(seen.held)) == (1, 1)


def test_a_spool_tells_rows_by_their_numbers(tmp_path: Path) -> None:
    rows: list[Row] = [("a", b"%d" % n, b"v") for n in range(10)]
    with RowSpool(tmp_path / "spool", held_schema()) as spool:
        for start in range(0, 10, 4):
            spool.append(batch(rows[start : start + 4]))
        spool.done()
        taken = [(numbers.tolist(), part["key"].to_pylist()) for numbers, part in spool.taken(np.array([9, 0, 4]))]
        assert taken == [([0], [b"0"]), ([4], [b"4"]), ([9], [b"9"])]
        assert (tmp_path / "spool").stat().st_mode & 0o077 == 0
    assert not (tmp_path / "spool").exists()
