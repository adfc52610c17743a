"""A range of Kafka topics as the path plans it."""

from __future__ import annotations

from databus.core.positions.offsets import OffsetRange
from databus.core.state.plan import LostRange, SourcePlan
from databus.sources.kafka.ranges import kafka_offsets, stretches_of
from databus.sources.kafka.record_sampling import Sample
from databus.sources.kafka.rows import tables_of
from databus.sources.kafka.spec import KafkaTopics


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
