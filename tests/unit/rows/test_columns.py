"""Views of columns: each value's bytes, nothing copied, whatever form and slice of a column they come from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from databus.rows.columns import fixed, text, views

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


@pytest.mark.parametrize("values", [TEXTS, [1, None, 3]], ids=["texts", "numbers"])
def test_a_column_that_came_from_another_process_is_seen_as_one_made_here(values: list[object]) -> None:
    """Kernels are compiled for each kind of array: one that may be written to is another kind."""
    made = pa.record_batch({"c": values})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, made.schema) as writer:
        writer.write(made)
    sent = pa.ipc.open_stream(stream.getvalue()).read_next_batch()
    for batch in (made, sent, sent.slice(1)):
        column = batch["c"]
        arrays = text(column) if pa.types.is_string(column.type) else (fixed(column, "int64"),)
        assert [array.flags.writeable for array in arrays] == [False] * len(arrays)
