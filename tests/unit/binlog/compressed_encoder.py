"""Write compressed events; from the manuals, independent of the decoder."""

from __future__ import annotations

import zlib

import pyarrow as pa

from tests.unit.binlog.log_encoder import Log
from tests.unit.binlog.value_encoder import length_encoded

ROWS_COMPRESSED = {23: 166, 24: 167, 25: 168, 30: 169, 31: 170, 32: 171}


def contents() -> Log:
    """Return a log to write the events of a payload to: without checksums, and at positions of its own."""
    log = Log(checksum=False, start=1 << 20)
    log.data.clear()
    log.ends.clear()
    log.types.clear()
    return log


def zstd(data: bytes, *, streamed: bool = True) -> bytes:
    """Compress as the server does: in a stream, so that the frame does not state its size."""
    if not streamed:
        return bytes(pa.compress(data, codec="zstd", asbytes=True))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def payload_body(
    compressed: bytes, plain_bytes: int | None, *, compression: int | None = 0, size: int | None = -1
) -> bytes:
    def member(number: int, value: int) -> bytes:
        packed = length_encoded(value) if value < 1 << 24 else b"\xfe" + value.to_bytes(8, "little")
        return bytes([number]) + length_encoded(len(packed)) + packed

    body = b"" if compression is None else member(2, compression)
    body += b"" if plain_bytes is None else member(3, plain_bytes)
    if size is not None:
        body += member(1, len(compressed) if size == -1 else size)
    return body + b"\0" + compressed


def add_payload(log: Log, inner: Log, *, streamed: bool = True) -> Log:
    """Add a payload event that holds another log's events."""
    data = bytes(inner.data)
    return log.add(40, payload_body(zstd(data, streamed=streamed), len(data)))


def zlib_part(data: bytes, *, stated: int | None = None, width: int | None = None) -> bytes:
    size = len(data) if stated is None else stated
    width = width or max(1, (size.bit_length() + 7) // 8)
    return bytes([0x80 | width]) + size.to_bytes(width, "big") + zlib.compress(data)


def compress_last(log: Log, head_bytes: int) -> Log:
    """Replace the log's last event by its compressed form: all after `head_bytes` of the body is compressed."""
    start = log.ends[-2]
    kind = log.types[-1]
    body = bytes(log.data[start + 19 : log.ends[-1] - 4 * log.checksum])
    del log.data[start:]
    log.ends.pop()
    log.types.pop()
    return log.add(165 if kind == 2 else ROWS_COMPRESSED[kind], body[:head_bytes] + zlib_part(body[head_bytes:]))
