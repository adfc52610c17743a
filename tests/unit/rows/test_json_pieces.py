from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.rows.json_pieces import Values, join


def test_constants_columns_nulls_and_shared_values() -> None:
    column = pa.array(["a", None, "", "é"])
    shared = Values(pa.array([b"X", None], pa.binary()), np.array([0, 1, 1, 0], np.int32))

    joined = join([b"<", b"<", Values(column), b"", b"|", shared, b">"], 4)

    assert joined.to_pylist() == [b"<<a|X>", b"<<null|null>", b"<<|null>", "<<é|X>".encode()]
    assert joined.null_count == 0


def test_no_rows() -> None:
    assert join([b"x", Values(pa.array([], pa.string()))], 0).to_pylist() == []


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=60), st.integers(1, 60))
def test_any_slice_of_any_column(values: list[bytes], repeat: int) -> None:
    column = pa.array(values * repeat, pa.binary()).slice(1)

    assert join([Values(column), b","], len(column)).to_pylist() == [v + b"," for v in (values * repeat)[1:]]
