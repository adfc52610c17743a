"""Filters by the rows' values, applied where a binlog is decoded: a range, some remainders, or some hash partitions.

What a filter leaves out is not encoded and not sent on; it is counted as filtered. Each image of an update is judged on
its own: one that moves into the partition is an insert, one that moves out of it a delete, as a sink that holds only
this partition needs it. A change that does not carry what a filter goes by is flagged, and held back in the quarantine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from databus.binlog.log.capture import TableCapture, check_pattern
from databus.core.errors.config import ConfigError
from databus.core.spec import Spec
from databus.core.tables.schemas import TableSchema

if TYPE_CHECKING:
    import numpy as np

    from databus.binlog.decoding.table_batch import TableBatch

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")


class RowFilter(Spec):
    """Base of the row filters.

    Attributes:
        tables: those whose rows are judged, e.g. ("shop.orders",): names and patterns as in `MysqlBinlog.tables`; other
            tables pass.
    """

    tables: tuple[str, ...] = Field(min_length=1)

    @field_validator("tables", mode="before")
    @classmethod
    def _one_table_is_enough(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("tables")
    @classmethod
    def _patterns_are_valid(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(check_pattern(p) for p in patterns)
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.hint}") from None

    def concerns(self, schema: TableSchema) -> bool:
        """Return whether rows of a table are judged."""
        return TableCapture(self.tables)(schema.database, schema.table)

    def refusal(self, schema: TableSchema) -> str:
        """Say why rows of a table cannot be judged, "" when they can."""
        raise NotImplementedError

    def judged(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns of a table that decide."""
        raise NotImplementedError

    def mask(self, batch: TableBatch) -> np.ndarray:
        """Return bool[images], which row images to keep; anything where `unknown`."""
        raise NotImplementedError

    def named(self) -> tuple[str, ...]:
        """Return the columns that it names itself."""
        raise NotImplementedError

    def unknown(self, batch: TableBatch) -> dict[str, np.ndarray]:
        """Return column → bool[images], where the log does not say what a column was that it names; none where it does.

        Raises:
            ValueError: the table has no such column.
        """
        from databus.rows.partitions import unknown

        found = {column: unknown(batch, column) for column in self.named()}
        return {column: lacking for column, lacking in found.items() if lacking.any()}


class _ColumnFilter(RowFilter):
    column: str

    def refusal(self, schema: TableSchema) -> str:
        """Look for the column."""
        names = [c.name for c in schema.columns]
        return "" if self.column in names else f"has no column {self.column!r}; its columns are {', '.join(names)}"

    def judged(self, schema: TableSchema) -> tuple[str, ...]:  # noqa: ARG002 - of every table the same
        """Return the one column."""
        return (self.column,)

    def named(self) -> tuple[str, ...]:
        """Return the one column."""
        return (self.column,)

    def _values(self, values: Any) -> np.ndarray:
        raise NotImplementedError

    def mask(self, batch: TableBatch) -> np.ndarray:
        """Judge by the column."""
        from databus.rows.partitions import carried, completed

        values, present = carried(batch, self.column)
        return completed(batch, self._values(values), present)


