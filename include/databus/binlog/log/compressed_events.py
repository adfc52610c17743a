"""Compressed events one by one: MySQL's TRANSACTION_PAYLOAD (zstd) and MariaDB's …_COMPRESSED events (zlib).

Wire format: MySQL 8.0 source documentation, "Transaction_payload_event" (fields of type, length and value up to an end
mark, then the payload: the transaction's events without checksums); MariaDB Knowledge Base, "Rows_event_v1/v2,
Rows_compressed_event_v1" and "Query_compressed_event" (the rows, or the statement, behind a byte of 0x80 + length
bytes and that length, highest byte first).
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.kernels.crc import crc32
from databus.binlog.kernels.expansion import (
    CONTENTS_BEGIN,
    CONTENTS_CUT,
    CONTENTS_END,
    CONTENTS_OK,
    CONTENTS_TYPE,
    G_WIDTH,
    check_contents,
    read_payload_frames,
)
from databus.binlog.kernels.walk import LARGE_BYTES
from databus.binlog.log.events import (
    FLAG_ARTIFICIAL,
    HEADER_BYTES,
    ROWS_TYPES,
    EventType,
    FormatDescription,
    parse_header,
    type_name,
)
from databus.binlog.log.mapped import WINDOW_BYTES, crc32_of, release, windows
from databus.core.errors.source import DecodeError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

PAYLOAD = EventType.TRANSACTION_PAYLOAD

_ZSTD = 0
_END_MARK, _SIZE, _COMPRESSION, _PLAIN_SIZE = range(4)
_MOST_ZSTD_RATIO = 1 << 16
"""A block of zstd (RFC 8878) gives at most 128 KiB and takes at least four bytes."""
_MOST_ZLIB_RATIO = 1033
"""Deflate's limit (zlib, "Technical Details")."""
_MAX_EVENT_BYTES = (1 << 32) - 1
_CODEC = pa.Codec("zstd")
_AT_ONCE_BYTES = 1 << 16
_ZLIB_BYTES = 1 << 20

_PLAIN_TYPES = {
    EventType.QUERY_COMPRESSED: EventType.QUERY,
    EventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_UPDATES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS)


def _allowed() -> Bytes:
    allowed = np.zeros(256, dtype=np.uint8)
    for kind in (
        *ROWS_TYPES, EventType.QUERY, EventType.TABLE_MAP, EventType.XID, EventType.ROWS_QUERY, EventType.XA_PREPARE,
        EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.IGNORABLE,
    ):  # fmt: skip
        allowed[kind] = 1
    return allowed


_ALLOWED = _allowed()
"""Events that a compressed transaction may hold: none of the file or of other transactions, and no further payload."""

_WRONG_CONTENTS = {
    CONTENTS_CUT: "holds bytes that are no whole events",
    CONTENTS_TYPE: "holds an event that no compressed transaction can hold",
    CONTENTS_BEGIN: "does not begin with the transaction's BEGIN",
    CONTENTS_END: "does not end with the transaction's end",
}
_DAMAGED = "The log was damaged at rest or on the way: compare with mysqlbinlog at this position."


@dataclass(frozen=True)
class ExpansionFault:
    """Why a compressed event cannot be expanded.

    Attributes:
        kind: its type byte.
        at: its offset in the raw bytes.
        problem: what is wrong.
        hint: what to do.
    """

    kind: int
    at: int
    problem: str
    hint: str = _DAMAGED

    def error(self, where: str) -> DecodeError:
        """Return the error, given "file:position" of the event."""
        return DecodeError(f"{where}: event {type_name(self.kind)} {self.problem}", hint=self.hint)


