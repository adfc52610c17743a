"""JSON strings of a column are those of `json.dumps`, whether no value, some or all of them want escapes."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from databus.rows.json_text import quoted

PLAIN = st.text("abc é漢/", max_size=40)
ESCAPED = st.text('a"\\\b\f\n\r\t\x00\x1f\x7fé', max_size=40)
TEXTS = st.lists(st.none() | PLAIN, max_size=20) | st.lists(st.none() | PLAIN | ESCAPED, max_size=20)


@given(TEXTS, st.integers(0, 20))
def test_quoted_is_what_json_dumps_writes(values: list[str | None], start: int) -> None:
    wanted = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    column = pa.array(values, pa.string())
    assert quoted(column).to_pylist() == wanted
    assert quoted(column.slice(start)).to_pylist() == wanted[start:]
