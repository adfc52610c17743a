"""Entries of the log in the snapshot model, the keys of its table, and the orders that these may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Key = tuple[int, int]

KEYS: tuple[Key, ...] = tuple((x, y) for x in range(3) for y in range(4))
ORDERS = (KEYS, tuple(sorted(KEYS, key=lambda key: (key[1], -key[0]))), KEYS[::-1])
"""Orders of the keys that a server may have, one after the other: an ALTER may change type or collation of a key."""
RANKS = tuple({key: rank for rank, key in enumerate(order)} for order in ORDERS)


class Row(NamedTuple):
    """Row of a batch as a sink gets it.

    Attributes:
        op: "r" for a chunk's row, else "c", "u", "d", "t" for a TRUNCATE, "h" for a change that is held back.
        key: its key; None for a TRUNCATE.
        serial: serial of the change that it shows.
        version: place by which a search sink judges it.
        place: place of that change.
        snapshot: number and run of a chunk row's snapshot.
    """

    op: str
    key: Key | None
    serial: int
    version: int
    place: int
    snapshot: tuple[int, int] = (0, 0)


class Change(NamedTuple):
    """Row change; its serial is the value of the row behind it."""

    old: Key | None
    old_value: int
    new: Key | None
    serial: int
    held: bool


class Entry(NamedTuple):
    """Entry of the log.

    Attributes:
        kind: "rows", "prepare", "rollback", "truncate" or "alter".
        changes: row changes that count from here: those of an XA transaction at its XA COMMIT.
        prepared: row changes that an XA PREPARE logs.
        rows: these changes as filters and checks let them through.
        table: the table behind it.
        schema: number of the table's definition behind it.
        order: number of its keys' order behind it.
        of_xa: whether it is an XA COMMIT.
    """

    kind: str
    changes: tuple[Change, ...]
    prepared: tuple[Change, ...]
    rows: tuple[Row, ...]
    table: dict[Key, int]
    schema: int
    order: int
    of_xa: bool = False

    def seen(self, key: Key, passes: Callable[[int], bool]) -> int:
        """Return the value that who reads through the flow's filter sees of a key; 0 for none."""
        value = self.table.get(key, 0)
        return value if value and passes(value) else 0


def keys_of(changes: tuple[Change, ...]) -> list[Key]:
    """Return the keys of all images."""
    return [key for change in changes for key in (change.old, change.new) if key is not None]


def apply(table: dict[Key, int], changes: tuple[Change, ...]) -> None:
    """Change a table."""
    for change in changes:
        if change.old is not None:
            table.pop(change.old, None)
        if change.new is not None:
            table[change.new] = change.serial
