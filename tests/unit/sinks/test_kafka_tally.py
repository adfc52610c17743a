"""Offsets of a slot's records, as the broker acknowledges them."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from databus.sinks.kafka.tally import MessageTally


def produced(tally: MessageTally, *offsets: int | None) -> None:
    """Acknowledge the first and the last record of a partition."""
    count = 3
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["t"] * count, "partition": [0] * count, "tombstone": pa.array([False] * count)}
    )
    callbacks = tally.reports(batch)
    for row, offset in zip(sorted(callbacks), offsets, strict=True):
        callbacks[row](None, SimpleNamespace(offset=lambda offset=offset: offset))


def test_offsets_are_those_of_the_first_and_the_last_record() -> None:
    tally = MessageTally("kafka", {})
    produced(tally, 7, 9)
    produced(tally, 12, 14)
    assert tally.facts() == {"t[0]": {"first_offset": 7, "last_offset": 14, "records": 6}}
    assert tally.offsets() == {"t[0]": (7, 14, 6)}


def test_a_record_acknowledged_without_an_offset_leaves_all_offsets_out() -> None:
    """So librdkafka reports a record that it sent again and that the broker had already."""
    tally = MessageTally("kafka", {})
    produced(tally, 7, None)
    assert tally.facts() == {"t[0]": {"records": 3}}
    assert tally.offsets() is None
