"""Where a Kafka source begins when it is told by offsets or by a consumer group."""

from __future__ import annotations

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offsets import KafkaOffsets
from databus.kafka.cluster import KafkaCluster
from databus.sources.kafka.positions import LogState
from databus.sources.kafka.ranges import offsets_at
from databus.sources.kafka.rows import log_name
from databus.sources.kafka.spec import GROUP_PREFIX, KafkaTopics, named_offsets


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
