"""Rows and row checks with the rows that violate them: the same wherever a check is judged, in Spark or before it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from databus.checks.accepted_values import AcceptedValues
from databus.checks.in_range import InRange
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.testing.table_batches import Unrepresentable, table

SCHEMA = table(
    "shop.orders",
    {"id": "int", "status": "varchar(9)", "amount": "decimal(12,2)", "n": "int", "f": "float", "day": "date"},
)


def row(id: int, **values: Any) -> dict[str, Any]:  # noqa: A002
    full = {"status": "new", "amount": Decimal("1.50"), "n": 5, "f": 0.1, "day": dt.date(2024, 1, 1)}
    return {"id": id} | full | values


_NULLS = dict.fromkeys(("status", "amount", "n", "f", "day"))
_LOW = {"status": "", "amount": Decimal("-1.01"), "n": 4, "f": 0.0, "day": dt.date(2023, 12, 31)}
_HIGH = {"status": "NEW", "amount": Decimal("9999999999.99"), "n": 6, "f": 1e30, "day": Unrepresentable("0000-00-00")}

ROWS = [
    (None, row(0)),
    (None, row(1, **_NULLS)),
    (row(2), row(2, **_LOW)),
    (None, row(3, **_HIGH)),
    (row(4, **_NULLS), None),
    ({"id": 5}, {"id": 5}),
]
"""Inserted as usual, inserted with NULLs, changed to low values, inserted with high ones, deleted, a partial image."""

CASES: list[tuple[RowCheck, list[int]]] = [
    (NotNull("status"), [1]),
    (NotNull("AMOUNT"), [1]),
    (NotNull("day"), [1]),
    (AcceptedValues("status", ("new", "")), [3]),
    (AcceptedValues("amount", ("1.5", 2)), [2, 3]),
    (AcceptedValues("n", (5,)), [2, 3]),
    (AcceptedValues("f", (0.1,)), [2, 3]),
    (AcceptedValues("day", ("2024-01-01",)), [2, 3]),
    (InRange("n", 5), [2]),
    (InRange("n", maximum=5.5), [3]),
    (InRange("n", 4.5, 5.5), [2, 3]),
    (InRange("amount", minimum="-1", maximum="9999999999.98"), [2, 3]),
    (InRange("f", 0.1, 0.1), [2, 3]),
    (InRange("day", "2024-01-01"), [2, 3]),
]
"""A check, and the ordinals of the ROWS that violate it."""
