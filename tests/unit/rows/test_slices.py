from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sources.mysql.segments.emission import sliced
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

SCHEMA = table("shop.t", {"id": "int", "v": "text", "day": "date"})


def changes(count: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for n in range(count):
        old = {"id": n, "v": "é" * (n % 3), "day": Unrepresentable("0000-00-00") if n % 5 == 0 else None}
        new = {"id": n + n % 2, "v": None}
        found.append(((None, old), (old, new), (old, None))[n % 3])
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 40, 41, 1000])
def test_the_pieces_are_the_whole(size: int) -> None:
    whole = batch(SCHEMA, changes(41), transactions=[n // 10 for n in range(41)])
    images = len(whole.presence)
    whole = replace(whole, partial={1: frozenset(range(0, images, 3))}, unjudged={0: frozenset(range(0, images, 4))})
    pieces = list(sliced(whole, size))
    rows = [
        row for piece in pieces for b in emit(piece, transactions(5), "srv", json_form({})) for row in b.to_pylist()
    ]

    assert [len(piece) for piece in pieces] == [size] * (41 // size) + ([41 % size] if 41 % size else [])
    assert rows == pa.Table.from_batches(emit(whole, transactions(5), "srv", json_form({}))).to_pylist()


def test_an_empty_batch() -> None:
    assert [len(piece) for piece in sliced(batch(SCHEMA, []), 10)] == [0]
