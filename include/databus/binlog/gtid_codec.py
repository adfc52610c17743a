"""GTID sets in binary form, as COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS events have it (MySQL `Gtid_set::encode`)."""

from __future__ import annotations

import struct
import uuid

from databus.core.errors import DecodeError, OffsetInvalidError
from databus.core.gtid import MysqlGtidSet


def encode_gtid_set(gtids: MysqlGtidSet) -> bytes:
    """Encode a GTID set as COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS events carry it.

    Format: number of sources (u64); per source 16 bytes of uuid, number of intervals (u64), per interval first and
        last + 1 (u64).

    Raises:
        OffsetInvalidError: the set holds tagged GTIDs, which have another format.
    """
    encoded = [struct.pack("<Q", len(gtids.intervals))]
    for source, intervals in gtids.intervals.items():
        if ":" in source:
            raise OffsetInvalidError(f"GTIDs with a tag ({source}) are not supported")
        encoded.append(uuid.UUID(source).bytes + struct.pack("<Q", len(intervals)))
        encoded.extend(struct.pack("<QQ", first, last + 1) for first, last in intervals)
    return b"".join(encoded)


def decode_gtid_set(data: bytes) -> MysqlGtidSet:
    """Read what `encode_gtid_set` describes: the body of a PREVIOUS_GTIDS event.

    Raises:
        DecodeError: the bytes end early, or are of the format with tags.
    """
    try:
        (sources,) = struct.unpack_from("<Q", data, 0)
        if sources >> 56:
            raise DecodeError("a GTID set with tags (MySQL 8.3 and later) is not supported")
        at, found = 8, {}
        for _ in range(sources):
            source = str(uuid.UUID(bytes=data[at : at + 16]))
            (count,) = struct.unpack_from("<Q", data, at + 16)
            at += 24
            found[source] = tuple((a, b - 1) for a, b in struct.iter_unpack("<QQ", data[at : at + 16 * count]))
            at += 16 * count
    except (struct.error, ValueError) as error:
        raise DecodeError(f"a GTID set cannot be read: {error}") from error
    return MysqlGtidSet(dict(sorted(found.items())))
