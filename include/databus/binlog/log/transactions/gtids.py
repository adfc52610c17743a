"""GTID events: the text of a transaction's GTID.

Wire formats: MySQL 8.0 source documentation, "Gtid_event" and (8.3 and later) "Gtid_tagged_log_event"; MariaDB
Knowledge Base, "GTID_EVENT".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.kernels.gtid_texts import MOST_BYTES, write_mysql_gtids
from databus.binlog.log.packed_integers import serialized_signed, serialized_unsigned


def mysql_gtids(sources: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> pa.StringArray:
    """Return "uuid:number" for each transaction.

    Args:
        sources: int64[n, 2], the 16 bytes of each server uuid.
        numbers: int64[n].
    """
    count = len(numbers)
    offsets, text = np.empty(count + 1, dtype=np.int32), np.empty(count * MOST_BYTES, dtype=np.uint8)
    uuids = np.ascontiguousarray(sources).view(np.uint8).reshape(count, 16)
    write_mysql_gtids(uuids, np.ascontiguousarray(numbers), offsets, text)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text[: offsets[-1]]))


def mariadb_gtids(
    domains: npt.NDArray[np.int64], servers: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> pa.StringArray:
    """Return "domain-server-number" for each transaction."""
    # The sequence number is unsigned on the wire.
    return pc.binary_join_element_wise(
        _text(domains), _text(servers), _text(np.ascontiguousarray(numbers).view(np.uint64)), "-"
    )


def _text(numbers: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> pa.StringArray:
    return pa.array(numbers).cast(pa.string())


@dataclass(frozen=True)
class MariadbGtid:
    """A MariaDB GTID event that carries more than the walk's kernel reads.

    Attributes:
        sequence: sequence number, as a signed 64-bit pattern.
        domain: domain id.
        standalone: whether one statement follows rather than events up to a commit.
        undecided_alter: whether it stands before the START ALTER or ROLLBACK ALTER of a two-phase ALTER TABLE, whose
            definition takes effect at COMMIT ALTER only.
    """

    sequence: int
    domain: int
    standalone: bool
    undecided_alter: bool


_STANDALONE, _GROUP_COMMIT, _XA_PHASE = 0x01, 0x02, 0xC0
# flags_extra of the server's Gtid_log_event: several engines, START/COMMIT/ROLLBACK ALTER, thread id (11.5 and later).
_START_ALTER, _ROLLBACK_ALTER, _KNOWN_EXTRA = 0x02, 0x08, 0x1F


def parse_mariadb_gtid(body: bytes) -> MariadbGtid:
    """Read a MariaDB GTID event's body.

    Raises:
        ValueError, IndexError: it is cut short, or has a flag that is not known.
    """
    flags, at = body[12], 13
    if flags & _GROUP_COMMIT:
        at += 8
    if flags & _XA_PHASE:
        at += 6 + body[at + 4] + body[at + 5]
    extra = body[at] if at < len(body) else 0
    if extra & ~_KNOWN_EXTRA:
        raise ValueError(f"the extra flags {extra:#04x} are not known")
    return MariadbGtid(
        int.from_bytes(body[:8], "little", signed=True),
        int.from_bytes(body[8:12], "little"),
        bool(flags & _STANDALONE),
        bool(extra & (_START_ALTER | _ROLLBACK_ALTER)),
    )


@dataclass(frozen=True)
class TaggedGtid:
    """A GTID_TAGGED event.

    Attributes:
        text: "uuid:tag:number", or "uuid:number" for the empty tag.
        commit_us: commit time at the original server, microseconds since the epoch; 0 where the event has none.
    """

    text: str
    commit_us: int


_SIGNED_FIELDS = frozenset({2, 4, 5})


def parse_tagged_gtid(body: bytes) -> TaggedGtid:
    """Read a GTID_TAGGED event's body.

    Raises:
        ValueError: the body is cut short, or holds a field that may not be ignored and is not known.
    """
    _, at = serialized_unsigned(body, 0)
    size, at = serialized_unsigned(body, at)
    if size > len(body):
        raise ValueError("a tagged GTID is cut short")
    last_required, at = serialized_unsigned(body, at)
    numbers: dict[int, int] = {}
    source, tag = b"", ""
    while at < size:
        field, at = serialized_unsigned(body, at)
        if field == 1:
            source, at = _bytes(body, at, 16)
        elif field == 3:
            length, at = serialized_unsigned(body, at)
            if at + length > len(body):
                raise ValueError("a GTID tag is cut short")
            tag, at = body[at : at + length].decode("ascii"), at + length
        elif field in _SIGNED_FIELDS:
            numbers[field], at = serialized_signed(body, at)
        elif field <= max(11, last_required):
            if field > 11:
                raise ValueError(f"field {field} of a tagged GTID is unknown and may not be ignored")
            numbers[field], at = serialized_unsigned(body, at)
        else:
            break
    if len(source) != 16 or 2 not in numbers:
        raise ValueError("a tagged GTID lacks its uuid or number")
    server = str(uuid.UUID(bytes=source))
    text = f"{server}:{tag}:{numbers[2]}" if tag else f"{server}:{numbers[2]}"
    return TaggedGtid(text, numbers.get(7, numbers.get(6, 0)))


def _bytes(body: bytes, at: int, count: int) -> tuple[bytes, int]:
    """Read a fixed array of bytes, each stored as an integer of variable length."""
    out = bytearray()
    for _ in range(count):
        value, at = serialized_unsigned(body, at)
        if value > 255:
            raise ValueError("a uuid byte is out of range")
        out.append(value)
    return bytes(out), at
