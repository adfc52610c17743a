"""Schema: a table has the columns and types that its readers count on."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field, field_validator

from databus.checks.batch_check import BatchCheck
from databus.core.batches.report import CheckResult
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted


class Schema(BatchCheck):
    """Definition of a table's columns in the log where a batch reads: `Schema("shop.orders", {"id": "bigint"})`.

    Judged is each definition that the table has in the batch, before the transforms; a batch without rows of the table
    is not judged. With severity "fail" nothing is dispatched from the first row on that was written under another one.

    Attributes:
        table: `database.table`, e.g. "shop.orders".
        columns: column → type in the source's words, e.g. "decimal(12,2)"; without brackets every length will do, and
            "" stands for every type.
        exact: whether further columns are drift too; default False.
    """

    kind: ClassVar[str] = "schema"

    table: str
    columns: Mapping[str, str] = Field(min_length=1)
    exact: bool = False

    def __init__(self, table: str | None = None, columns: Mapping[str, str] | None = None, /, **options: Any):
        given = {"table": table, "columns": columns}
        super().__init__(**options, **{name: value for name, value in given.items() if value is not None})

    @field_validator("table")
    @classmethod
    def _has_a_database(cls, value: str) -> str:
        if not all(value.partition(".")):
            raise ValueError(f"{value!r} is not database.table")
        return value

    def arguments(self) -> tuple[str, ...]:
        """Return the table."""
        return (self.table,)

    def wants(self) -> ColumnsWanted:
        """Return the columns, as the source names them."""
        return ColumnsWanted(tuple(self.columns), (glob.escape(self.table),), at_source=True)

    def evaluate(self, planned: SourcePlan, now: datetime) -> CheckResult:  # noqa: ARG002 - one signature for all
        """Compare each definition of the table that the batch's rows were written under."""
        found = [schema for schema in planned.tables if schema.full_name == self.table]
        drift = list(dict.fromkeys(line for schema in found for line in self._drift(schema)))
        observed = "; ".join(drift) if drift else f"{len(self.columns)} columns as expected" if found else "no rows"
        judged = self.result(violated=bool(drift), observed=observed, evaluated=int(bool(found)))
        return replace(judged, table=self.table)

    def _drift(self, schema: TableSchema) -> list[str]:
        types = {column.name: column.type for column in schema.columns}
        lines = []
        for name, wanted in self.columns.items():
            if name not in types:
                lines.append(f"{name} is missing")
            elif not _same(wanted, types[name]):
                lines.append(f"{name} is {types[name]}, not {wanted}")
        if self.exact:
            lines += [f"{name} {kind} is new" for name, kind in types.items() if name not in self.columns]
        return lines


def _same(wanted: str, kind: str) -> bool:
    wanted, kind = (re.sub(r"\s+", " ", text.strip().lower().replace(", ", ",")) for text in (wanted, kind))
    return wanted in ("", kind, re.sub(r"\([^)]*\)", "", kind))
