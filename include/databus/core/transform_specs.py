"""Transform specs: the base of what a flow, or one of its sinks, does with rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from databus.core.spec import Spec

if TYPE_CHECKING:
    from databus.core.protocols.splits import Changes
    from databus.core.tables.schemas import ChosenKey, TableSchema
    from databus.core.tables.wanted import ColumnsWanted


class TransformSpec(Spec):
    """Base of all transform specs.

    Attributes:
        by_table: whether it looks at no value: it drops, keeps or renames columns, or sets the route, by table alone.
        masking: whether the values that it replaces are hidden by that.
    """

    by_table: ClassVar[bool] = False
    masking: ClassVar[bool] = False

    @property
    def most_copies(self) -> int:
        """Most copies of a row behind it; 1 where it chooses no route by value."""
        return 1

    @property
    def chooses_places(self) -> bool:
        """True for a transform that chooses routes or keys of rows."""
        base, own = TransformSpec, type(self)
        names = ("route", "all_routes", "chosen_key")
        return self.most_copies > 1 or any(getattr(own, name) is not getattr(base, name) for name in names)

    def apply(self, changes: Changes) -> Changes:
        """Return the changed rows; row by row, deterministic, lazy (nothing is computed here)."""
        raise NotImplementedError

    def reshape(self, changes: Changes) -> Changes:
        """Return the changes with other columns; asked only where `compilable`, and then `changes` hold no rows."""
        return self.apply(changes)

    def compilable(self) -> bool:
        """Return whether `reshape` says all that it does, so that the direct lane may compile it.

        That is: columns, `Field.rewrites` and `Field.computed` of values, and steps (`FrameChanges.steps`).
        """
        return self.by_table

    def applies_to(self, table: str) -> bool:  # noqa: ARG002 - a kind that does not say looks at all
        """Return whether it may change rows of `database.table`, or leave some out; "" asks for tables of any name.

        What is not `compilable` and has `columns_after` takes those tables through Spark, and no others.
        """
        return True

    def columns_after(self, changes: Changes) -> Changes:
        """Return the changes with the columns that it leaves, for column lineage; `changes` hold no rows.

        Raises:
            NotImplementedError: it looks at values, and does not say which column of its output comes from which.
        """
        if not self.by_table:
            raise NotImplementedError
        return self.reshape(changes)

    def wants(self) -> ColumnsWanted | None:
        """Return which columns it must find, None where it does not say; asked before any row is read."""
        return None

    def judges(self, changes: Changes, table: TableSchema) -> tuple[str, ...]:  # noqa: ARG002 - most keep all rows
        """Return the source's names of the columns by whose values it leaves rows of a table out."""
        return ()

    def route(self, table: str, route: str) -> str:  # noqa: ARG002 - most transforms leave it
        """Return the route of rows of `table` (`database.table`) that came with `route`."""
        return route

    def all_routes(self, table: str, route: str) -> tuple[str, ...]:
        """Return all routes that rows of `table` may have that came with `route`; several where values choose."""
        return (self.route(table, route),)

    def chosen_key(self, table: str) -> ChosenKey | None:  # noqa: ARG002 - most leave the source's
        """Return the key that it gives records of `table` in the place of the source's; None where it leaves it."""
        return None
