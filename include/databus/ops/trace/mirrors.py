"""Follow records from one Kafka cluster to the next: which copies mirrors made of them, and of what they are copies.

The offset map of the mirror's batches says where; one read there says whether it still stands there as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.positions.offset_map import Place
from databus.core.trace import RecordPlace, Sighting
from databus.ops.trace.clusters import Sites
from databus.ops.trace.journey import Hop
from databus.ops.trace.mirror_offsets import MirroredRecord, MirrorMoves, is_mirror
from databus.records.provenance import Provenance

MOST_HOPS = 32
"""So many mirrors are followed back; more than there are sites means that records went round."""

_GONE = "not kept there any more"
_ANOTHER = "another record stands there now: the topic was made anew"
_FORMER = "from a topic that was deleted and made anew since"

Seen = Mapping[RecordPlace, Sighting | None]
"""Records, and what stands there; None where that is not known."""


@dataclass
class Way:
    """Route of a record from its site.

    Attributes:
        hops: through which mirrors, nearest first.
        notes: what keeps others from having moved it.
    """

    hops: list[Hop] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Origin:
    """Origin of a record: where it was written first.

    Attributes:
        record: its place there.
        hops: the way from there.
        seen: the records of the way, and what stands there, where it was looked at.
        replaced: whether its topic was deleted and made anew since, so that another record may stand there now.
    """

    record: RecordPlace
    hops: tuple[Hop, ...]
    seen: Seen
    replaced: bool = False


class TracedMirrors:
    """The mirrors among some flows.

    Args:
        flows: any flows.
        sites: opens readers; the caller closes it.
        provenance: the records.
    """

    def __init__(self, flows: Iterable[Flow], sites: Sites, provenance: Provenance) -> None:
        self._sites = sites
        self._mirrors = [MirrorMoves(flow, sites, provenance) for flow in flows if is_mirror(flow)]

    def known(self, text: str, names: frozenset[str]) -> list[RecordPlace]:
        """Return the records called "topic:partition:offset" that some mirrors have read or written."""
        found: list[RecordPlace] = []
        for mirror in self._mirrors:
            if mirror.name not in names:
                continue
            read, written = (RecordPlace.read(site, text) for site in (mirror.source, mirror.target))
            if mirror.back(_of(written), written.offset):
                found.append(written)
            if mirror.has_read(_of(read), read.offset):
                found.append(read)
        return found

    def origin(self, record: RecordPlace) -> Origin:
        """Go back to where a record was written first."""
        seen: dict[RecordPlace, Sighting | None] = {record: None}
        if any(mirror.target == record.site for mirror in self._mirrors):
            seen[record] = self.look(record)
        hops: list[Hop] = []
        replaced = False
        while len(hops) < MOST_HOPS and not replaced:
            found = self._before(record, seen[record])
            if found is None:
                break
            hop, before, replaced = found
            hops.insert(0, hop)
            if hop.source is None or hop.source in seen:
                break
            record = hop.source
            seen[record] = before
        return Origin(record, tuple(hops), seen, replaced)

    def look(self, record: RecordPlace) -> Sighting | None:
        """Return what stands at a place; None where nothing does, or it cannot be looked at."""
        return self._at(record.site, _of(record), [record.offset])[1].get(record.offset)

    def beyond(self, starts: Seen) -> dict[RecordPlace, Way]:
        """Follow records onward through all mirrors; of those that lie together, together.

        A record that comes back to a topic that it has been in is reported once and not followed further.
        """
        ways = {start: Way() for start in starts}
        roots = {start: start for start in starts}
        been = {start: frozenset({(start.site, start.topic)}) for start in starts}
        level: dict[RecordPlace, Sighting | None] = dict(starts)

        def tell(record: RecordPlace, note: str) -> None:
            ways[roots[record]].notes.append(note)

        while level:
            onward: dict[RecordPlace, Sighting | None] = {}
            for source, hop, sighting in self._step(level, tell):
                ways[roots[source]].hops.append(hop)
                if hop.target is None or hop.target in roots or hop.state == _ANOTHER:
                    continue
                roots[hop.target] = roots[source]
                site = hop.target.site, hop.target.topic
                if site in been[source]:
                    tell(source, f"a loop: mirror {hop.mirror} brought it back to {site[1]} on {site[0]}")
                    continue
                been[hop.target] = been[source] | {site}
                onward[hop.target] = sighting
            level = onward
        return ways

    def _step(
        self, records: Seen, tell: Callable[[RecordPlace, str], None]
    ) -> Iterator[tuple[RecordPlace, Hop, Sighting | None]]:
        """Yield what mirrors made of some records: record, hop, and what stands at its target."""
        groups: dict[tuple[str, Place], list[RecordPlace]] = {}
        for record in sorted(records, key=lambda r: r.offset):
            groups.setdefault((record.site, _of(record)), []).append(record)
        for (site, place), group in groups.items():
            here = {record.offset: record for record in group}
            for mirror in (m for m in self._mirrors if m.source == site):
                moves = mirror.onward(place, list(here))
                yield from self._images(mirror, here, moves, records)
                if left := here.keys() - {move.offset for move in moves}:
                    ask = partial(self._cluster_id, site, place[0])
                    for offset, note in mirror.why_not(place, sorted(left), ask):
                        tell(here[offset], note)

    def _images(
        self, mirror: MirrorMoves, here: Mapping[int, RecordPlace], moves: Sequence[MirroredRecord], records: Seen
    ) -> Iterator[tuple[RecordPlace, Hop, Sighting | None]]:
        exact: dict[Place, set[int]] = {}
        for move in moves:
            if move.others is not None and len(move.others) == 1:
                exact.setdefault(move.place, set()).add(move.others.start)
        looked = {place: self._at(mirror.target, place, offsets) for place, offsets in exact.items()}
        for move in moves:
            source = here[move.offset]
            original = records[source]
            target: RecordPlace | None
            if move.others is not None and len(move.others) == 1:
                state, there = looked[move.place]
                image = there.get(move.others.start)
                if not state:
                    state = _GONE if image is None else "" if _same(original, image) else _ANOTHER
                target = RecordPlace(mirror.target, *move.place, move.others.start)
            else:
                image, state = self._alike(mirror.target, move, original)
                target = RecordPlace.read(mirror.target, image.place) if image is not None else None
            at_ms = image.at_ms if image is not None else None
            hop = Hop(mirror.name, source, target, move.batch, state, at_ms)
            yield source, hop, image

    def _before(self, record: RecordPlace, here: Sighting | None) -> tuple[Hop, Sighting | None, bool] | None:
        """Return the hop that made a record, what stands at its source, and whether that may be another record."""
        state = "" if here is not None else _GONE
        at_ms = here.at_ms if here is not None else None
        best: tuple[Hop, Sighting | None, bool] | None = None
        for mirror in (m for m in self._mirrors if m.target == record.site):
            for move in reversed(mirror.back(_of(record), record.offset)):
                original: Sighting | None = None
                source: RecordPlace | None = None
                told = _FORMER if move.former else state
                if move.others is not None and len(move.others) == 1:
                    source = RecordPlace(mirror.source, *move.place, move.others.start)
                    if not move.former:
                        original = self._at(mirror.source, move.place, move.others)[1].get(source.offset)
                elif not move.former:
                    original, told = self._alike(mirror.source, move, here)
                    source = RecordPlace.read(mirror.source, original.place) if original is not None else None
                hop = Hop(mirror.name, source, record, move.batch, told, at_ms)
                if source is None:  # another mirror, or another batch, may know more
                    best = best or (hop, None, False)
                elif _same(original, here):
                    return hop, original, move.former
                else:
                    best = best or (replace(hop, state="another record stands at its source now"), None, True)
        return best

    def _alike(self, site: str, move: MirroredRecord, record: Sighting | None) -> tuple[Sighting | None, str]:
        """Return the record between a move's bounds that is equal to one, and what is to be said of it."""
        if move.others is None:
            return None, f"where on {site} is not known: its run was killed before a broker reported it"
        between = (
            f"between {move.others.start} and {move.others.stop - 1} of {move.place[0]}[{move.place[1]}] on {site}"
        )
        if record is None:
            return None, f"{between}: which it is cannot be determined, since it is not kept"
        try:
            found = self._sites.reader(site).alike(*move.place, move.others, record.content)
        except DatabusError as error:
            return None, f"{between}: not looked at: {error.message}"
        if not found:
            return None, f"{between}: {_GONE}"
        return found[0], f"the first of {len(found)} equal records {between}" if len(found) > 1 else ""

    def _at(self, site: str, place: Place, offsets: Iterable[int]) -> tuple[str, dict[int, Sighting]]:
        """Return what cannot be looked at and why, "" for nothing, and what stands at offsets of a partition."""
        try:
            return "", self._sites.reader(site).at(*place, offsets)
        except DatabusError as error:
            return f"not looked at: {error.message}", {}

    def _cluster_id(self, site: str, topic: str) -> str:
        try:
            return self._sites.reader(site).cluster_id(topic)
        except DatabusError:
            return ""


def _of(record: RecordPlace) -> Place:
    return record.topic, record.partition


def _same(one: Sighting | None, other: Sighting | None) -> bool:
    """Return whether two sightings are of copies; True where one of them is not known."""
    return one is None or other is None or not (one.content and other.content) or one.content == other.content
