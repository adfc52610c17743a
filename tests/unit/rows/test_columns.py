"""Views of columns: each value's bytes, nothing copied, whatever form and slice of a column they come from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from databus.rows.columns import views

TEXTS = ["x", "", "Заказ", None, "y" * 300]


def seen(array: pa.Array) -> list[bytes | None]:
    return [None if view is None else view.to_pybytes() for view in views(array)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_views_hold_the_bytes_of_each_value(kind: pa.DataType) -> None:
    column = pa.array([None if value is None else value.encode() for value in TEXTS], pa.binary()).cast(kind)
    wanted = [None if value is None else value.encode() for value in TEXTS]
    assert seen(column) == wanted
    assert seen(column.slice(1, 3)) == wanted[1:4]
    assert seen(column.slice(2, 0)) == []
    assert seen(pa.nulls(2, kind)) == [None, None]


def test_views_copy_nothing() -> None:
    column = pa.array([b"one", b"two"])
    first, second = views(column)
    assert first is not None
    assert second is not None
    assert first.address == column.buffers()[2].address
    assert second.address == first.address + 3
