"""Arithmetic on what lies between two offsets of a Kafka source: places, backlogs, stretches and pieces of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange, offset_of
from databus.core.state.plan import LostRange, SourcePlan
from databus.kafka.cluster import KafkaCluster, Place, TopicFacts
from databus.sources.kafka.fetch import FetchRange
from databus.sources.kafka.positions import LogState, advanced
from databus.sources.kafka.record_sampling import Sample
from databus.sources.kafka.rows import log_name, tables_of
from databus.sources.kafka.spec import GROUP_PREFIX, KafkaTopics, named_offsets


def kafka_offsets(offset: Offset) -> KafkaOffsets:
    """Return an offset as one of Kafka topics.

    Raises:
        OffsetInvalidError: it is of another kind of source.
    """
    return offset_of(KafkaOffsets, offset, "Kafka topics", "Reset the checkpoint.")


def places_of(topics: Mapping[str, TopicFacts]) -> list[Place]:
    """Return all partitions of topics."""
    return [(topic, partition) for topic, facts in topics.items() for partition in range(facts.partitions)]


def offsets_at(state: LogState, offsets: Mapping[Place, int]) -> KafkaOffsets:
    """Return the source's offset that stands at these offsets of its partitions."""
    return advanced(KafkaOffsets({}), state, offsets)


def at_or_end(found: Mapping[Place, int | None], state: LogState) -> dict[Place, int]:
    """Return what was found of each partition, the end of its log where nothing was or it lies behind the end."""
    return {place: end if (at := found.get(place)) is None else min(at, end) for place, end in state.ends.items()}


def backlog_of(start: KafkaOffsets, state: LogState) -> dict[Place, int]:
    """Return how many offsets of each partition are to be read."""
    return {
        (topic, partition): max(0, end - start.positions.get(topic, {}).get(partition, 0))
        for (topic, partition), end in state.ends.items()
    }


def unread_of(standing: KafkaOffsets, state: LogState) -> dict[str, int]:
    """Return topic → offsets behind those that were read; a partition whose end was not reported counts as one."""
    found, told = dict.fromkeys(state.ids, 0), dict.fromkeys(state.ids, 0)
    for (topic, partition), end in state.ends.items():
        known, read = standing.ids.get(topic), standing.positions.get(topic, {})
        position = 0 if known and known != state.ids[topic] else read.get(partition, 0)
        found[topic] += max(0, end - max(position, state.earliest[topic, partition]))
        told[topic] += partition in read
    return {topic: left + len(standing.positions.get(topic, {})) - told[topic] for topic, left in found.items()}


def stretches_of(start: KafkaOffsets, end: KafkaOffsets) -> list[FetchRange]:
    """Return what lies between two offsets, in the order in which rows are sorted: short names of logs first."""
    before = start.positions
    found = [
        FetchRange(topic, partition, begin, stop, start.epochs.get(topic, {}).get(partition, -1))
        for topic, partitions in end.positions.items()
        for partition, stop in partitions.items()
        if stop > (begin := before.get(topic, {}).get(partition, 0))
    ]
    return sorted(found, key=lambda s: (len(name := log_name(s.topic, s.partition)), name))


def pieces_of(stretches: Sequence[FetchRange], count: int) -> list[tuple[FetchRange, ...]]:
    """Cut stretches, in their order, into at most `count` pieces of about as many offsets."""
    total = sum(s.end - s.begin for s in stretches)
    size = max(1, ceil(total / max(1, count)))
    pieces: list[list[FetchRange]] = [[]]
    room = size
    for stretch in stretches:
        begin = stretch.begin
        while begin < stretch.end:
            if not room:
                pieces.append([])
                room = size
            stop = min(stretch.end, begin + room)
            # The leader epoch is known of the checkpoint's place, not of places behind it.
            epoch = stretch.epoch if begin == stretch.begin else -1
            pieces[-1].append(replace(stretch, begin=begin, end=stop, epoch=epoch))
            room -= stop - begin
            begin = stop
    return [tuple(piece) for piece in pieces if piece]


def given_start(spec: KafkaTopics, cluster: KafkaCluster, state: LogState, start: str) -> KafkaOffsets:
    """Return what "group:NAME" or "offsets:TOPIC:PARTITION:NEXT,…" names; other partitions from their beginning.

    Raises:
        OffsetInvalidError: an offset is not one of its log, a topic is not read, or the group has committed nothing.
    """
    if start.startswith(GROUP_PREFIX):
        group = start.removeprefix(GROUP_PREFIX)
        wanted = cluster.committed(group)
        what = f"group {group} has committed"
        if not wanted:
            raise OffsetInvalidError(
                f"{spec.conn_id}: consumer group {group} has committed no offset",
                hint='Name another group, or start="earliest" or "latest".',
            )
    else:
        wanted, what = named_offsets(start), "start names"
    for place, offset in wanted.items():
        if place in state.ends and not state.earliest[place] <= offset <= state.ends[place]:
            raise OffsetInvalidError(
                f"{spec.conn_id}: {what} {offset} of {log_name(*place)}, "
                f"whose log holds {state.earliest[place]} to {state.ends[place]}"
            )
    if not start.startswith(GROUP_PREFIX) and (unknown := sorted(wanted.keys() - state.ends.keys())):
        raise OffsetInvalidError(
            f"{spec.conn_id}: {what} {log_name(*unknown[0])}, which is not among the topics that are read"
        )
    return offsets_at(state, {place: wanted.get(place, first) for place, first in state.earliest.items()})


def source_plan(
    spec: KafkaTopics, planned: OffsetRange, sample: Sample, *, more: bool, lost: LostRange | None = None
) -> SourcePlan:
    """Describe a range.

    Args:
        spec: the source.
        planned: the range; its tables are those of all its topics, whatever is left of them.
        sample: size and times of records.
        more: whether the logs go on behind it.
        lost: what is gone of it and not read.
    """
    end = kafka_offsets(planned.end)
    topics = dict.fromkeys(s.topic for s in stretches_of(kafka_offsets(planned.start), end))
    begin = kafka_offsets(planned.start if lost is None else lost.range.end)
    rows = sum(s.end - s.begin for s in stretches_of(begin, end))
    return SourcePlan(
        planned,
        tables_of(spec, list(topics)),
        rows,
        rows * sample.record_bytes,
        sample.first_at,
        sample.last_at,
        more=more,
        bound=True,
        lost=lost,
    )
