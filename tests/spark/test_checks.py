"""Row checks as Columns of the batch's own pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databus.checks.accepted_values import AcceptedValues
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.core.errors import ConfigError
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import batch, table
from databus.transforms.filter import Filter
from databus.transforms.mask import Mask
from databus.transforms.rename import RenameColumns
from tests.contract.row_check_cases import CASES, ROWS, SCHEMA, row

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]


def violating(check: RowCheck, changes: FrameChanges) -> list[int]:
    rows = changes.rows.withColumn("violated", check.violation(changes)).orderBy("ordinal").collect()
    assert all(isinstance(r["violated"], bool) for r in rows), "a violation is never NULL"
    return [r["ordinal"] for r in rows if r["violated"]]


def test_which_rows_violate(changes_of: Build) -> None:
    changes = changes_of(batch(SCHEMA, ROWS))
    violated = {f"violated_{number}": check.violation(changes) for number, (check, _) in enumerate(CASES)}
    rows = changes.rows.withColumns(violated).orderBy("ordinal").collect()
    for name, (check, expected) in zip(violated, CASES, strict=True):
        assert all(isinstance(row[name], bool) for row in rows), f"a violation is never NULL: {check}"
        assert [row["ordinal"] for row in rows if row[name]] == expected, check


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
