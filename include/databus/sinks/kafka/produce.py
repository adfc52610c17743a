"""Records of a slot handed to the producer: most by compiled code, those with a delivery report by the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException

from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.producer_handle import ProducerHandle, handle_of
from databus.rows.columns import text, validity, views
from databus.sinks.kafka.headers import PREFIX, header_lists, of_tombstone
from databus.sinks.kafka.session import Producing
from databus.sinks.kafka.session_cache import GrownTopics
from databus.sinks.kafka.tally import MessageTally

if TYPE_CHECKING:
    from databus.kafka.record_run import Bytes, RecordRun

COMPILED_FROM = 256
"""Rows of a batch from which on setting up the compiled code pays."""

ROWS_A_REPORT = 64
"""Rows to each delivery report from which on it pays: a row with a report goes by the client, and ends a run."""

_GROWN_WITHIN_S = 30.0
"""A topic that has grown is reported by each broker within so long."""

_POLL_EVERY = 1000
_FULL_S = 0.1
_COLUMNS = ("partition", "key", "event_id", "ts_ms", "tombstone")

Reports = Mapping[int, Callable[..., None]]


def produce(session: Producing, batch: pa.RecordBatch, tally: MessageTally) -> None:
    """Hand a batch to the producer; blocks while its queue is full, which bounds the memory of a slow broker."""
    try:
        with fatal_error_raised():
            hand_over(session.producer, batch, tally.reports(batch))
    except KafkaException as error:
        raise session.produce_failed(error) from error


def hand_over(producer: Any, batch: pa.RecordBatch, reports: Reports) -> None:
    """Produce the records of a batch in its order.

    Args:
        producer: confluent-kafka's, or what has its `produce`, `poll` and `list_topics`.
        batch: `encoding.COLUMNS`, and those of chosen headers.
        reports: row → delivery callback.

    Raises:
        KafkaException: the producer refused a record; those before it are produced.
        BufferError: never; a full queue is waited for.
    """
    many = batch.num_rows >= max(COMPILED_FROM, ROWS_A_REPORT * len(reports))
    handle = handle_of(producer) if many and _is_plain(batch) else None
    if handle is None:
        _by_client(producer, batch, reports)
    else:
        _compiled(handle, producer, batch, reports)


def _is_plain(batch: pa.RecordBatch) -> bool:
    """Return whether all is there that every record has; the client says what it thinks of one that lacks it."""
    if any(batch[name].null_count for name in ("topic", "partition", "event_id", "ts_ms")):
        return False
    names = [*pc.unique(batch["topic"]).to_pylist(), *batch.schema.names]
    return not any("\0" in name for name in names)


def _compiled(handle: ProducerHandle, producer: Any, batch: pa.RecordBatch, reports: Reports) -> None:
    from databus.kafka.record_run import is_full

    run = _run_of(handle, batch)
    start = 0
    for stop in _stops(batch.num_rows, reports):
        while start < stop:
            start, code = run.hand_over(start, stop)
            if is_full(code):
                producer.poll(_FULL_S)
            elif code:  # the client says what it is
                _by_client(producer, batch.slice(start, 1), {}, second=run.half)
                run.produced()
                start += 1
        if stop in reports:
            _by_client(producer, batch.slice(stop, 1), {0: reports[stop]})
            start = stop + 1
        if stop % _POLL_EVERY == 0:
            producer.poll(0)


def _stops(rows: int, reports: Reports) -> Iterator[int]:
    """Yield the rows before which compiled code stops: where a report is wanted, a poll is due, and behind the last."""
    yield from sorted({*reports, *range(0, rows, _POLL_EVERY), rows})


def _by_client(producer: Any, batch: pa.RecordBatch, reports: Reports, second: bool = False) -> None:
    """Produce by one call of the client a record; with `second` the first row's tombstone alone."""
    columns = [_topics(batch["topic"]), views(batch["value"]), *(batch[name].to_pylist() for name in _COLUMNS)]
    produce, poll = producer.produce, producer.poll
    grown = GrownTopics(producer, _GROWN_WITHIN_S)
    last_ms, stamp = None, ("ts_ms", "")
    chosen = header_lists(batch)
    for row, (topic, value, partition, key, event_id, ts_ms, tombstone) in enumerate(zip(*columns, strict=True)):
        if ts_ms != last_ms:
            last_ms, stamp = ts_ms, ("ts_ms", str(ts_ms))
        headers = [("event_id", event_id), stamp] if chosen is None else chosen[row]
        if second and row == 0:
            value, tombstone, headers = None, False, of_tombstone(headers)  # noqa: PLW2901
        while True:
            try:
                # By position (on_delivery, timestamp, headers): names take a tenth of the call.
                produce(topic, value, key, partition, reports.get(row), None, 0, headers)
                if tombstone:
                    value, tombstone = None, False  # noqa: PLW2901 - the record that follows a delete
                    headers = of_tombstone(headers)
                    continue
                break
            except BufferError:
                poll(_FULL_S)
            except KafkaException as error:
                grown.look_again(topic, error)
        if row % _POLL_EVERY == 0:
            poll(0)


def _run_of(handle: ProducerHandle, batch: pa.RecordBatch) -> RecordRun:
    from databus.kafka.record_run import RecordRun, Records

    topic = batch["topic"].dictionary_encode()
    names = [name.removeprefix(PREFIX) for name in batch.schema.names if name.startswith(PREFIX)]
    if names:
        headers = [(name, _bytes(batch[PREFIX + name])) for name in names]
    else:
        headers = [("event_id", _bytes(batch["event_id"])), ("ts_ms", _bytes(batch["ts_ms"].cast(pa.string())))]
    records = Records(
        topic.dictionary.to_pylist(),
        topic.indices.to_numpy().astype(np.int64),
        np.array(batch["partition"].cast(pa.int64())),
        _bytes(batch["value"]),
        _bytes(batch["key"]),
        headers,
        np.array(batch["tombstone"], np.bool_),
        [name for name, _ in of_tombstone([(name, "") for name, _ in headers])],
    )
    return RecordRun(handle, records)


def _bytes(array: pa.Array) -> Bytes:
    from databus.kafka.record_run import Bytes

    return Bytes(*text(array), validity(array))


def _topics(column: pa.Array) -> list[str]:
    """Return the column as a list; the few names are made once."""
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    return [names[code] for code in encoded.indices.to_numpy().tolist()]
