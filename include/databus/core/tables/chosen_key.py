"""Key that a flow chooses for the rows of a table, in the place of the source's primary key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChosenKey:
    """Chosen key of a table's records.

    Attributes:
        columns: names, as the transforms before left them.
        unique: whether no two rows of the table share a key.
    """

    columns: tuple[str, ...]
    unique: bool = False
