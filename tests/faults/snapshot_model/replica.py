"""Replica of the snapshot model: it applies what its source has logged, later, and also before the source shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.snapshot_model.entries import Entry, Key, apply, keys_of
from tests.faults.snapshot_model.views import View, rows_in

if TYPE_CHECKING:
    from tests.faults.snapshot_model.server import Server


class Replica:
    """Replica with one table, and the views in which it is read.

    Attributes:
        engine: the table as it stands here.
        waiting: places of the log that are not applied yet, in its order.
        schema: number of the table's definition here.
        order: number of its keys' order here.
        views: views that are open.
    """

    def __init__(self, source: Server) -> None:
        self._source, self._fetched = source, source.head
        self.engine = dict(source.engine)
        self.waiting: list[int] = []
        self.schema, self.order = source.log[-1].schema, source.log[-1].order
        self.views: list[View] = []
        self._delay = 0

    @property
    def place(self) -> int:
        """Place up to which all is applied."""
        return self.waiting[0] - 1 if self.waiting else self._fetched

    def tick(self) -> None:
        """Let something happen, or nothing."""
        self._fetch()
        chance = self._source.chance
        if self._delay > 0 and not self._source.quiet:
            self._delay -= 1
        elif chance() < 0.1:
            self._delay = int(chance() * 12)
        elif self.waiting:
            ready = [place for place in self.waiting if self._may(place)]
            if ready:
                self._apply(ready[0 if self._source.world.ordered else int(chance() * len(ready))])

    def show_up_to(self, place: int) -> None:
        """Wait until all that was logged up to a place is applied."""
        self._fetch()
        while self.waiting and self.waiting[0] <= place:
            self._apply(self.waiting[0])

    def open_view(self) -> View:
        """Open a consistent view."""
        view = View(dict(self.engine), self.place)
        self.views.append(view)
        return view

    def close_view(self, view: View) -> None:
        """Close a view; statements on the table need not wait for it any more."""
        if view in self.views:
            self.views.remove(view)

    def read(self, view: View) -> dict[Key, int]:
        """Return the table as a view shows it. Raises ViewLostError as the source's does."""
        return rows_in(view, self.engine, self._source.world)

    def _fetch(self) -> None:
        self.waiting += range(self._fetched + 1, self._source.head + 1)
        self._fetched = self._source.head

    def _may(self, place: int) -> bool:
        """Tell whether an entry needs none of those before it, and no view is in the way of a statement."""
        entry, before = self._entry(place), [self._entry(n) for n in self.waiting if n < place]
        if entry.kind in ("truncate", "alter"):
            return not before and not any(view.has_read for view in self.views)
        if any(each.kind in ("truncate", "alter") for each in before):
            return False
        return not set(keys_of(entry.changes)) & {key for each in before for key in keys_of(each.changes)}

    def _apply(self, place: int) -> None:
        entry = self._entry(place)
        self.waiting.remove(place)
        apply(self.engine, entry.changes)
        if entry.kind == "truncate":
            self.engine.clear()
            for view in self.views:
                view.emptied = True
        elif entry.kind == "alter":
            for view in self.views:
                view.changed |= entry.order != self.order or not self._source.world.instant
            self.schema, self.order = entry.schema, entry.order

    def _entry(self, place: int) -> Entry:
        return self._source.log[place]
