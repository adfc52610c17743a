"""Offset maps of mirrors: which offset of the source is which of the target, from the receipts of batches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.state.checkpoint import HistoryEntry

Place = tuple[str, int]
"""Topic and partition."""

UNKNOWN = -1
"""An offset of the target that no broker reported: the run that wrote the batch was killed before it noted it."""

FOREVER = 2**63 - 1
"""Behind all offsets."""


@dataclass(frozen=True)
class Image:
    """A place on the other side.

    Attributes:
        place: topic and partition.
        offset: next offset to read.
        exact: whether a mirrored record is known to stand there; else it is the end of all, or the begin of a stretch
            whose records' own places are not known.
        end: whether it is the end of all that is known.
    """

    place: Place
    offset: int
    exact: bool
    end: bool = False


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets of one side and of the other, [begin, upto) and [image, image_upto).

    Attributes:
        begin: first offset.
        upto: offset behind the last.
        image: first offset on the other side.
        image_upto: offset behind the last one there.
        exact: whether both count up together; else records lie somewhere between the bounds, in order.
    """

    begin: int
    upto: int
    image: int
    image_upto: int
    exact: bool = True

    @property
    def turned(self) -> OffsetSpan:
        """The same, seen from the other side."""
        return OffsetSpan(self.image, self.image_upto, self.begin, self.upto, self.exact)

    def within(self, first: int, upto: int) -> OffsetSpan | None:
        """Return the part of [first, upto), None for none; one that is not exact is not cut."""
        begin, end = max(self.begin, first), min(self.upto, upto)
        if begin >= end:
            return None
        if not self.exact:
            return self
        return OffsetSpan(begin, end, self.image + begin - self.begin, self.image + end - self.begin)


@dataclass(frozen=True)
class MappedRange:
    """Offset map entry: what one batch moved of one partition.

    Attributes:
        number: number of the batch's entry in the flow's history.
        incarnation: how often the source partition's log had been replaced (`KafkaOffsets.generations`).
        source: its place on the source.
        target: its place on the target.
        spans: in the order of the source; those that are not exact may have UNKNOWN as image.
    """

    number: int
    incarnation: int
    source: Place
    target: Place
    spans: tuple[OffsetSpan, ...]

    @property
    def source_range(self) -> tuple[int, int]:
        """First source offset, and the one behind the last."""
        return self.spans[0].begin, self.spans[-1].upto

    @property
    def target_range(self) -> tuple[int, int] | None:
        """First target offset, and the one behind the last; None where one of them is not known."""
        bounds = [bound for span in self.spans for bound in (span.image, span.image_upto)]
        return None if UNKNOWN in bounds else (min(bounds), max(bounds))


def stretches_of(entry: HistoryEntry) -> list[MappedRange]:
    """Return what an entry of a mirror's history moved; none for other flows and for amendments."""
    return stretches_between(entry.number, entry.previous, entry.offset, entry.receipts)


def stretches_between(
    number: int, previous: Offset | None, offset: Offset, receipts: Iterable[Mapping[str, Any]]
) -> list[MappedRange]:
    """Return what a mirror moved from one place to the next.

    Args:
        number: what distinguishes it from others.
        previous: where it began; None for the beginning.
        offset: where it ended.
        receipts: of its writers, as JSON.
    """
    if not isinstance(offset, KafkaOffsets):
        return []
    before = previous if isinstance(previous, KafkaOffsets) else None
    found = []
    for receipt in receipts:
        for name, facts in receipt.get("outputs", {}).items():
            if "source" not in facts:
                continue
            source = place_of(str(facts["source"]))
            generation = offset.generations.get(source[0], {}).get(source[1], 0)
            spans = _spans(facts, _passed(source, before, offset))
            if spans:
                found.append(MappedRange(number, generation, source, place_of(name), spans))
    return found


def place_of(name: str) -> Place:
    """Read "topic[partition]"."""
    topic, _, partition = name.rpartition("[")
    return topic, int(partition.rstrip("]"))


