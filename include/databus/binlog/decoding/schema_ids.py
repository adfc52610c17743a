"""Numbers for the schemas of a plan: the same columns of the same table keep their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from databus.core.tables.schemas import TableSchema


class SchemaIds:
    """Gives each distinct schema a number, in the order in which they are first met.

    Splits of one plan agree on the numbers when each starts from the schemas that the plan lists.

    Args:
        known: schemas that have their number already.
    """

    def __init__(self, known: Iterable[TableSchema] = ()) -> None:
        self._numbered = {replace(schema, schema_id=-1): schema for schema in known}

    @property
    def schemas(self) -> tuple[TableSchema, ...]:
        """All schemas met so far, in the order of their numbers."""
        return tuple(sorted(self._numbered.values(), key=lambda schema: schema.schema_id))

    def number(self, schema: TableSchema) -> TableSchema:
        """Return the schema with its number; a new one gets the next."""
        key = replace(schema, schema_id=-1)
        found = self._numbered.get(key)
        if found is None:
            found = replace(schema, schema_id=1 + max((s.schema_id for s in self._numbered.values()), default=-1))
            self._numbered[key] = found
        return found