class CompressedEvent(NamedTuple):
    """Compressed event whose frame has been read.

    Attributes:
        kind: its type byte.
        at: its offset in the raw bytes.
        size_bytes: its size there.
        log_pos: position that its header states.
        head: bytes that stand before the decompressed ones in the plain event; empty for a transaction.
        data_at: offset of the compressed bytes.
        data_end: offset after them.
        data_bytes: their size when decompressed, as the event states it.
    """

    kind: int
    at: int
    size_bytes: int
    log_pos: int
    head: bytes
    data_at: int
    data_end: int
    data_bytes: int

    @property
    def plain_bytes(self) -> int:
        """Size of what it expands to."""
        return len(self.head) + self.data_bytes

    def expand(self, raw: Bytes, buffer: Bytes, at: int) -> ExpansionFault | None:
        """Write the plain events to buffer[at : at + plain_bytes]; returns what is wrong, if anything is."""
        data = pa.py_buffer(raw.data[self.data_at : self.data_end])
        start, end = at + len(self.head), at + self.plain_bytes
        decompress: Callable[[pa.Buffer, Bytes], str] = _unzstd if self.kind == PAYLOAD else _unzlib
        problem = decompress(data, buffer[start:end])
        if problem:
            return ExpansionFault(self.kind, self.at, problem)
        if self.kind == PAYLOAD:
            outcome = int(check_contents(buffer, start, end, _ALLOWED))
            return None if outcome == CONTENTS_OK else ExpansionFault(self.kind, self.at, _WRONG_CONTENTS[outcome])
        buffer[at:start] = np.frombuffer(self.head, np.uint8)
        return None


def read_payloads(raw: Bytes, found: Ints, log: FormatDescription) -> Iterator[CompressedEvent | ExpansionFault]:
    """Yield the frames of payload events at these offsets; a kernel reads the sound ones."""
    if any(parse_header(raw[at : at + HEADER_BYTES].tobytes()).size_bytes > LARGE_BYTES for at in found[-1:].tolist()):
        # Only the last of the events that are walked at once may be large: its checksum is not for one call.
        for at in found.tolist():
            yield read_compressed(raw, at, log)
        return
    frames = np.empty((len(found), G_WIDTH), dtype=np.int64)
    read_payload_frames(raw, found, log.checksum_bytes, _MOST_ZSTD_RATIO, frames)
    for at, size, log_pos, data_at, data_end, plain in frames.tolist():
        if plain < 0:
            yield read_compressed(raw, at, log)
        else:
            yield CompressedEvent(PAYLOAD, at, size, log_pos, b"", data_at, data_end, plain)


def read_compressed(raw: Bytes, at: int, log: FormatDescription) -> CompressedEvent | ExpansionFault:
    """Read the frame of the compressed event at an offset, after checking its checksum."""
    header = parse_header(raw[at : at + HEADER_BYTES].tobytes())
    kind = header.event_type
    end = at + header.size_bytes - log.checksum_bytes
    if end < at + HEADER_BYTES:
        return ExpansionFault(kind, at, f"has the impossible size of {header.size_bytes} bytes")
    if log.checksum and _crc(raw, at, end) != int.from_bytes(raw[end : end + 4].tobytes(), "little"):
        return ExpansionFault(kind, at, "does not match its CRC32: the log was damaged at rest or on the way")
    if header.flags & FLAG_ARTIFICIAL:
        return ExpansionFault(kind, at, "says that it is not in the log file")
    read = _read_payload if kind == PAYLOAD else _read_single
    try:
        head, data_at, size = read(raw, at, end)
    except (IndexError, ValueError) as error:
        return ExpansionFault(kind, at, f"cannot be read: {error}")
    most = (_MOST_ZSTD_RATIO if kind == PAYLOAD else _MOST_ZLIB_RATIO) * (end - data_at + 1)
    if size > most:
        return ExpansionFault(kind, at, f"states that {end - data_at} bytes hold {size}, which no compression can do")
    return CompressedEvent(kind, at, header.size_bytes, header.log_pos, head, data_at, end, size)


def _crc(raw: Bytes, at: int, end: int) -> int:
    return crc32_of(raw[at:end]) if end - at > LARGE_BYTES else int(crc32(raw, at, end))


def _read_payload(raw: Bytes, at: int, end: int) -> tuple[bytes, int, int]:
    fields: dict[int, int] = {}
    head = raw[at + HEADER_BYTES : min(end, at + HEADER_BYTES + 256)].tobytes()
    place = 0
    while True:
        number, place = _packed(head, place)
        if number == _END_MARK:
            break
        length, place = _packed(head, place)
        if length > len(head) - place:
            raise ValueError("a field reaches past its end")
        if number in fields:
            raise ValueError(f"field {number} stands there twice")
        fields[number] = _packed(head[place : place + length], 0)[0]
        place += length
    compression = fields.get(_COMPRESSION)
    if compression != _ZSTD:
        name = (
            "the compression type 255 (NONE)" if compression == 255 else f"the unknown compression type {compression}"
        )
        raise ValueError(f"it has {name}")
    if _PLAIN_SIZE not in fields or _SIZE not in fields:
        raise ValueError("it does not state its sizes")
    data_at = at + HEADER_BYTES + place
    if fields[_SIZE] != end - data_at:
        raise ValueError(f"it states a payload of {fields[_SIZE]} bytes and holds {end - data_at}")
    return b"", data_at, fields[_PLAIN_SIZE]