class RangePartition(_ColumnFilter):
    """Keep rows with lower ≤ column < upper.

    NULL lies in no range, and neither do values that no calendar has ('0000-00-00'). Text is compared by code points.

    Attributes:
        by: form of the filter; default "range", the only one.
        column: any column, e.g. "id"; a change that does not carry it (`binlog_row_image` other than FULL) is held
            back. Those of the primary key are in each.
        lower: first value kept, e.g. 1_000; default None, no bound. Decimals and times may be written as text, in ISO
            8601.
        upper: first value no longer kept, e.g. 2_000; default None, no bound.
    """

    by: Literal["range"] = "range"
    lower: int | str | None = None
    upper: int | str | None = None

    @field_validator("lower", "upper", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        if isinstance(value, (dt.date, dt.datetime)):
            return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
        return str(value) if isinstance(value, Decimal) else value

    @model_validator(mode="after")
    def _has_a_bound(self) -> RangePartition:
        if self.lower is None and self.upper is None:
            raise ValueError("give lower, upper or both")
        if isinstance(self.lower, int) and isinstance(self.upper, int) and self.lower >= self.upper:
            raise ValueError(f"the range from {self.lower} up to {self.upper} (exclusive) is empty")
        return self

    def _values(self, values: Any) -> np.ndarray:
        from databus.rows.partitions import range_mask

        return range_mask(values, self.lower, self.upper)


class ModuloPartition(_ColumnFilter):
    """Keep rows whose column, an integer, leaves one of some remainders; a negative one's remainder is positive.

    NULL leaves none.

    Attributes:
        by: form of the filter; default "modulo", the only one.
        column: an integer column, e.g. "id".
        modulus: divisor, at least 1, e.g. 4.
        remainders: remainders kept, 0 … modulus − 1, e.g. (0, 2).
    """

    by: Literal["modulo"] = "modulo"
    modulus: int = Field(ge=1, lt=1 << 31)
    remainders: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _remainders_exist(self) -> ModuloPartition:
        return _within(self, self.remainders, self.modulus, "remainders")

    def refusal(self, schema: TableSchema) -> str:
        """Look for the column and its type."""
        kind = next((c.type for c in schema.columns if c.name == self.column), None)
        if kind is not None and not kind.startswith(_INTEGERS):
            return f"has {self.column!r} of type {kind}, and only integers have a remainder"
        return super().refusal(schema)

    def _values(self, values: Any) -> np.ndarray:
        from databus.rows.partitions import modulo_mask

        return modulo_mask(values, self.modulus, self.remainders)


class HashPartition(RowFilter):
    """Keep rows whose key falls into some of n partitions, by Kafka's default partitioner over the record's key.

    Attributes:
        by: form of the filter; default "hash", the only one.
        columns: columns to hash, e.g. ("customer_id",); by default the primary key, and then partition p of n is what a
            Kafka topic of n partitions has in p. NULL is hashed as null. A change that does not carry them is held
            back.
        partitions: number of partitions, at least 1, e.g. 8.
        keep: partitions kept, 0 … partitions − 1, e.g. (0, 1).
    """

    by: Literal["hash"] = "hash"
    columns: tuple[str, ...] = ()
    partitions: int = Field(ge=1, lt=1 << 31)
    keep: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _partitions_exist(self) -> HashPartition:
        return _within(self, self.keep, self.partitions, "keep")

    def refusal(self, schema: TableSchema) -> str:
        """Look for the columns."""
        names = [c.name for c in schema.columns]
        unknown = [name for name in self.columns if name not in names]
        if unknown:
            return f"has no column {unknown[0]!r}; its columns are {', '.join(names)}"
        return "" if self.columns or schema.primary_key else "has no primary key: name the columns to hash"

    def judged(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns that are hashed."""
        return self.columns or schema.primary_key

    def named(self) -> tuple[str, ...]:
        """Return the columns, none for the primary key."""
        return self.columns

    def mask(self, batch: TableBatch) -> np.ndarray:
        """Judge by the hash."""
        from databus.rows.partitions import hash_mask

        return hash_mask(batch, self.columns, self.partitions, self.keep)


F = TypeVar("F", bound=RowFilter)
AnyRowFilter = Annotated[RangePartition | ModuloPartition | HashPartition, Field(discriminator="by")]


@dataclass(frozen=True)
class RowFilters:
    """The filters of one source: a row must pass all that concern its table. Picklable."""

    filters: tuple[RowFilter, ...] = ()

    def check(self, tables: Iterable[TableSchema]) -> None:
        """Refuse tables whose rows a filter cannot judge, before any row is read.

        Raises:
            ConfigError: names filter, table and column.
        """
        for schema in tables:
            for wanted in self.filters:
                why = wanted.refusal(schema) if wanted.concerns(schema) else ""
                if why:
                    raise self._refused(wanted, schema, why)

    def narrow(self, batch: TableBatch) -> TableBatch:
        """Return a batch with the images that all filters keep; every change stays, also one without images.

        A change that does not carry what a filter goes by stays whole, as one that is not judged (`Judgement`).

        Raises:
            ConfigError: a filter cannot judge the table's rows.
        """
        out, unknown = None, dict[str, Any]()
        for wanted in self.filters:
            if not wanted.concerns(batch.schema):
                continue
            try:
                lacking = wanted.unknown(batch)
                outside = ~wanted.mask(batch)
            except ValueError as error:
                raise self._refused(wanted, batch.schema, str(error)) from None
            for mask in lacking.values():
                outside = outside & ~mask
            out = outside if out is None else out | outside
            for column, mask in lacking.items():
                unknown[column] = unknown[column] | mask if column in unknown else mask
        if out is None:
            return batch
        from databus.rows.partitions import Judgement

        return Judgement(out, unknown).narrow(batch)

    def _refused(self, wanted: RowFilter, schema: TableSchema, why: str) -> ConfigError:
        return ConfigError(
            f"row filter {type(wanted).__name__}: {schema.full_name} {why}",
            hint="Correct the filter's column or bounds, or narrow its `tables` to those that have it.",
            code="row_filter",
        )


ALL_ROWS = RowFilters()
"""Leaves nothing out."""


def _within(spec: F, chosen: tuple[int, ...], count: int, name: str) -> F:
    outside = [c for c in chosen if not 0 <= c < count]
    if outside:
        raise ValueError(f"{name}: {outside[0]} is not in 0 … {count - 1}")
    return spec
