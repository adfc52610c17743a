"""Translates consumer offsets from one side of a mirror to the other, by the offset maps of both directions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from databus.core.errors.config import ConfigError
from databus.core.errors.source import OffsetInvalidError
from databus.core.flow import Flow
from databus.core.positions.offset_map import FOREVER, OffsetSpan, Place, known, merged
from databus.ops.mirror.offset_map import KeptMap, MirrorOffsetMap
from databus.runtime.context import Services

if TYPE_CHECKING:
    from databus.sinks.kafka_mirror.spec import MirrorTopics


@dataclass
class Translation:
    """Translated offset of a reader: misses nothing, and reads nothing again that is known as read.

    Attributes:
        there: the mirror from its side to the other; None where there is none.
        back: the mirror from the other side to its own; None where there is none.
    """

    there: MirrorOffsetMap | None
    back: MirrorOffsetMap | None

    def __call__(self, place: Place, position: int) -> tuple[Place, int] | None:
        """Return the place for a reader that wants `position` next; None while nothing of the partition was mirrored.

        Of its own side's records the reader has yet to see those from the first image on; of the other side's, those
        whose images lie behind its position, and those that have no image yet.
        """
        own = self.there.to_target(place, position) if self.there else None
        others = self.back.to_source(place, position) if self.back else None
        if own is None:
            return None if others is None else (others.place, others.offset)
        if self.back is None:
            return own.place, own.offset
        unseen = others.offset if others else self.back.goes_on_at(own.place)
        return own.place, unseen if own.end else min(own.offset, unseen)


@contextmanager
def translation(flow: Flow, services: Services, *, back: bool = False) -> Iterator[Translation]:
    """Open the maps of a mirror, and of the one in the other direction where it names one.

    Args:
        flow: the mirror.
        services: the installation.
        back: from the target to the source.

    Raises:
        ConfigError: the flow is no mirror.
    """
    partner = mirror_sink(flow).partner
    # In this order: what the first does not hold yet lies behind where the second goes on.
    with ExitStack() as opened:
        other = opened.enter_context(closing(KeptMap(partner, services))) if partner else None
        own = opened.enter_context(closing(KeptMap(flow.name, services)))
        yield Translation(other, own) if back else Translation(own, other)


def mirror_sink(flow: Flow) -> MirrorTopics:
    """Return the sink of a mirror.

    Raises:
        ConfigError: the flow is no mirror.
    """
    for sink in flow.sinks:
        if sink.kind == "kafka_mirror":
            return cast("MirrorTopics", sink)
    raise ConfigError(f"flow {flow.name} is no mirror: it keeps no offset map")


def translate(flow: Flow, services: Services, place: Place, position: int, *, back: bool = False) -> tuple[Place, int]:
    """Return the place on the other side for a reader that wants `position` of `place` next.

    Raises:
        ConfigError: the flow is no mirror.
        OffsetInvalidError: nothing of the partition was mirrored yet.
    """
    with translation(flow, services, back=back) as translated:
        found = translated(place, position)
    if found is None:
        raise _not_mirrored(flow, place)
    return found


def _not_mirrored(flow: Flow, place: Place) -> OffsetInvalidError:
    return OffsetInvalidError(
        f"flow {flow.name}: nothing of {place[0]}[{place[1]}] was mirrored yet",
        hint="Name a topic and partition of the source; with --back of the target.",
    )


def mapped(
    flow: Flow, services: Services, place: Place, offsets: tuple[int, int | None], *, back: bool = False
) -> list[tuple[Place, OffsetSpan]]:
    """Return where the offsets [first, upto) of a partition went: places on the other side, with spans in order.

    After a rewind an offset has several images; all are returned, oldest first.

    Args:
        flow: the mirror.
        services: the installation.
        place: partition of the source, with `back` of the target.
        offsets: first, and the one behind the last, None for no bound.
        back: from the target to the source.

    Raises:
        ConfigError: the flow is no mirror.
        OffsetInvalidError: nothing of the partition was mirrored yet.
    """
    mirror_sink(flow)
    first, upto = offsets[0], FOREVER if offsets[1] is None else offsets[1]
    found: list[tuple[Place, OffsetSpan]] = []
    with closing(KeptMap(flow.name, services)) as kept:
        stretches = kept.stretches(place, (first, upto), back=back)
        if not stretches and not kept.stretches(place, (0, FOREVER), back=back):
            raise _not_mirrored(flow, place)
    for other, group in groupby(stretches, key=lambda s: s.source if back else s.target):
        spans = [s.turned if back else s for s in known(list(group))]
        found += [(other, cut) for span in merged(spans) if (cut := span.within(first, upto)) is not None]
    return found


def span_facts(place: Place, span: OffsetSpan) -> dict[str, Any]:
    """Return plain JSON of what `mapped` found of one place: first and last offset, on both sides."""
    return {
        "topic": place[0],
        "partition": place[1],
        "from": span.begin,
        "to": span.upto - 1,
        "other_from": span.image,
        "other_to": span.image_upto - 1,
        "exact": span.exact,
    }
