"""Mirror offsets of single records: which offset of one side became which of the other, by the recorded batches.

A batch's receipts hold its part of the offset map, run by run. So a look-up finds the few batches that hold a place, by
their ranges, and needs neither ZooKeeper nor a row per record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from databus.core.flow import Flow
from databus.core.positions.offset_map import UNKNOWN, OffsetSpan, Place, stretches_between
from databus.core.positions.offsets import KafkaOffsets
from databus.ops.trace.clusters import Sites
from databus.records.batch_record import BatchRecord
from databus.records.provenance import Provenance
from databus.records.ranges import OUTPUT, SOURCE

if TYPE_CHECKING:
    from databus.sinks.kafka_mirror.spec import MirrorTopics
    from databus.sources.kafka.spec import KafkaTopics


@dataclass(frozen=True)
class MirroredRecord:
    """Mirror hop: a mirror moved a record.

    Attributes:
        offset: the record's, on the side that was asked for.
        place: partition on the other side.
        others: where it lies there: one offset where the map is exact, else bounds; None where not even they are known.
        batch: the batch that moved it.
        former: whether it was read from a topic that was deleted and made anew since.
    """

    offset: int
    place: Place
    others: range | None
    batch: BatchRecord
    former: bool


def is_mirror(flow: Flow) -> bool:
    """Return whether a flow moves records from one Kafka cluster to another as they are."""
    return any(sink.kind == "kafka_mirror" for sink in flow.sinks)


class MirrorMoves:
    """Mirror hops between two sites, as they are recorded.

    Args:
        flow: the mirror.
        sites: names the clusters.
        provenance: the records.
    """

    def __init__(self, flow: Flow, sites: Sites, provenance: Provenance) -> None:
        self.name = flow.name
        self._sink = cast("MirrorTopics", next(sink for sink in flow.sinks if sink.kind == "kafka_mirror"))
        self._leave_out = cast("KafkaTopics", flow.source).leave_out
        self.source, self.target = sites.of(self._sink.source_conn_id), sites.of(self._sink.conn_id)
        self._provenance = provenance
        self._generations: KafkaOffsets | None = None

    def onward(self, place: Place, offsets: Sequence[int]) -> list[MirroredRecord]:
        """Return where records of a partition of the source went, oldest first.

        Args:
            place: topic and partition.
            offsets: in order.
        """
        return [move for move in self._moves(SOURCE, place, offsets) if not move.former]

    def back(self, place: Place, offset: int) -> list[MirroredRecord]:
        """Return where a record of the target came from, oldest first; of several the topic may have been made anew."""
        return list(self._moves(OUTPUT, place, [offset]))

    def has_read(self, place: Place, offset: int) -> bool:
        """Return whether a recorded batch went over an offset of the source."""
        return bool(self._provenance.covering(self.name, SOURCE, _stream(place), [offset]))

    def why_not(self, place: Place, offsets: Sequence[int], cluster_id: Callable[[], str]) -> Iterator[tuple[int, str]]:
        """Yield (offset, why it was not moved) for records of a partition of the source, where this can be determined.

        Args:
            place: topic and partition.
            offsets: of records that no batch has moved.
            cluster_id: returns that of the source, a part of the names of held rows.
        """
        if not self._sink.wants(place[0]):
            return
        bounds = self._provenance.bounds(self.name, SOURCE, _stream(place))
        passed = [offset for offset in offsets if bounds is not None and bounds[0] < offset <= bounds[1]]
        held = self._held(place, passed, cluster_id()) if passed else {}
        for offset in offsets:
            if row := held.get(offset):
                told = f"held it back: {row['cause']} (quarantine, batch {row['batch']})"
            elif bounds is None or offset > bounds[1]:
                told = "has not moved it yet, as far as is recorded"
            elif offset <= bounds[0]:
                told = "began behind it"
            elif self._leave_out:
                told = (
                    f"left it out: it came from {'another site' if self._leave_out == '*' else self._leave_out} before"
                )
            else:
                told = "did not carry it on"
            yield offset, f"mirror {self.name} {told}"

    def _held(self, place: Place, offsets: Iterable[int], cluster_id: str) -> dict[int, dict[str, Any]]:
        """Return offset → what the quarantine holds of it; a record is named there by cluster, partition and offset."""
        names = {f"{cluster_id}:{_stream(place)}:{offset}:0:0": offset for offset in offsets}
        return {names[row["event_id"]]: row for row in self._provenance.held(self.name, list(names))}

    def _moves(self, side: str, place: Place, offsets: Sequence[int]) -> Iterator[MirroredRecord]:
        for batch in self._provenance.covering(self.name, side, _stream(place), offsets):
            for stretch in stretches_between(batch.batch, batch.start, batch.end, batch.receipts):
                here, there = stretch.source, stretch.target
                if side == OUTPUT:
                    here, there = there, here
                if here != place:
                    continue
                former = stretch.incarnation != self._generation(stretch.source)
                for span in stretch.spans:
                    seen = span.turned if side == OUTPUT else span
                    # Where a span's own bounds are not known (-1), no offset lies in it.
                    for offset in offsets[bisect_left(offsets, seen.begin) : bisect_left(offsets, seen.upto)]:
                        yield MirroredRecord(offset, there, _others(seen, offset), batch, former)

    def _generation(self, place: Place) -> int:
        """Return how often a source partition's log had been replaced, by the newest record."""
        if self._generations is None:
            stands = self._provenance.stands_at(self.name)
            self._generations = stands if isinstance(stands, KafkaOffsets) else KafkaOffsets({})
        return self._generations.generations.get(place[0], {}).get(place[1], 0)


def _stream(place: Place) -> str:
    return f"{place[0]}[{place[1]}]"


def _others(span: OffsetSpan, offset: int) -> range | None:
    """Return the offsets on the other side among which an offset of a span lies."""
    if span.exact:
        at = span.image + offset - span.begin
        return range(at, at + 1)
    return None if UNKNOWN in (span.image, span.image_upto) else range(span.image, span.image_upto)
