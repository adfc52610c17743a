"""Kafka split: what one Spark task reads of a range, partition by partition, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.tables.schemas import TableSchema
from databus.kafka.client import ClientSettings
from databus.schema_registry.settings import RegistrySettings
from databus.sources.kafka.fetch import Fetcher, FetchRange
from databus.sources.kafka.spec import KafkaTopics
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

    from databus.rows.image_form import ImageForm
    from databus.sources.kafka.rows import Decoders, Record


@dataclass(frozen=True)
class KafkaSplit(SplitRows):
    """Stretches of partitions in the order of their names; carries the connection, which no repr shows.

    Attributes:
        spec: the source.
        stretches: what to read, in order.
        schemas: topic → its schemas.
        server: id of the cluster, part of event ids.
        client: how to reach the cluster.
        flow: who reads, for messages.
        registry: how to reach the schema registry that describes keys or values.
    """

    spec: KafkaTopics
    stretches: tuple[FetchRange, ...]
    schemas: Mapping[str, tuple[TableSchema, ...]]
    server: str
    client: ClientSettings = field(repr=False)
    flow: str
    registry: RegistrySettings | None = field(default=None, repr=False)

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        from databus.rows.emit import emit
        from databus.sources.kafka.rows import batches

        decoders = self._decoders()
        for stretch, messages in self._fetched():
            records = [record(message) for message in messages]
            pieces: list[pa.RecordBatch] = []
            for batch, log in batches(self.spec, self.schemas[stretch.topic], stretch.partition, records, decoders):
                pieces += emit(batch, log, self.server, form)
            yield from _in_order(pieces)

    def _decoders(self) -> Decoders:
        if self.registry is None:
            return {}
        from databus.schema_registry.decoder import SchemaDecoder

        return {form: SchemaDecoder(self.registry, form) for form in self.spec.registry_formats()}

    def _fetched(self) -> Iterator[tuple[FetchRange, list[Message]]]:
        return Fetcher(self.client, self.spec.isolation, self.spec.consumer, self.stretches, self.flow).read()


def record(message: Message) -> Record:
    """Return what a message holds; no key or value is None, empty ones are b""."""
    from databus.sources.kafka.rows import Record

    kind, stamp = message.timestamp()
    headers: Any = message.headers() or ()
    return Record(message.offset() or 0, message.key(), message.value(), headers, kind, stamp)


def _in_order(pieces: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge records with and without a key, which are encoded apart, in the order of their offsets."""
    import pyarrow as pa

    if len({piece["schema_id"][0].as_py() for piece in pieces}) < 2:
        yield from pieces
        return
    merged = pa.Table.from_batches(pieces)
    yield from merged.take(pa.compute.sort_indices(merged["place"])).combine_chunks().to_batches()
