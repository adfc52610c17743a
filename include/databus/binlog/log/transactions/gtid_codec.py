"""GTID sets in binary form, as COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS events have it, and MariaDB's GTID lists.

Format (MySQL source, `Gtid_set::encode`): a header of 8 bytes, little-endian; per source its uuid (16 bytes), in the
tagged format its tag, the number of intervals (u64), and per interval its first number and its last plus one (u64).
Untagged format, all that servers before 8.3 know: the header is the number of sources. Tagged format (8.3 and later):
lowest and highest byte of the header are 1, the 6 between are the number of sources, of which each is a pair of uuid
and tag; a tag is its length (`serialized_unsigned`, 0 for none) and its characters.
"""

from __future__ import annotations

import struct
import uuid

from databus.binlog.log.events import CHECKSUM_BYTES
from databus.binlog.log.packed_integers import serialized_unsigned
from databus.core.errors.source import DecodeError
from databus.core.positions.gtid import Interval, MysqlGtidSet

_UNTAGGED, _TAGGED = 0, 1
_COUNT_BITS = 48
_LIST_COUNT = (1 << 28) - 1
_TAG_BYTES = 32
"""Longest tag; its length takes one byte."""


def encode_gtid_set(gtids: MysqlGtidSet) -> bytes:
    """Encode a GTID set; in the tagged format only where it holds tags, which servers before 8.3 cannot have."""
    tagged = any(":" in source for source in gtids.intervals)
    count = len(gtids.intervals)
    encoded = [struct.pack("<Q", (_TAGGED << 56 | count << 8 | _TAGGED) if tagged else count)]
    for source, intervals in gtids.intervals.items():
        server, _, tag = source.partition(":")
        encoded.append(uuid.UUID(server).bytes)
        if tagged:
            encoded.append(bytes([len(tag) << 1]) + tag.encode())
        encoded.append(struct.pack("<Q", len(intervals)))
        encoded.extend(struct.pack("<QQ", first, last + 1) for first, last in intervals)
    return b"".join(encoded)


def decode_gtid_set(data: bytes) -> MysqlGtidSet:
    """Read a GTID set: the body of a PREVIOUS_GTIDS event, with or without the event's checksum.

    Raises:
        DecodeError: the bytes end early, go on behind the set, or are of a format that is not known.
    """
    try:
        found, at = _decode(data)
    except (struct.error, ValueError) as error:
        raise DecodeError(f"a GTID set cannot be read: {error}") from error
    if len(data) - at not in (0, CHECKSUM_BYTES):
        raise DecodeError(f"a GTID set ends after {at} bytes of {len(data)}")
    return MysqlGtidSet(dict(sorted(found.items())))


def decode_gtid_list(data: bytes) -> dict[tuple[int, int], int]:
    """Read the body of MariaDB's GTID_LIST event: (domain, server id) → its last sequence number before the file.

    Format (MariaDB source, `Gtid_list_log_event`): a count of 28 bits and flags of 4, then per entry domain and server
    id (u32 each) and sequence number (u64), little-endian; the event's checksum may follow.

    Raises:
        DecodeError: the bytes end early.
    """
    count = int.from_bytes(data[:4], "little") & _LIST_COUNT
    if len(data) < 4 + 16 * count:
        raise DecodeError(f"a GTID list of {count} entries is cut short at {len(data)} bytes")
    entries = struct.iter_unpack("<IIQ", data[4 : 4 + 16 * count])
    return {(domain, server): number for domain, server, number in entries}


def _decode(data: bytes) -> tuple[dict[str, tuple[Interval, ...]], int]:
    (header,) = struct.unpack_from("<Q", data, 0)
    form = header >> 56
    if form not in (_UNTAGGED, _TAGGED) or (form == _TAGGED and header & 0xFF != _TAGGED):
        raise ValueError(f"its format {form} is not known")
    sources = header if form == _UNTAGGED else header >> 8 & ((1 << _COUNT_BITS) - 1)
    at, found = 8, {}
    for _ in range(sources):
        source = str(uuid.UUID(bytes=data[at : at + 16]))
        at += 16
        if form == _TAGGED:
            tag, at = _tag(data, at)
            source = f"{source}:{tag}" if tag else source
        (count,) = struct.unpack_from("<Q", data, at)
        at += 8
        end = at + 16 * count
        if end > len(data):
            raise ValueError("it is cut short")
        found[source] = tuple((first, after - 1) for first, after in struct.iter_unpack("<QQ", data[at:end]))
        at = end
    return found, at


def _tag(data: bytes, at: int) -> tuple[str, int]:
    size, at = serialized_unsigned(data, at)
    if size > min(_TAG_BYTES, len(data) - at):
        raise ValueError("a tag is cut short")
    return data[at : at + size].decode("ascii"), at + size
