"""Expand compressed events: a buffer in which every event is a plain one, and from where in the log each comes.

The log's own bytes stay as they are; whoever cuts or keeps them uses the offsets of this module to get back to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.expansion import find_events
from databus.binlog.kernels.walk import P_FROM, P_RAW_FROM, P_RAW_TO, P_TO, P_WIDTH
from databus.binlog.log.compressed_events import (
    PAYLOAD,
    CompressedEvent,
    ExpansionFault,
    read_compressed,
    read_payloads,
)
from databus.binlog.log.events import EventType, FormatDescription, parse_format_description
from databus.binlog.log.mapped import IN_MEMORY_BYTES, release, spooled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

MOST_EXPANDED_BYTES = 64 << 20
"""Bound of compressed events when expanded, of those that are walked at once; a larger one stands alone."""

_FOUND_AT_ONCE = 4096
_MARIADB = tuple(range(EventType.QUERY_COMPRESSED, EventType.DELETE_ROWS_COMPRESSED + 1))


def _wanted(*kinds: int) -> Bytes:
    wanted = np.zeros(256, dtype=np.uint8)
    wanted[list(kinds)] = 1
    return wanted


_WANTED = {"mysql": _wanted(PAYLOAD), "mariadb": _wanted(*_MARIADB)}


@dataclass(frozen=True, eq=False)
class Expansion:
    """Plain events and where they come from.

    Attributes:
        buffer: the plain events; the raw ones themselves when none is compressed.
        splices: int64[n, P_WIDTH], one line per compressed event, in order: what it became lies at P_FROM…P_TO of
            `buffer`, without checksums and positions.
        raw_bytes: how many of the raw bytes the buffer stands for.
        fault: why the compressed event after them could not be expanded; None when it could.
    """

    buffer: Bytes
    splices: Ints
    raw_bytes: int
    fault: ExpansionFault | None = None

    def raw_offset(self, offset: int) -> int:
        """Return the raw offset of an event in `buffer`; of one that was inside another, the outer one's."""
        number = int(np.searchsorted(self.splices[:, P_FROM], offset, side="right")) - 1
        if number < 0:
            return offset
        splice = self.splices[number]
        if offset < splice[P_TO]:
            return int(splice[P_RAW_FROM])
        return int(splice[P_RAW_TO] + offset - splice[P_TO])

    def expanded(self, offset: int) -> bool:
        """Return whether the event at an offset of `buffer` comes out of a compressed one: it has no checksum."""
        number = int(np.searchsorted(self.splices[:, P_FROM], offset, side="right")) - 1
        return number >= 0 and offset < int(self.splices[number, P_TO])

    def raw_ends(self, offsets: Ints) -> Ints:
        """Return the raw offsets after events that end at these offsets of `buffer`."""
        if not len(self.splices):
            return offsets
        number = np.searchsorted(self.splices[:, P_TO], offsets, side="right") - 1
        after = self.splices[np.maximum(number, 0)]
        return np.where(number < 0, offsets, after[:, P_RAW_TO] + offsets - after[:, P_TO])

    def plain_ends(self, raw_offsets: Ints) -> Ints:
        """Return the offsets in `buffer` after events that end at these raw offsets."""
        if not len(self.splices):
            return raw_offsets
        number = np.searchsorted(self.splices[:, P_RAW_TO], raw_offsets, side="right") - 1
        after = self.splices[np.maximum(number, 0)]
        return np.where(number < 0, raw_offsets, after[:, P_TO] + raw_offsets - after[:, P_RAW_TO])


def expand(raw: Bytes, start: int, log: FormatDescription, most_bytes: int | None = None) -> Expansion:
    """Expand the compressed events of a buffer.

    Args:
        raw: events as they lie in the log; the last one may be cut short.
        start: offset of the first event to look at.
        log: the format of the events.
        most_bytes: expand no further event once the expanded ones together take more than this.
    """
    compressed, fault, raw_end = _compressed(raw, start, log, most_bytes)
    if not compressed:
        return _expansion(raw[:raw_end], [], raw_end, fault)
    total = raw_end + sum(event.plain_bytes - event.size_bytes for event in compressed)
    try:
        buffer = spooled(total) if total > IN_MEMORY_BYTES else np.empty(total, dtype=np.uint8)
    except MemoryError:
        first = compressed[0]
        fault = ExpansionFault(first.kind, first.at, f"and what follows would take {total} bytes of memory")
        return _expansion(raw[: first.at], [], first.at, fault)
    splices: list[tuple[int, ...]] = []
    raw_at = at = 0
    for event in compressed:
        between = event.at - raw_at
        buffer[at : at + between] = raw[raw_at : event.at]
        at += between
        failed = event.expand(raw, buffer, at)
        if event.plain_bytes > IN_MEMORY_BYTES:
            release(raw)
        if failed is not None:
            return _expansion(buffer[:at], splices, event.at, failed)
        end, raw_at = at + event.plain_bytes, event.at + event.size_bytes
        splices.append((at, end, event.at, raw_at, event.log_pos, event.kind))  # in the order of P_…
        at = end
    buffer[at:] = raw[raw_at:raw_end]
    return _expansion(buffer, splices, raw_end, fault)


def _expansion(buffer: Bytes, splices: list[tuple[int, ...]], raw_end: int, fault: ExpansionFault | None) -> Expansion:
    buffer.flags.writeable = False
    return Expansion(buffer, np.array(splices, dtype=np.int64).reshape(-1, P_WIDTH), raw_end, fault)


def plain_bytes(raw: Bytes) -> int:
    """Return the size of a segment or log file without magic if nothing in it were compressed; nothing is expanded."""
    size = int.from_bytes(raw[9:13].tobytes(), "little")
    log = parse_format_description(raw[:size].tobytes(), "0")
    heads, _, _ = _compressed(raw, size, log, None)
    return len(raw) + sum(head.plain_bytes - head.size_bytes for head in heads)


def unexpanded(raw: Bytes) -> Expansion:
    """Return a buffer as it is."""
    return Expansion(raw, np.zeros((0, P_WIDTH), dtype=np.int64), len(raw))


def _compressed(
    raw: Bytes, start: int, log: FormatDescription, most_bytes: int | None
) -> tuple[list[CompressedEvent], ExpansionFault | None, int]:
    """Return the heads of the compressed events to expand, the fault of the first bad one, and the raw end."""
    heads: list[CompressedEvent] = []
    expanded = 0
    for head in _heads(raw, start, log):
        at = head.at
        if most_bytes is not None and expanded > most_bytes:
            return heads, None, at
        if isinstance(head, ExpansionFault):
            return heads, head, at
        heads.append(head)
        expanded += head.plain_bytes
    return heads, None, len(raw)


def _heads(raw: Bytes, start: int, log: FormatDescription) -> Iterator[CompressedEvent | ExpansionFault]:
    found = np.empty(_FOUND_AT_ONCE, dtype=np.int64)
    while True:
        count = int(find_events(raw, start, _WANTED[log.flavor], found))
        if log.flavor == "mysql":
            yield from read_payloads(raw, found[:count], log)
        else:
            for at in found[:count].tolist():
                yield read_compressed(raw, at, log)
        if count < _FOUND_AT_ONCE:
            return
        last = int(found[-1])
        start = last + int.from_bytes(raw[last + 9 : last + 13].tobytes(), "little")
