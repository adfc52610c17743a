"""The ranges of a batch as numbers: what part of the log it read, what offsets it wrote.

One row per log or output of a batch, not per change: ten million changes in batches of a thousand are ten thousand
rows of the source and as many per partition written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, SequenceOffset, offset_from_json
from databus.core.state.snapshot import PlannedChunks
from databus.core.trace import log_number

SOURCE, OUTPUT, SNAPSHOT = "source", "output", "snapshot"

SEQUENCE = "sequence"
"""Stream of a source that counts."""


def source_stream(offset: BinlogOffset) -> str:
    """Return the name of the log that an offset lies in: server, timeline and stem of the files."""
    return f"{offset.server}/{offset.timeline}/{offset.file.rpartition('.')[0]}"


def ranges_of_batch(
    start: Mapping[str, Any], end: Mapping[str, Any], outputs: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows of side, stream, after (exclusive) and upto (inclusive) of one batch.

    Args:
        start: start of its range in JSON.
        end: end of its range in JSON.
        outputs: outputs of its receipts.
    """
    rows = [{"side": SOURCE, **row} for row in _source(offset_from_json(start), offset_from_json(end))]
    for output in outputs:
        for name, facts in output.items():
            first, last = facts.get("first_offset"), facts.get("last_offset")
            if first is not None and last is not None and 0 <= first <= last:
                rows.append({"side": OUTPUT, "stream": name, "after": first - 1, "upto": last})
    return rows


def ranges_of_chunks(planned: PlannedChunks | None) -> list[dict[str, Any]]:
    """Return the row of the chunks of a snapshot that a batch took along, by their numbers; none without any."""
    if planned is None or not planned.files:
        return []
    last = sum(table.chunks for table in planned.snapshot.tables)
    stream = chunk_stream(planned.snapshot.number)
    return [{"side": SNAPSHOT, "stream": stream, "after": last - len(planned.files), "upto": last}]


def chunk_stream(snapshot: int) -> str:
    """Return the name of the stream of a snapshot's chunks."""
    return f"snapshot-{snapshot}"


def _source(start: Offset, end: Offset) -> list[dict[str, Any]]:
    if isinstance(end, BinlogOffset):
        upto = log_number(end.file_number, end.pos)
        same = isinstance(start, BinlogOffset) and source_stream(start) == source_stream(end)
        # After a failover the range begins in another server's log: all up to the end may be in it.
        after = log_number(start.file_number, start.pos) if same and isinstance(start, BinlogOffset) else 0
        return [{"stream": source_stream(end), "after": after, "upto": upto}]
    if isinstance(end, KafkaOffsets):
        before = start.positions if isinstance(start, KafkaOffsets) else {}
        return [
            {"stream": f"{topic}[{partition}]", "after": before.get(topic, {}).get(partition, 0) - 1, "upto": next_ - 1}
            for topic, partitions in end.positions.items()
            for partition, next_ in partitions.items()
            if next_ > before.get(topic, {}).get(partition, 0)
        ]
    if isinstance(end, SequenceOffset):
        after = start.sequence if isinstance(start, SequenceOffset) else 0
        return [{"stream": SEQUENCE, "after": after, "upto": end.sequence}]
    return []
