"""Views of the snapshot model, and traits of the servers that they are opened on."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults.snapshot_model.entries import Key


class World(NamedTuple):
    """Traits of a server.

    Attributes:
        exact: it tells which place of the log a view shows (MariaDB).
        transactional: the table's engine has transactions.
        ordered: transactions become visible in the order of the log.
        refuses: a view whose table was emptied after it was opened is refused, rather than found empty.
        instant: an ALTER that leaves rows as they are shows in views that were opened before it (MariaDB 10.11).
        filtered: the flow has a filter.
    """

    exact: bool
    transactional: bool
    ordered: bool
    refuses: bool
    instant: bool
    filtered: bool


class ViewLostError(Exception):
    """A view cannot be read: the table has another definition."""


class View:
    """Consistent view."""

    __slots__ = ("changed", "emptied", "has_read", "place", "rows")

    def __init__(self, rows: dict[Key, int], place: int) -> None:
        self.rows, self.place = rows, place
        self.has_read = self.emptied = self.changed = False


def rows_in(view: View, engine: dict[Key, int], world: World) -> dict[Key, int]:
    """Return the table as a view shows it.

    Args:
        view: the view, which has read then.
        engine: the table as it stands, which a table without transactions shows.
        world: traits of the server.

    Raises:
        ViewLostError: the table has another definition, or is another one, than when it was opened.
    """
    view.has_read = True
    if not world.transactional:
        return engine
    if view.changed or (view.emptied and world.refuses):
        raise ViewLostError
    return {} if view.emptied else view.rows
