"""Hash: replace values by their SHA-256, so that equal values stay equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.selection import refuse_key_columns
from databus.transforms.table_transform import ColumnsTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Hash(ColumnsTransform):
    """Replace values by their SHA-256 in 64 hex digits, in `before` and `after`: `Hash("email")`.

    Joins and counts by the column still work; NULL stays NULL. There is no salt: values from a small set (phone
    numbers, card numbers) can be found by trying all of them, for those use Mask or DropColumns. Hashed is the
    value's text in UTF-8 (decimals without trailing zeros, temporals in ISO form), of binary columns the bytes.
    Columns of the primary key are refused: their values stand in every record's key.

    Attributes:
        columns: names, e.g. "card_number"; case does not matter where that is unambiguous.
        former: names that columns had earlier, as `database.table.column`: hidden as well where that table has them,
            and not missed where it has not. E.g. ("shop.orders.card",); default none.
    """

    kind: ClassVar[str] = "hash"
    masking: ClassVar[bool] = True

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Hash the columns.

        Raises:
            TransformError: a table meant by name lacks a column, or a column is part of the key.
        """
        for schema, names in self._tables_with_columns(changes):
            refuse_key_columns(schema, names, self.label())
            changes = changes.with_columns_replaced(schema, names, lambda value: f"sha2({value}, 256)")
        return changes

    def compilable(self) -> bool:
        """Return true, since it replaces values by SQL of their text; but of a subclass, which may do more."""
        return type(self) is Hash

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: each value comes from the one it replaces."""
        return self.apply(changes)
