"""Rows counted as quarantined against those that are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.counts import TableCounts
from databus.ops.ledger_verify import _quarantine


@pytest.mark.parametrize(
    ("held", "checked", "problems"),
    [
        ({7: 1, 8: 2}, {7: 1}, ()),
        ({8: 2}, {}, ("batch 7 counts 1 rows, 0 are kept",)),
        ({12: 1, 8: 2}, {12: 1}, ()),  # 021bfd3 gave the row the number of a sink's batch that was behind
        ({12: 1, 8: 2}, {}, ("batch 7 counts 1 rows, 0 are kept",)),  # a refusal of that sink itself
        ({12: 1}, {12: 1}, ("batch 7 counts 1 rows, 0 are kept", "batch 8 counts 2 rows, 0 are kept")),
    ],
)
def test_rows_that_are_counted_are_kept(
    held: dict[int, int], checked: dict[int, int], problems: tuple[str, ...]
) -> None:
    spans = [
        SimpleNamespace(batch=batch, partial=False, tables={"shop.orders": TableCounts(5, 0, rows, 5 - rows)})
        for batch, rows in ((7, 1), (8, 2))
    ]
    state: Any = SimpleNamespace(ledger=SimpleNamespace(spans=spans))
    found = _quarantine(state, held, checked)
    assert (found.looked_at, found.problems) == (("3 rows counted against those kept",), problems)
