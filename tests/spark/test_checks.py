"""Row checks as Columns of the batch's own pass."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from databus.checks.accepted_values import AcceptedValues
from databus.checks.in_range import InRange
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.core.errors import ConfigError
from databus.rows.changes import Changes
from databus.testing.table_batches import Unrepresentable, batch, table
from databus.transforms.filter import Filter
from databus.transforms.mask import Mask
from databus.transforms.rename import RenameColumns

pytestmark = pytest.mark.spark

Build = Callable[..., Changes]

SCHEMA = table(
    "shop.orders",
    {"id": "int", "status": "varchar(9)", "amount": "decimal(12,2)", "n": "int", "f": "float", "day": "date"},
)


def row(id: int, **values: Any) -> dict[str, Any]:  # noqa: A002
    full = {"status": "new", "amount": Decimal("1.50"), "n": 5, "f": 0.1, "day": dt.date(2024, 1, 1)}
    return {"id": id} | full | values


def violating(check: RowCheck, changes: Changes) -> list[int]:
    rows = changes.rows.withColumn("violated", check.violation(changes)).orderBy("ordinal").collect()
    assert all(isinstance(r["violated"], bool) for r in rows), "a violation is never NULL"
    return [r["ordinal"] for r in rows if r["violated"]]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
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
    ],
)
def test_which_rows_violate(changes_of: Build, check: RowCheck, expected: list[int]) -> None:
    nulls = dict.fromkeys(("status", "amount", "n", "f", "day"))
    low = {"status": "", "amount": Decimal("-1.01"), "n": 4, "f": 0.0, "day": dt.date(2023, 12, 31)}
    high = {
        "status": "NEW",
        "amount": Decimal("9999999999.99"),
        "n": 6,
        "f": 1e30,
        "day": Unrepresentable("0000-00-00"),
    }
    rows = [
        (None, row(0)),
        (None, row(1, **nulls)),
        (row(2), row(2, **low)),
        (None, row(3, **high)),
        (row(4, **nulls), None),
        ({"id": 5}, {"id": 5}),
    ]

    assert violating(check, changes_of(batch(SCHEMA, rows))) == expected


def test_filtered_rows_do_not_violate(changes_of: Build) -> None:
    changes = changes_of(batch(SCHEMA, [(None, row(0, status=None)), (None, row(1, status=None))]))

    filtered = Filter("id > 0").apply(changes)

    assert violating(NotNull("status"), filtered) == [1]  # type: ignore[arg-type]


def test_checks_see_what_the_transforms_left(changes_of: Build) -> None:
    changes = changes_of(batch(SCHEMA, [(None, row(0)), (None, row(1, status=None))]))

    after: Any = RenameColumns({"status": "state"}).apply(Mask("status").apply(changes))

    assert violating(NotNull("state"), after) == [1]
    assert violating(AcceptedValues("state", ("***",)), after) == []
    assert violating(AcceptedValues("state", ("new",)), after) == [0]


def test_other_tables_are_passed_over_unless_meant(changes_of: Build) -> None:
    other = table("shop.customers", {"id": "int", "email": "text"}, schema_id=1)
    changes = changes_of(batch(SCHEMA, [(None, row(0))]), batch(other, [(None, {"id": 1, "email": None})]))

    assert violating(NotNull("email"), changes) == [0]
    assert violating(NotNull("email", tables=("*.customers",)), changes) == [0]
    with pytest.raises(ConfigError, match=r"not_null\(email\)@shop\.\*: shop\.orders has no column 'email'") as raised:
        NotNull("email", tables=("shop.*",)).violation(changes)
    assert "id, status, amount, n, f, day" in raised.value.hint
