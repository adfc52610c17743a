"""Server of the snapshot model: one table, its log, the rows that readers see, and all that writes.

Places count the entries of the log. A transaction is in the log before readers see it (group commit), for as long as a
replica's answer takes (semi-sync AFTER_SYNC), and locks its keys until then. A table without transactions shows each
change at once, and no view holds it still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.faults.snapshot_model.entries import KEYS, ORDERS, Change, Entry, Key, Row, apply, keys_of
from tests.faults.snapshot_model.replica import Replica
from tests.faults.snapshot_model.views import View, World, rows_in


class Server:
    """Server with one table.

    Args:
        chance: draws from 0 to 1.
        world: its traits.
        replicated: whether it has a replica.
    """

    def __init__(self, chance: Callable[[], float], world: World, *, replicated: bool = False) -> None:
        self.chance, self.world, self.filtered = chance, world, world.filtered
        self.engine: dict[Key, int] = {}
        self.serial, self.delay = 0, 0
        self.quiet = False
        for key in KEYS:
            if chance() < 0.5:
                self.engine[key] = self._next()
        self.log = [Entry("rows", (), (), (), dict(self.engine), 0, 0)]
        self.placed = [0] * (self.serial + 1)
        self.held: set[int] = set()
        self.pending: list[int] = []
        self.prepared: list[tuple[Change, ...]] = []
        self.locked: set[Key] = set()
        self.views: list[View] = []
        self.replica = Replica(self) if replicated else None

    @property
    def head(self) -> int:
        """Place of the end of the log."""
        return len(self.log) - 1

    @property
    def shown(self) -> int:
        """Place up to which all that was logged is visible."""
        return self.pending[0] - 1 if self.pending else self.head

    @property
    def schema(self) -> int:
        """Number of the table's definition."""
        return self.log[-1].schema

    @property
    def order(self) -> int:
        """Number of its keys' order."""
        return self.log[-1].order

    def passes(self, value: int) -> bool:
        """Tell whether the flow's filter lets a row through."""
        return value % 4 != 0 or not self.filtered

    # --- what happens by itself ---

    def tick(self) -> None:
        """Let something happen."""
        if self.replica is not None:
            self.replica.tick()
        if self.quiet:
            self._show()
            return
        draw = self.chance()
        if draw < 0.44:
            self._write()
        elif draw < 0.76:
            self._show()
        elif draw < 0.86:
            self._xa()
        elif draw < 0.89:
            self.delay = 1 + int(self.chance() * 16)
        elif draw < 0.90:
            self._truncate()
        elif draw < 0.935:
            self._alter()

    def settle(self) -> None:
        """End all writing; what was prepared is committed or rolled back."""
        self.quiet, self.delay = True, 0
        while self.prepared:
            self._xa_end()

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def _drawn(self) -> tuple[Change, ...]:
        """Return the changes of a transaction; its keys are locked by it."""
        table = dict(self.log[-1].table)
        free = [key for key in KEYS if key not in self.locked]
        if not free:
            return ()
        changes = []
        for _ in range(1 if self.chance() < 0.7 else 2):
            key = free[int(self.chance() * len(free))]
            value, serial = table.pop(key, 0), self._next()
            new: Key | None = key
            if value:
                draw = self.chance()
                if draw < 0.3:
                    new = None
                elif draw < 0.5:
                    other = free[int(self.chance() * len(free))]
                    new = key if other in table else other
            if new is not None:
                table[new] = serial
            changes.append(Change(key if value else None, value, new, serial, self.chance() < 0.06))
        return tuple(changes)

    def _write(self) -> None:
        changes = self._drawn()
        if changes:
            self._log_rows(changes)

    def _log_rows(self, changes: tuple[Change, ...], of_xa: bool = False) -> None:
        self._append("rows", changes, of_xa=of_xa)
        if self.world.transactional:
            self.pending.append(self.head)
            self.locked.update(keys_of(changes))
        else:
            apply(self.engine, changes)

    def _xa(self) -> None:
        if not self.world.transactional:
            return
        if self.prepared and self.chance() < 0.6:
            self._xa_end()
        elif len(self.prepared) < 2:
            changes = self._drawn()
            if changes:
                self.locked.update(keys_of(changes))
                self.prepared.append(changes)
                self._append("prepare", prepared=changes)

    def _xa_end(self) -> None:
        changes = self.prepared.pop(int(self.chance() * len(self.prepared)))
        if self.chance() < 0.7:
            self._log_rows(changes, of_xa=True)
        else:
            self.locked.difference_update(keys_of(changes))
            self._append("rollback")

    def _show(self) -> None:
        if self.delay > 0:
            self.delay -= 1
        elif self.pending:
            self._show_at(0 if self.world.ordered else int(self.chance() * len(self.pending)))

    def _show_at(self, number: int) -> None:
        changes = self.log[self.pending.pop(number)].changes
        apply(self.engine, changes)
        self.locked.difference_update(keys_of(changes))

    def _statement_may(self) -> bool:
        """Statements on the table wait for what uses it; return whether nothing does, and all that was logged shows."""
        if self.prepared or any(view.has_read for view in self.views):
            return False
        self.show_up_to(self.head)
        return True

    def _truncate(self) -> None:
        if self._statement_may():
            self.engine.clear()
            for view in self.views:
                view.emptied = True
            self._next()
            self._append("truncate")

    def _alter(self) -> None:
        if self._statement_may():
            ordered_anew = self.chance() < 0.4
            for view in self.views:
                view.changed |= ordered_anew or not self.world.instant
            self._append("alter", ordered_anew=ordered_anew)

    def _append(
        self,
        kind: str,
        changes: tuple[Change, ...] = (),
        prepared: tuple[Change, ...] = (),
        of_xa: bool = False,
        ordered_anew: bool = False,
    ) -> None:
        last, place, rows = self.log[-1], len(self.log), ()
        table, schema, order = last.table, last.schema, last.order
        if changes:
            table = dict(table)
            apply(table, changes)
            rows = tuple(row for change in changes for row in self._rows(change, place))
        elif kind == "truncate":
            table, rows = {}, (Row("t", None, self.serial, place, place),)
        elif kind == "alter":
            schema, order = schema + 1, (order + ordered_anew) % len(ORDERS)
        self.log.append(Entry(kind, changes, prepared, rows, table, schema, order, of_xa))
        self.placed += [0] * (self.serial + 1 - len(self.placed))
        for change in changes:
            self.placed[change.serial] = place
        if kind == "truncate":
            self.placed[self.serial] = place

    def _rows(self, change: Change, place: int) -> Iterable[Row]:
        old, value, new, serial, held = change
        if held:
            self.held.add(serial)
            for key in dict.fromkeys((old, new)):
                if key is not None:
                    yield Row("h", key, serial, place, place)
            return
        was = old is not None and self.passes(value)
        now = new is not None and self.passes(serial)
        if was and not (now and old == new):
            yield Row("d", old, serial, place, place)
        if now:
            yield Row("u" if was and old == new else "c", new, serial, place, place)

    # --- what readers do ---

    def show_up_to(self, place: int) -> None:
        """Wait until all that was logged up to a place is visible."""
        while self.pending and self.pending[0] <= place:
            self.delay = 0
            self._show_at(0)

    def open_view(self) -> View:
        """Open a consistent view."""
        view = View(dict(self.engine), self.shown)
        self.views.append(view)
        return view

    def close_view(self, view: View) -> None:
        """Close a view; statements on the table need not wait for it any more."""
        if view in self.views:
            self.views.remove(view)

    def read(self, view: View) -> dict[Key, int]:
        """Return the table as a view shows it.

        Raises:
            ViewLostError: the table has another definition, or is another one, than when it was opened.
        """
        return rows_in(view, self.engine, self.world)
