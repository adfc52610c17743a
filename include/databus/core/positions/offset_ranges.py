"""Arithmetic on places and ranges of a log; of a source that has many logs, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from databus.core.errors.source import SourceDivergedError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange, Ordering, is_foreign
from databus.core.positions.topic_lives import newer

_Place = tuple[str, int]
_At = tuple[int, int]
"""Generation of a partition's log and next offset in it; the greater lies later."""

_ZERO: _At = (0, 0)

_FEW = 16
"""Ranges over so many partitions are printed whole."""


def later(one: Offset, other: Offset) -> Offset:
    """Return the later of two places, of each partition by itself; `one` where they cannot be ordered."""
    if isinstance(one, KafkaOffsets) and isinstance(other, KafkaOffsets):
        return _merged(one, other, max)
    return other if other.compare(one) is Ordering.AFTER else one


def earlier(one: Offset, other: Offset) -> Offset:
    """Return the earlier of two places, of each partition by itself; `one` where they cannot be ordered."""
    if isinstance(one, KafkaOffsets) and isinstance(other, KafkaOffsets):
        return _merged(one, other, min)
    return other if other.compare(one) is Ordering.BEFORE else one


def counted_as(place: Offset, standing: Offset) -> Offset:
    """Return a place of a source's log as it is now, as a checkpoint counts that log: of a binary log by generation.

    On the checkpoint's own server the timeline is its too; places of two servers are compared by GTID.
    """
    if not isinstance(place, BinlogOffset) or not isinstance(standing, BinlogOffset):
        return place
    if place.server == standing.server:
        return place.counted_as(standing)
    return replace(place, generation=standing.generation)


def unreached(place: Offset, *ends: Offset | None) -> Offset | None:
    """Return the latest of some places as far as `place` has not come there, None where it has come to all of them.

    Of a source with many logs, those partitions are named that `place` is behind in; the others may be ahead. A place
    that cannot be ordered (a failover that it had no part in) counts as reached.
    """
    latest = place
    for end in ends:
        latest = latest if end is None else later(latest, end)
    if not isinstance(place, KafkaOffsets) or not isinstance(latest, KafkaOffsets):
        return None if latest is place else latest
    mine = place.places()
    left = {at: where for at, where in latest.places().items() if where > mine.get(at, _ZERO)}
    topics = {topic for topic, _ in left}
    ids = {topic: known for topic, known in latest.ids.items() if topic in topics}
    lives = {topic: known for topic, known in latest.lives.items() if topic in topics}
    return replace(_offsets(left, ids, ()), lives=lives) if left else None


def with_lives_of(place: Offset, other: Offset) -> Offset:
    """Return a place with the lives of topics that are known at another: what is known of a life never changes."""
    if not isinstance(place, KafkaOffsets) or not isinstance(other, KafkaOffsets) or other.passed:
        return place
    return replace(place, lives=newer(place.lives, other.lives))


