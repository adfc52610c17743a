"""The offset map of a mirror, in memory or as it was kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.offset_map import Image, MappedRange, OffsetSpan, Place, stretches_of, to_source, to_target
from databus.core.positions.offsets import KafkaOffsets
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.checkpoint_store import CheckpointStore
from databus.records.ledger.pages import LedgerPages
from databus.records.offset_map import OffsetMapTable
from databus.records.store import RecordStore
from databus.runtime.context import Services

_ROUNDS = 10


class MirrorOffsetMap(Protocol):
    """The offset map of one mirror."""

    def to_target(self, place: Place, position: int) -> Image | None:
        """Return the image on the target of the first mirrored record at or behind a position, else the end of all."""
        ...

    def to_source(self, place: Place, position: int) -> Image | None:
        """Return the same of a position on the target; the end is where the mirror itself goes on."""
        ...

    def goes_on_at(self, place: Place) -> int:
        """Return the source offset that the mirror wants next."""
        ...


class OffsetMap:
    """A map in memory."""

    def __init__(self, entries: Iterable[HistoryEntry] = ()):
        """Build it; what was mirrored of a topic's former life is left out.

        Args:
            entries: the mirror's history, oldest first.
        """
        self._places: Mapping[Place, tuple[int, int]] = {}
        self._stretches: list[MappedRange] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: HistoryEntry) -> None:
        """Take in the next entry."""
        self.stand(entry)
        self._stretches += stretches_of(entry)

    def stand(self, entry: HistoryEntry) -> None:
        """Note where the mirror stands behind an entry."""
        if isinstance(entry.offset, KafkaOffsets):
            self._places = entry.offset.places()

    def to_target(self, place: Place, position: int) -> Image | None:
        """See `MirrorOffsetMap`."""
        return to_target([s for s in self.living() if s.source == place], position)

    def to_source(self, place: Place, position: int) -> Image | None:
        """See `MirrorOffsetMap`."""
        return to_source([s for s in self.living() if s.target == place], position, self.goes_on_at)

    def goes_on_at(self, place: Place) -> int:
        """See `MirrorOffsetMap`."""
        return self._places.get(place, (0, 0))[1]

    def incarnation(self, place: Place) -> int:
        """Return how often a source partition's log had been replaced."""
        return self._places.get(place, (0, 0))[0]

    def living(self) -> Iterator[MappedRange]:
        """Yield what was mirrored of the topics' present lives, oldest first."""
        return (s for s in self._stretches if s.incarnation == self.incarnation(s.source))


