"""Splits of some tables: those of all tables together give what the whole split gives, in each form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from databus import Mock
from databus.core.tables.schemas import NO_SCHEMA
from databus.sources.mock.source import MockSplit
from databus.sources.split_rows import SplitRows, of_tables

TABLES = ("shop.a", "shop.b", "shop.c")
SPEC = Mock(tables=TABLES, columns={"v": "int", "w": "varchar"}, rows=500, rows_per_transaction=7)
WHOLE = MockSplit({k: v for k, v in SPEC.to_json().items() if k != "kind"}, 1, 71)


@dataclass(frozen=True)
class Careless(SplitRows):
    """A split of another package, which writes the rows of all tables whatever it is asked for."""

    def _rows(self, form: Any) -> Iterator[pa.RecordBatch]:
        yield from WHOLE.read_in(replace(form, only=None))


def rows_of(split: Any, form: str) -> list[dict[str, Any]]:
    found = split.read() if form == "variant" else split.read_text({})
    rows = [row for batch in found for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["place"], row["ordinal"], row["part"]))


@pytest.mark.parametrize("form", ["variant", "text"])
@pytest.mark.parametrize("split", [WHOLE, Careless()], ids=["ours", "careless"])
def test_the_tables_rows_are_the_whole(split: SplitRows, form: str) -> None:
    whole = rows_of(split, form)
    assert {row["schema_id"] for row in whole} == {0, 1, 2}
    for only in ({1}, {0, 2, NO_SCHEMA}, {NO_SCHEMA}):
        parts = of_tables([split, split], frozenset(only))
        assert parts is not None
        assert [rows_of(part, form) for part in parts] == [[row for row in whole if row["schema_id"] in only]] * 2


def test_a_split_that_cannot_leave_rows_out_is_not_cut() -> None:
    class Other:
        """As much as `Split` asks for."""

        def read(self) -> Iterator[pa.RecordBatch]:
            yield from ()

    assert of_tables([WHOLE, Other()], frozenset({1})) is None
