"""A source of made-up rows with a set rate and shape: the same rows at every read, without any server."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SourceSpec

if TYPE_CHECKING:
    from databus.core.protocols.source import Source

LOG_FILE = "mock.000001"
COLUMN_TYPES = re.compile(r"^(bigint|int|double|varchar|date|datetime\([0-6]\)|decimal\(\d{1,2},\d{1,2}\))$")
DEFAULT_COLUMNS = {
    "customer_id": "int",
    "status": "varchar",
    "amount": "decimal(12,2)",
    "weight": "double",
    "ordered_on": "date",
    "updated_at": "datetime(6)",
}


class Mock(SourceSpec):
    """Deterministic row changes: of ten changes of a table six are inserts, three are updates and one is a delete.

    Attributes:
        tables: `database.table` names, e.g. ("shop.orders",); row changes go to them in turn. Default ("shop.orders",).
        rows: row changes in all, e.g. 1_000; default None, an endless source with `rows_per_second`.
        rows_per_second: rate at which the log grows, counted from `since`, e.g. 100; default None, all rows are there
            at once.
        since: when the log of a source with a rate began; UTC without a zone. Default 2026-01-01.
        rows_per_transaction: row changes of each transaction, e.g. 10; default 10.
        columns: column name → type (bigint, int, double, varchar, date, datetime(f), decimal(p,s)), beside the key
            `id`. E.g. {"name": "varchar"}; default a few of them.
        null_ratio: share of NULLs in the columns, e.g. 0.1; default 0.05.
        seed: another seed gives other values, e.g. 7; default 0.
        start: where a flow without a checkpoint begins, "earliest" or "latest"; default "earliest".
    """

    kind: ClassVar[str] = "mock"
    direct: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    tables: tuple[str, ...] = Field(("shop.orders",), min_length=1)
    rows: int | None = Field(None, ge=0)
    rows_per_second: float | None = Field(None, gt=0)
    since: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    rows_per_transaction: int = Field(10, gt=0)
    columns: dict[str, str] = DEFAULT_COLUMNS
    null_ratio: float = Field(0.05, ge=0, le=1)
    seed: int = 0
    start: Literal["earliest", "latest"] = "earliest"

    @field_validator("tables")
    @classmethod
    def _tables_have_databases(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        for name in tables:
            if name.count(".") != 1 or name.startswith(".") or name.endswith("."):
                raise ValueError(f"table {name!r} is not of the form database.table")
        return tables

    @field_validator("columns")
    @classmethod
    def _columns_are_known(cls, columns: dict[str, str]) -> dict[str, str]:
        for name, kind in columns.items():
            if name == "id":
                raise ValueError("the column id is always there: it is the key")
            if not COLUMN_TYPES.match(kind):
                raise ValueError(
                    f"column {name}: unknown type {kind!r}; known: bigint, int, double, "
                    "varchar, date, datetime(f), decimal(p,s)"
                )
        return columns

    @field_validator("since")
    @classmethod
    def _since_is_utc(cls, since: datetime) -> datetime:
        return since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)

    @model_validator(mode="after")
    def _ends_or_flows(self) -> Mock:
        if self.rows is None and self.rows_per_second is None:
            raise ValueError("give rows=, rows_per_second=, or both")
        return self

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:  # noqa: ARG002 - needs no server
        """Return the source."""
        from databus.sources.mock.source import MockSource

        return MockSource(self)

    def datasets(self) -> tuple[str, ...]:
        """Return the tables."""
        return self.tables

    def label(self) -> str:
        """Return kind and tables."""
        return f"{self.kind} {', '.join(self.tables)}"
