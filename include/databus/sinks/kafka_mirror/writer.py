"""The writer of one slot of a mirror: the Kafka sink's protocol, with records as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaException

from databus.kafka.callbacks import fatal_error_raised
from databus.rows.raw_records import ORIGIN, Header, RawRecords
from databus.sinks.kafka.markers import Place
from databus.sinks.kafka.session import Producing
from databus.sinks.kafka.session_cache import GrownTopics
from databus.sinks.kafka.tally import MessageTally
from databus.sinks.kafka.writer import KafkaSlotWriter
from databus.sinks.kafka_mirror.tally import MirrorTally

_POLL_EVERY = 1000


@dataclass(frozen=True)
class MirrorSlotWriter(KafkaSlotWriter):
    """Writes the slots of one plan, exactly once each for read_committed consumers.

    Attributes:
        origin: site to name in the header `databus.origin`; "" adds none.
        too_large: see `MirrorTopics`.
        value_store: the segment store.
    """

    origin: str = ""
    too_large: str = "quarantine"
    value_store: str = ""

    def tally(self) -> MessageTally:
        """Return a tally that keeps the offset map."""
        shared = bool(self.origin)
        return MirrorTally(
            self.sink, self.limits, too_large=self.too_large, value_store=self.value_store, shared=shared
        )

    def produce(self, session: Producing, batch: RawRecords, tally: MessageTally) -> None:
        """Hand records to the producer; blocks while its queue is full, which bounds the memory of a slow broker."""
        try:
            with fatal_error_raised():
                self._produce(session, batch, tally)
        except KafkaException as error:
            raise session.produce_failed(error) from error

    def place(self, batch: RawRecords) -> Place:
        """Return where the last record stands at the source."""
        return batch.log, int(batch.offsets[-1]), 0, 0

    def until(self, batch: RawRecords, place: Place) -> int:
        """Return how many records stand at a place or before it; partitions come in the order of their logs' names."""
        log, offset = place[:2]
        if batch.log != log:
            return batch.num_rows if (len(batch.log), batch.log) < (len(log), log) else 0
        return int(np.searchsorted(batch.offsets, offset, "right"))

    def _produce(self, session: Producing, batch: RawRecords, tally: MessageTally) -> None:
        reports = tally.reports(batch)
        grown = GrownTopics(session.producer, self.settings.client.timeout_s)
        topic, partition = batch.topic, batch.partition
        produce, poll = session.producer.produce, session.producer.poll
        columns = (batch.values, batch.keys, batch.stamps, self._headers(batch.headers))
        for start in range(0, batch.num_rows, _POLL_EVERY):
            piece = zip(*(column[start : start + _POLL_EVERY] for column in columns), strict=True)
            for row, (value, key, stamp, headers) in enumerate(piece, start):
                while True:
                    try:
                        produce(
                            topic, value, key, partition, reports.get(row), timestamp=max(stamp, 0), headers=headers
                        )
                        break
                    except BufferError:
                        poll(0.1)
                    except KafkaException as error:
                        grown.look_again(topic, error)
            poll(0)

    def _headers(self, given: Sequence[Sequence[Header] | None]) -> Sequence[Sequence[Header] | None]:
        if not self.origin:
            return given
        added = ((ORIGIN, self.origin.encode()),)
        return [[*(of or ()), *added] for of in given]
