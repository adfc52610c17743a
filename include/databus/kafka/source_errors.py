"""Client errors of a Kafka cluster that is read, as the source's errors."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from databus.core.errors.sink import SinkAccessError, SinkSettingError, SinkUnavailableError
from databus.core.errors.source import SourceAccessError, SourceError, SourceSettingError, SourceUnavailableError
from databus.kafka.client import ClientSettings, LastError, sink_error

_AS_SOURCE = (
    (SinkAccessError, SourceAccessError),
    (SinkSettingError, SourceSettingError),
    (SinkUnavailableError, SourceUnavailableError),
)


def source_error(
    settings: ClientSettings, doing: str, error: KafkaException | KafkaError, seen: LastError
) -> SourceError:
    """Map a client error; see `sink_error`."""
    mapped = sink_error(settings, doing, error, seen)
    for theirs, ours in _AS_SOURCE:
        if isinstance(mapped, theirs):
            code = mapped.code if mapped.code != theirs.code else ours.code
            return ours(mapped.message, hint=mapped.hint, code=code)
    return SourceError(mapped.message, hint=mapped.hint, retryable=mapped.retryable)
