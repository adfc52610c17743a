"""Kafka records as they are: what one task of a mirror reads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.rows.raw_records import ORIGIN, RawRecords
from databus.sources.kafka.split import KafkaSplit

if TYPE_CHECKING:
    from confluent_kafka import Message

    from databus.sources.kafka.fetch import FetchRange


@dataclass(frozen=True)
class RawKafkaSplit(KafkaSplit):
    """Stretches of partitions whose records can also be handed on as they are (see `core.protocols.RawRecordSplit`)."""

    def read_raw(self, mine: Callable[[int], bool]) -> Generator[tuple[RawRecords, int]]:
        """Yield records of the partitions that are mine, and how many more were left out; in order of the stretches.

        Raises:
            DatabusError: as `Fetcher.read`.
        """
        from databus.sources.kafka.fetch import Fetcher

        stretches = [stretch for stretch in self.stretches if mine(stretch.partition)]
        if not stretches:
            return
        with closing(
            Fetcher(self.client, self.spec.isolation, self.spec.consumer, stretches, self.flow).read()
        ) as fetched:
            for stretch, messages in fetched:
                records = self._records(stretch, messages)
                kept = self._without_origin(records)
                yield kept, records.num_rows - kept.num_rows

    def offsets(self, mine: Callable[[int], bool]) -> int:
        """Return how many offsets lie in the stretches of the partitions that are mine."""
        return sum(stretch.end - stretch.begin for stretch in self.stretches if mine(stretch.partition))

    def _records(self, stretch: FetchRange, messages: Sequence[Message]) -> RawRecords:
        from confluent_kafka import Message

        from databus.sources.kafka.rows import log_name

        kind: Any = Message
        return RawRecords(
            self.schemas[stretch.topic][0],
            self.server,
            log_name(stretch.topic, stretch.partition),
            stretch.partition,
            np.fromiter(map(kind.offset, messages), np.int64, len(messages)),
            list(map(kind.key, messages)),
            list(map(kind.value, messages)),
            list(map(kind.headers, messages)),
            [stamp for _, stamp in map(kind.timestamp, messages)],
        )

    def _without_origin(self, records: RawRecords) -> RawRecords:
        """Leave out what came from the site that it would go to, or from any."""
        if not self.spec.leave_out or not any(records.headers):
            return records
        mark, any_site = (ORIGIN, self.spec.leave_out.encode()), self.spec.leave_out == "*"

        def out(of: Sequence[tuple[str, bytes | None]]) -> bool:
            return mark in of or (any_site and any(name == ORIGIN for name, _ in of))

        return records.filter([not (of and out(of)) for of in records.headers])