def _read_single(raw: Bytes, at: int, end: int) -> tuple[bytes, int, int]:
    """Read a MariaDB event; what stands before its compressed part is the same in the plain one."""
    plain = _PLAIN_TYPES[EventType(int(raw[at + 4]))]
    data_at = at + HEADER_BYTES + (_query_head if plain == EventType.QUERY else _rows_head)(raw, at, end, plain)
    if data_at + 1 >= end:
        raise ValueError("it ends before its compressed part")
    first = int(raw[data_at])
    width = first & 0x07
    if first & 0x80 == 0 or first & 0x78 or not 1 <= width <= 4 or data_at + 1 + width > end:
        raise ValueError(f"its compressed part begins with {first:#04x}, which is not zlib's mark")
    size = int.from_bytes(raw[data_at + 1 : data_at + 1 + width].tobytes(), "big")
    head = bytearray(raw[at:data_at].tobytes())
    if len(head) + size > _MAX_EVENT_BYTES:
        raise ValueError(f"it states a size of {size} bytes, more than an event can have")
    head[4] = plain
    head[9:13] = (len(head) + size).to_bytes(4, "little")
    head[13:17] = bytes(4)
    return bytes(head), data_at + 1 + width, size


def _query_head(raw: Bytes, at: int, end: int, _: int) -> int:
    body = raw[at + HEADER_BYTES : min(end, at + HEADER_BYTES + 13)].tobytes()
    return 13 + int.from_bytes(body[11:13], "little") + body[8] + 1


def _rows_head(raw: Bytes, at: int, end: int, plain: int) -> int:
    body = raw[at + HEADER_BYTES : min(end, at + HEADER_BYTES + (1 << 17))].tobytes()
    place = 8
    if plain >= EventType.WRITE_ROWS:
        place += max(2, int.from_bytes(body[8:10], "little"))
    columns, place = _packed(body, place)
    return place + (columns + 7) // 8 * (2 if plain in _UPDATES else 1)


def _packed(data: bytes, at: int) -> tuple[int, int]:
    """Read a packed integer; returns it and the offset after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}.get(first, 0)
    if not width or at + 1 + width > len(data):
        raise ValueError("a packed integer is cut short")
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def _unzstd(data: pa.Buffer, target: Bytes) -> str:
    """Decompress to fill the target exactly; returns what is wrong."""
    if len(target) <= _AT_ONCE_BYTES:
        # Half the time for small ones; what it does not like, the stream names.
        with contextlib.suppress(OSError, pa.ArrowInvalid):
            target[:] = np.frombuffer(_CODEC.decompress(data, decompressed_size=len(target)), np.uint8)
            return ""
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            got = sum(stream.readinto(window) for window in windows(target))
            more = stream.read(1)
    except (OSError, pa.ArrowInvalid) as error:
        return f"holds no sound zstd stream: {error}"
    if got != len(target) or more:
        return f"states {len(target)} bytes uncompressed and holds {'more' if more else got}"
    return ""


def _unzlib(data: pa.Buffer, target: Bytes) -> str:
    """Decompress to fill the target exactly; returns what is wrong."""
    stream = zlib.decompressobj()
    try:
        got = 0
        for start in range(0, len(data), _ZLIB_BYTES):
            left = data[start : start + _ZLIB_BYTES]
            while not stream.eof and got <= len(target):
                # One byte more than stated is enough to see that there is more; 0 would mean no bound.
                plain = stream.decompress(left, min(len(target) - got + 1, WINDOW_BYTES))
                fits = target[got : got + len(plain)]
                fits[:] = np.frombuffer(plain, np.uint8, len(fits))
                release(fits)
                got, left = got + len(plain), stream.unconsumed_tail
                if not left:
                    break
            unused = len(stream.unused_data) + max(0, len(data) - start - _ZLIB_BYTES)
            if stream.eof or got > len(target):
                break
    except zlib.error as error:
        return f"holds no sound zlib stream: {error}"
    if got != len(target) or not stream.eof:
        return f"states {len(target)} bytes uncompressed and holds {got}{'' if stream.eof else ' or more'}"
    return f"holds {unused} bytes after its zlib stream" if unused else ""