def without(wanted: OffsetRange, taken: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return what is left of a range, in log order, when other ranges are taken out.

    Args:
        wanted: the range.
        taken: in any order; they may overlap.

    Returns:
        Ranges that do not touch. Of a source with many logs, the first one holds what is left first of each partition,
        the second what is left next, and so on.

    Raises:
        SourceDivergedError: they are not of one log.
    """
    if isinstance(wanted.start, KafkaOffsets) and isinstance(wanted.end, KafkaOffsets):
        return _without_of_partitions(wanted.start, wanted.end, taken)
    left = [] if wanted.empty else [wanted]
    for other in taken:
        if other.empty:
            continue
        left = [rest for piece in left for rest in _cut(piece, other)]
    return tuple(left)


def moved_part(moved: OffsetRange) -> OffsetRange:
    """Return a range without the partitions that it does not move, where there are many; lives of logs stay whole."""
    start, end = moved.start, moved.end
    if not isinstance(start, KafkaOffsets) or not isinstance(end, KafkaOffsets):
        return moved
    if sum(map(len, end.positions.values())) <= _FEW:
        return moved
    kept = _spans(start, end).keys()
    return OffsetRange(_only(start, kept), _only(end, kept))


def overlap(one: OffsetRange, other: OffsetRange) -> bool:
    """Return whether two ranges have changes in common; of a source with many logs, in any of its partitions.

    Raises:
        SourceDivergedError: they are not of one log.
    """
    if isinstance(one.start, KafkaOffsets) and isinstance(one.end, KafkaOffsets):
        mine, theirs = _spans(one.start, one.end), _spans_of(other)
        return any(max(mine[p][0], theirs[p][0]) < min(mine[p][1], theirs[p][1]) for p in mine.keys() & theirs.keys())
    if one.empty or other.empty:
        return False
    return _before(one.start, other.end) and _before(other.start, one.end)


def _cut(piece: OffsetRange, other: OffsetRange) -> list[OffsetRange]:
    if not _before(other.start, piece.end) or not _before(piece.start, other.end):
        return [piece]
    rest = []
    if _before(piece.start, other.start):
        rest.append(OffsetRange(piece.start, other.start))
    if _before(other.end, piece.end):
        rest.append(OffsetRange(other.end, piece.end))
    return rest


def _before(one: Offset, other: Offset) -> bool:
    order = one.compare(other)
    if order is Ordering.DIVERGED and is_foreign(one):
        raise SourceDivergedError(f"{one} and {other} cannot be ordered, says their kind {one.kind!r}")
    if order is Ordering.DIVERGED:
        raise SourceDivergedError(
            f"{one} and {other} cannot be ordered: a failover lies between them",
            hint="Backfill what lies before and after the failover by itself, by GTID.",
        )
    return order is Ordering.BEFORE


def _without_of_partitions(
    start: KafkaOffsets, end: KafkaOffsets, taken: Sequence[OffsetRange]
) -> tuple[OffsetRange, ...]:
    left = {place: [span] for place, span in _spans(start, end).items()}
    for other in taken:
        for place, (since, until) in _spans_of(other).items():
            spans = left.get(place, ())
            if spans:
                left[place] = [
                    (low, high)
                    for begin, stop in spans
                    for low, high in ((begin, min(stop, since)), (max(begin, until), stop))
                    if low < high
                ]
    pieces = []
    for number in range(max(map(len, left.values()), default=0)):
        spans_of = {place: spans[number] for place, spans in left.items() if number < len(spans)}
        low, high = ({place: span[side] for place, span in spans_of.items()} for side in (0, 1))
        pieces.append(OffsetRange(_placed(end, low, start), _placed(end, high, end)))
    return tuple(pieces)


def _spans(start: KafkaOffsets, end: KafkaOffsets) -> dict[_Place, tuple[_At, _At]]:
    before = start.places()
    spans = ((place, (before.get(place, _ZERO), until)) for place, until in end.places().items())
    return {place: span for place, span in spans if span[0] < span[1]}


def _spans_of(other: OffsetRange) -> dict[_Place, tuple[_At, _At]]:
    if not isinstance(other.start, KafkaOffsets) or not isinstance(other.end, KafkaOffsets):
        raise SourceDivergedError(f"{other} is no range of Kafka topics", hint="Was the flow's source changed?")
    return _spans(other.start, other.end)


def _only(offset: KafkaOffsets, kept: Collection[_Place]) -> KafkaOffsets:
    def of(values: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
        found = {topic: {p: at for p, at in each.items() if (topic, p) in kept} for topic, each in values.items()}
        return {topic: each for topic, each in found.items() if each}

    topics = {topic for topic, _ in kept}
    ids = {topic: known for topic, known in offset.ids.items() if topic in topics}
    return replace(offset, positions=of(offset.positions), epochs=of(offset.epochs), ids=ids)


def _placed(base: KafkaOffsets, at: Mapping[_Place, _At], known: KafkaOffsets) -> KafkaOffsets:
    """Return `base` with other places of some partitions; epochs are of those places that `known` has too."""
    places = {**base.places(), **at}
    return replace(_offsets(places, {**known.ids, **base.ids}, (known,)), lives=newer(base.lives, known.lives))


def _merged(one: KafkaOffsets, other: KafkaOffsets, choose: Callable[[_At, _At], _At]) -> KafkaOffsets:
    mine, theirs = one.places(), other.places()
    places = {p: choose(mine.get(p, _ZERO), theirs.get(p, _ZERO)) for p in sorted({*mine, *theirs})}
    taken = {topic for (topic, p), at in places.items() if at != mine.get((topic, p), _ZERO)}
    ids = {**other.ids, **one.ids} | {topic: other.ids[topic] for topic in taken & other.ids.keys()}
    return replace(_offsets(places, ids, (one, other)), lives=newer(one.lives, other.lives))


def _offsets(places: Mapping[_Place, _At], ids: Mapping[str, str], known: Sequence[KafkaOffsets]) -> KafkaOffsets:
    positions: dict[str, dict[int, int]] = {}
    generations: dict[str, dict[int, int]] = {}
    epochs: dict[str, dict[int, int]] = {}
    known_places = [(offsets, offsets.places()) for offsets in known]
    for (topic, partition), at in places.items():
        positions.setdefault(topic, {})[partition] = at[1]
        if at[0]:
            generations.setdefault(topic, {})[partition] = at[0]
        for offsets, places_of in known_places:
            epoch = offsets.epochs.get(topic, {}).get(partition)
            if epoch is not None and places_of.get((topic, partition)) == at:
                epochs.setdefault(topic, {})[partition] = epoch
                break
    return KafkaOffsets(positions, ids, epochs, generations)