def to_target(stretches: Sequence[MappedRange], position: int) -> Image | None:
    """Return the image of the first mirrored record at or behind a position of the source, else the end of all.

    Args:
        stretches: of one source partition, oldest first; where they overlap, as after a rewind, the newest counts.
        position: source offset.
    """
    return _image(stretches[-1].target, known(stretches), position) if stretches else None


def to_source(stretches: Sequence[MappedRange], position: int, goes_on_at: Callable[[Place], int]) -> Image | None:
    """Return the same of a position on the target; the end is where the mirror itself goes on.

    Args:
        stretches: of one target partition, oldest first.
        position: target offset.
        goes_on_at: returns which source offset the mirror wants next.
    """
    if not stretches:
        return None
    place = stretches[-1].source
    mine = [stretch for stretch in stretches if stretch.source == place]
    found = _image(place, [span.turned for span in known(mine)], position)
    return replace(found, offset=max(found.offset, goes_on_at(place))) if found.end else found


def _spans(facts: Mapping[str, Any], passed: tuple[int, int]) -> tuple[OffsetSpan, ...]:
    exact = [
        OffsetSpan(source, source + count, target, target + count) for source, target, count in facts.get("runs", ())
    ]
    unsure = [OffsetSpan(a, b, c, d, exact=False) for a, b, c, d in facts.get("unsure", ())]
    if not exact and not unsure and facts.get("records"):  # a receipt from before stretches without runs were recorded
        unsure = [
            OffsetSpan(*passed, facts.get("first_offset", UNKNOWN), facts.get("last_offset", -2) + 1, exact=False)
        ]
    return tuple(sorted((*exact, *unsure), key=lambda span: span.begin))


def _passed(place: Place, before: KafkaOffsets | None, after: Offset) -> tuple[int, int]:
    topic, partition = place
    first = before.positions.get(topic, {}).get(partition, 0) if before else 0
    last = after.positions.get(topic, {}).get(partition, first) if isinstance(after, KafkaOffsets) else first
    return first, max(first, last)


def known(stretches: Sequence[MappedRange]) -> list[OffsetSpan]:
    """Return all spans; bounds that are not known become those of what was written before and after.

    Args:
        stretches: of one partition, oldest first, as the target's log has them.
    """
    found = [span for stretch in stretches for span in stretch.spans]
    for number, span in enumerate(found):
        begin, upto = span.image, span.image_upto
        if begin == UNKNOWN:
            begin = max((s.image_upto for s in found[:number] if s.image_upto != FOREVER), default=0)
        if upto == UNKNOWN:
            upto = min((s.image for s in found[number + 1 :] if s.image != UNKNOWN), default=FOREVER)
        found[number] = OffsetSpan(span.begin, span.upto, max(begin, 0), upto, span.exact)
    return found


def _image(place: Place, spans: Sequence[OffsetSpan], position: int) -> Image:
    """Return the image of the first record at or behind a position; of spans that overlap the newest counts."""
    for span in reversed(spans):
        if span.begin <= position < span.upto:
            return Image(place, span.image + (position - span.begin) * span.exact, span.exact)
    later = [(span.begin, -number) for number, span in enumerate(spans) if span.begin > position]
    if later:
        span = spans[-min(later)[1]]
        return Image(place, span.image, span.exact)
    last = max(reversed(spans), key=lambda span: span.upto)
    return Image(place, last.image if last.image_upto == FOREVER else last.image_upto, exact=False, end=True)


def merged(spans: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """Join exact spans that touch on both sides, in the order given."""
    found: list[OffsetSpan] = []
    for span in spans:
        last = found[-1] if found else None
        if last and last.exact and span.exact and (last.upto, last.image_upto) == (span.begin, span.image):
            found[-1] = OffsetSpan(last.begin, span.upto, last.image, span.image_upto)
        else:
            found.append(span)
    return found