class KeptMap:
    """The map as it was kept when this was made: rows in SQL, and the newest entries, which stand in ZooKeeper only."""

    def __init__(self, flow: str, services: Services):
        """Look up where the flow stands.

        Raises:
            CheckpointConflictError: the flow commits faster than its history can be read.
            CheckpointError, RecordingError: ZooKeeper or the records store does not answer.
        """
        self._flow = flow
        self._records = RecordStore(services.settings.records_url)
        self._table = OffsetMapTable(self._records, flow)
        try:
            self._upto, self._new = _stand(services.store, self._table, flow)
        except BaseException:
            self._records.close()
            raise

    def close(self) -> None:
        """Close the records store; safe to call twice."""
        self._records.close()

    def to_target(self, place: Place, position: int) -> Image | None:
        """See `MirrorOffsetMap`."""
        new = [s for s in self._new.living() if s.source == place]
        kept = self._table.around(self._upto, place, position, self._new.incarnation(place))
        if not self._tells([*kept, *new], position):
            kept = [s for s in self._paged() if s.source == place]
        return to_target([*kept, *new], position)

    def to_source(self, place: Place, position: int) -> Image | None:
        """See `MirrorOffsetMap`."""
        new = [s for s in self._new.living() if s.target == place]
        source = new[-1].source if new else self._table.source_of(self._upto, place)
        if source is None:
            return None
        kept = self._table.around_target(self._upto, source, place, position, self._new.incarnation(source))
        if not self._tells([*kept, *new], position, back=True):
            kept = [s for s in self._paged() if s.target == place]
        return to_source([*kept, *new], position, self.goes_on_at)

    def goes_on_at(self, place: Place) -> int:
        """See `MirrorOffsetMap`."""
        return self._new.goes_on_at(place)

    def stretches(self, place: Place, offsets: tuple[int, int], *, back: bool = False) -> list[MappedRange]:
        """Return what touches [first, upto) of a partition of the source, with `back` of the target, oldest first.

        Rows that `databus records prune` has deleted are read from the ledger.
        """
        pruned = self._table.pruned(self._upto[0])
        kept = self._paged() if pruned else self._table.between(self._upto, place, offsets, back=back)
        found = []
        for stretch in (*kept, *self._new.living()):
            bounds = stretch.target_range if back else stretch.source_range
            mine = (stretch.target if back else stretch.source) == place
            alive = stretch.incarnation == self._new.incarnation(stretch.source)
            if mine and alive and (bounds is None or (bounds[0] < offsets[1] and bounds[1] > offsets[0])):
                found.append(stretch)
        return found

    def _tells(self, near: Sequence[MappedRange], position: int, *, back: bool = False) -> bool:
        """Return whether what was found near a position is all that its image rests on.

        It is where a span with known bounds holds the position, for what was pruned is older than what was not; where
        the position lies behind the furthest stretch, which is never pruned, if its bounds are known; else where all
        bounds are known and nothing was pruned.
        """
        holders = [s for s in near if any(_holds(span.turned if back else span, position) for span in s.spans)]
        if holders and holders[-1].target_range is not None:
            return True
        if near and position >= _upto(furthest := max(reversed(near), key=lambda s: _upto(s, back=back)), back=back):
            # On the target a newest stretch without bounds has no end that is known: it may hold the position.
            return furthest.target_range is not None and (not back or near[-1].target_range is not None)
        return all(s.target_range is not None for s in near) and not self._table.pruned(self._upto[0])

    def _paged(self) -> list[MappedRange]:
        pages = LedgerPages(self._records).pages(self._flow)
        entries = [page.entry for page in pages if page.entry and page.number <= self._upto[1]]
        stretches = (stretch for entry in entries for stretch in stretches_of(entry))
        return [s for s in stretches if s.incarnation == self._new.incarnation(s.source)]


def _holds(span: OffsetSpan, position: int) -> bool:
    return span.begin <= position < span.upto


def _upto(stretch: MappedRange, *, back: bool = False) -> int:
    """Return the offset behind a stretch; 0 for one whose bounds are not known."""
    bounds = stretch.target_range if back else stretch.source_range
    return bounds[1] if bounds else 0


def _stand(store: CheckpointStore, table: OffsetMapTable, flow: str) -> tuple[tuple[int, int], OffsetMap]:
    """Return generation and number of the newest page that counts, and the map of the entries behind it."""
    for _ in range(_ROUNDS):
        checkpoint = store.load(flow)
        generation, number, page = table.newest()
        newest = store.history(flow, 1)
        if not newest:
            return (0, 0), OffsetMap()
        entries = tuple(reversed(store.history(flow, max(1, newest[0].number - number + 1))))
        if page is None or entries[0] != page:
            # No pages yet, or they are of a life of the flow that has ended.
            generation, number = 0, 0
            entries = tuple(reversed(store.history(flow, newest[0].number)))
        if store.load(flow) == checkpoint:
            found = OffsetMap()
            for entry in entries:
                (found.stand if entry.number <= number else found.add)(entry)
            return (generation, number), found
    raise CheckpointConflictError(
        f"flow {flow}: it committed while its history was read, {_ROUNDS} times in a row",
        hint="Repeat the command in a quieter moment.",
        retryable=True,
    )
