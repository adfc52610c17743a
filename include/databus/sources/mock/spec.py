"""A source of made-up rows with a set rate and shape: the same rows at every read, without any server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SourceSpec
from databus.sources.mock.fault import MockFault

if TYPE_CHECKING:
    from databus.core.protocols.source import Source

LOG_FILE = "mock.000001"
MOST_KEYS = 1_000_000
MOST_BYTES = 16 << 20
ROW_BYTES = 100
DEFAULT_COLUMNS = {
    "customer_id": "int",
    "status": "varchar",
    "amount": "decimal(12,2)",
    "weight": "double",
    "ordered_on": "date",
    "updated_at": "datetime(6)",
}
_CAME_LATER = ("operations", "keys", "skew", "table_skew", "phases", "sizes", "statements", "faults")


class Mock(SourceSpec):
    """Deterministic row changes: of ten changes of a table six are inserts, three are updates and one is a delete.

    These shares, keys and their skew, types, statements and faults are options.

    Attributes:
        tables: `database.table` names, e.g. ("shop.orders",); row changes go to them in turn. Default ("shop.orders",).
        rows: row changes in all, e.g. 1_000; default None, an endless source with `rows_per_second`.
        rows_per_second: rate at which the log grows, counted from `since`, e.g. 100; default None, all rows are there
            at once.
        since: when the log of a source with a rate began; UTC without a zone. Default 2026-01-01.
        rows_per_transaction: row changes of each transaction, e.g. 10; default 10.
        columns: column name → type in MySQL's words, beside the key `id`. E.g. {"name": "varchar(40)", "seen":
            "int unsigned"}; default a few of them. A varchar without a length has few short values.
        null_ratio: share of NULLs in the columns, e.g. 0.1; default 0.05.
        seed: another seed gives other values, e.g. 7; default 0.
        start: where a flow without a checkpoint begins, "earliest" or "latest"; default "earliest".
        operations: inserts, updates and deletes of each cycle of a table's changes, e.g. (1, 8, 1); default (6, 3, 1).
            Without `keys` a cycle inserts keys of its own, updates them in turn and deletes the last ones.
        keys: number of different keys of each table, e.g. 1_000; default None: tables grow. Each key is inserted,
            updated, deleted and inserted again, as `operations` say: as many inserts as deletes, or no deletes.
        skew: exponent of Zipf's law by which changes fall on `keys`, e.g. 1.1; default 0, on all alike.
        table_skew: the same for tables, the first one the busiest; default 0, in turn.
        phases: (seconds, rows per second) one after the other, again and again, in place of `rows_per_second`: bursts,
            and with a rate of 0 pauses. E.g. ((50, 100), (5, 5_000), (5, 0)); default none.
        sizes: column → characters or bytes of each of its values, of text, bytes and JSON, e.g. {"body": 4_000};
            default none: up to a few dozen.
        statements: (row changes before it, ALTER TABLE statement) pairs, e.g. ((1_000, "ALTER TABLE shop.orders ADD
            COLUMN note varchar(20)"),): columns are added, dropped, renamed, widened. Default none.
        faults: what fails, and where, e.g. (MockFault(what="read_fails", at_row=1_000, times=2),); default nothing.
    """

    kind: ClassVar[str] = "mock"
    without_effect: ClassVar[frozenset[str]] = frozenset({"faults"})
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
    operations: tuple[int, int, int] = (6, 3, 1)
    keys: int | None = Field(None, gt=0, le=MOST_KEYS)
    skew: float = Field(0, ge=0, le=10)
    table_skew: float = Field(0, ge=0, le=10)
    phases: tuple[tuple[float, float], ...] = ()
    sizes: dict[str, int] = Field(default_factory=dict)
    statements: tuple[tuple[int, str], ...] = ()
    faults: tuple[MockFault, ...] = ()

    @field_validator("tables")
    @classmethod
    def _tables_have_databases(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        for name in tables:
            if name.count(".") != 1 or name.startswith(".") or name.endswith("."):
                raise ValueError(f"table {name!r} is not of the form database.table")
        if len(set(tables)) < len(tables):
            raise ValueError("a table is named twice")
        return tables

    @field_validator("columns")
    @classmethod
    def _columns_are_known(cls, columns: dict[str, str]) -> dict[str, str]:
        if any(name.casefold() == "id" for name in columns):
            raise ValueError("the column id is always there: it is the key")
        if len({name.casefold() for name in columns}) < len(columns):
            raise ValueError("a column is named twice, case aside")
        if columns != DEFAULT_COLUMNS:
            from databus.sources.mock.declared import read_columns

            read_columns(columns)
        return columns

    @field_validator("since")
    @classmethod
    def _since_is_utc(cls, since: datetime) -> datetime:
        return since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)

    @field_validator("operations")
    @classmethod
    def _cycles_can_be(cls, operations: tuple[int, int, int]) -> tuple[int, int, int]:
        inserts, updates, deletes = operations
        if inserts < 1 or updates < 0 or deletes < 0 or deletes > inserts:
            raise ValueError(
                f"{operations}: give inserts, updates and deletes of a cycle: one insert at least, and no more deletes "
                "than inserts"
            )
        return operations

    @field_validator("phases")
    @classmethod
    def _phases_go_on(cls, phases: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        if any(seconds <= 0 or rate < 0 for seconds, rate in phases):
            raise ValueError("a phase is (seconds > 0, rows per second ≥ 0)")
        if phases and not any(rate for _, rate in phases):
            raise ValueError("one phase at least has rows")
        return phases

    @field_validator("faults", mode="before")
    @classmethod
    def _stored_faults_are_read(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        return tuple(MockFault.from_stored(each) if isinstance(each, dict) else each for each in value)

    @model_validator(mode="after")
    def _ends_or_flows(self) -> Mock:
        if self.rows is None and self.rows_per_second is None and not self.phases:
            raise ValueError("give rows=, rows_per_second=, phases=, or rows= and one of the others")
        if self.rows_per_second is not None and self.phases:
            raise ValueError("rows_per_second= and phases= both say the rate: give one of them")
        return self

    @model_validator(mode="after")
    def _keys_come_again(self) -> Mock:
        if self.skew and self.keys is None:
            raise ValueError("skew= is of keys that come again: give keys=, the number of them")
        if self.keys is not None and self.operations[2] not in (0, self.operations[0]):
            raise ValueError(
                f"operations={self.operations}: keys= keeps a number of keys, so there are as many deletes as inserts, "
                "or none"
            )
        return self

    @model_validator(mode="after")
    def _statements_and_sizes_fit(self) -> Mock:
        if not self.statements and not self.sizes:
            return self
        from databus.sources.mock.declared import check_sizes, read_statements

        late = [row for row, _ in self.statements if row < 0 or (self.rows is not None and row > self.rows)]
        if late:
            raise ValueError(f"statements: row {late[0]} is none of the source's {self.rows}")
        changes = read_statements(self.tables, self.columns, self.statements)
        check_sizes(self.sizes, self.columns, changes, MOST_BYTES)
        return self

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON; what came later is left out at its default, and keeps hashes."""
        told = super().stored() | {"faults": [each.stored() for each in self.faults]}
        fields = type(self).model_fields
        unsaid = {name: fields[name].get_default(call_default_factory=True) for name in _CAME_LATER}
        silent = {name for name, value in unsaid.items() if getattr(self, name) == value}
        return {name: value for name, value in told.items() if name not in silent}

    @property
    def row_bytes(self) -> int:
        """Bytes as which a row change counts."""
        return ROW_BYTES + sum(self.sizes.values())

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:  # noqa: ARG002 - needs no server
        """Return the source."""
        from databus.sources.mock.source import MockSource

        return MockSource(self, context)

    def datasets(self) -> tuple[str, ...]:
        """Return the tables."""
        return self.tables

    def label(self) -> str:
        """Return kind and tables."""
        return f"{self.kind} {', '.join(self.tables)}"
