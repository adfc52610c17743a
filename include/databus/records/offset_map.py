"""Offset maps of mirrors in SQL: one row per batch and partition, found by either side's offsets.

Rows are written with the ledger's pages, in their transaction: up to the newest page the table is complete. They can be
derived from the pages again, so old ones may be deleted; who asks for what they held reads the pages.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from databus.core.positions.offset_map import MappedRange, Place, stretches_of
from databus.core.state.checkpoint import HistoryEntry
from databus.records import tables as t
from databus.records.ledger.pages import LedgerPages
from databus.records.offset_map_rows import SOURCE, TARGET, stretch_of
from databus.records.store import RecordStore

_LOOKED_AT = 20


class OffsetMapTable:
    """The kept map of one flow; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
        flow: flow name.
    """

    def __init__(self, store: RecordStore, flow: str) -> None:
        self._store, self._flow = store, flow

    def newest(self) -> tuple[int, int, HistoryEntry | None]:
        """Return generation, number and entry of the newest ledger page: up to there the table is complete."""
        page = LedgerPages(self._store).newest(self._flow)
        return (page.generation, page.number, page.entry) if page else (0, 0, None)

    def around(self, upto: tuple[int, int], place: Place, position: int, incarnation: int) -> list[MappedRange]:
        """Return the rows that locate the image of a source offset: those that hold it, neighbours, the last; by age.

        Args:
            upto: generation and number of the newest page that counts.
            place: source partition.
            position: source offset.
            incarnation: of the partition's log.
        """
        return self._around(self._of(upto, place, incarnation), SOURCE, position)

    def around_target(
        self, upto: tuple[int, int], source: Place, target: Place, position: int, incarnation: int
    ) -> list[MappedRange]:
        """Return the same of an offset of the target, of what came from one source partition."""
        c = t.offset_map.c
        mine = self._of(upto, source, incarnation) & (c.target_topic == target[0]) & (c.target_partition == target[1])
        return self._around(mine, TARGET, position)

    def source_of(self, upto: tuple[int, int], target: Place) -> Place | None:
        """Return the source partition that was mirrored to a target partition last; None for none."""
        c = t.offset_map.c
        wanted = (
            sa.select(c.source_topic, c.source_partition)
            .where(self._up_to(upto) & (c.target_topic == target[0]) & (c.target_partition == target[1]))
            .order_by(c.id.desc())
            .limit(1)
        )
        with self._store.transaction() as connection:
            found = connection.execute(wanted).one_or_none()
        return None if found is None else (found.source_topic, found.source_partition)

    def between(
        self, upto: tuple[int, int], place: Place, offsets: tuple[int, int], *, back: bool
    ) -> list[MappedRange]:
        """Return the rows that touch [first, last) of a partition of the source, with `back` of the target; by age."""
        c, names = t.offset_map.c, TARGET if back else SOURCE
        topic, partition, begin, end = (c[name] for name in names)
        mine = self._up_to(upto) & (topic == place[0]) & (partition == place[1])
        touches = ((begin < offsets[1]) & (end > offsets[0])) | begin.is_(None)
        with self._store.transaction() as connection:
            return [
                stretch_of(row)
                for row in connection.execute(sa.select(t.offset_map).where(mine & touches).order_by(c.id))
            ]

    def pruned(self, generation: int) -> bool:
        """Return whether rows of the flow's earlier pages were deleted."""
        c = t.offset_map.c
        # A row that outlived others shows nothing of its neighbours: only behind all of these is the table complete.
        whole = (c.flow == self._flow) & (c.generation == generation) & ~c.outlived
        first = sa.select(sa.func.min(c.number)).where(whole)
        with self._store.transaction() as connection:
            number = connection.execute(first).scalar_one()
        earlier = LedgerPages(self._store).commits(self._flow, generation, number, _LOOKED_AT)
        # Batches that moved nothing have no rows.
        return len(earlier) == _LOOKED_AT or any(stretches_of(page.entry) for page in earlier if page.entry is not None)

    def _up_to(self, upto: tuple[int, int]) -> sa.ColumnElement[bool]:
        c = t.offset_map.c
        return (c.flow == self._flow) & (c.generation == upto[0]) & (c.number <= upto[1])

    def _of(self, upto: tuple[int, int], source: Place, incarnation: int) -> sa.ColumnElement[bool]:
        c = t.offset_map.c
        mine = (c.source_topic == source[0]) & (c.source_partition == source[1]) & (c.incarnation == incarnation)
        return self._up_to(upto) & mine

    def _around(self, mine: sa.ColumnElement[bool], names: tuple[str, ...], position: int) -> list[MappedRange]:
        c = t.offset_map.c
        begin, end = c[names[2]], c[names[3]]
        found: dict[int, sa.Row[Any]] = {}
        with self._store.transaction() as connection:

            def take(condition: sa.ColumnElement[bool], *order: sa.ColumnElement[Any]) -> None:
                wanted = sa.select(t.offset_map).where(mine & condition)
                rows = connection.execute(wanted.order_by(*order).limit(1) if order else wanted).all()
                found.update((row.id, row) for row in rows)

            take((begin <= position) & (end > position))
            take(begin > position, begin, c.id.desc())
            take(end.is_not(None), end.desc(), c.id.desc())
            if names is TARGET:  # where it lies on the target is not known: anywhere
                take(c.target_from.is_(None))
        return [stretch_of(found[number]) for number in sorted(found)]
