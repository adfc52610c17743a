"""Column lineage of a flow's outputs and its steps: known when a batch is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ColumnStep:
    """Column step: what was done to a value, or why it decided which rows are there.

    Attributes:
        label: in words, e.g. "mask email".
        masking: whether it hides the value.
    """

    label: str
    masking: bool = False


@dataclass(frozen=True)
class FieldLineage:
    """A field of an output, or the whole output where the column decides which rows it holds.

    Attributes:
        field: name in the output, "" for the whole output.
        column: name of the column at the source.
        steps: what was done to its value, in order; empty where it is handed on as it is.
    """

    field: str
    column: str
    steps: tuple[ColumnStep, ...] = ()


@dataclass(frozen=True)
class TableLineage:
    """Table lineage: what one table gives one output of a sink.

    Attributes:
        table: `database.table`.
        sink: sink name.
        output: topic or index.
        fields: fields whose values come from its columns.
        filters: columns whose values decide which rows come.
        unknown: why nothing is known of it; then there are no fields and no filters.
    """

    table: str
    sink: str
    output: str
    fields: tuple[FieldLineage, ...] = ()
    filters: tuple[FieldLineage, ...] = ()
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableLineage:
        """Read what `to_json` wrote."""
        fields, filters = (tuple(map(_field, data[name])) for name in ("fields", "filters"))
        return cls(data["table"], data["sink"], data["output"], fields, filters, data["unknown"])


def _field(data: Mapping[str, Any]) -> FieldLineage:
    return FieldLineage(data["field"], data["column"], tuple(ColumnStep(**step) for step in data["steps"]))
