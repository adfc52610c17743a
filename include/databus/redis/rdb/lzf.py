"""LZF decompression: RDB files compress strings of more than 20 bytes. Source: liblzf 3.6, `lzf_d.c` (the format)."""

from __future__ import annotations

from databus.redis.rdb.blobs import BlobError

MOST_RATIO = 88
"""Bytes out of one byte in, at most: three bytes in give 264 out."""


def decompress(data: bytes, length: int) -> bytes:
    """Return the bytes that `data` stands for.

    Args:
        data: compressed bytes.
        length: how many they stand for.

    Raises:
        BlobError: they stand for more or less, or refer to what is not there.
    """
    if length > len(data) * MOST_RATIO:
        raise BlobError(f"{len(data)} compressed bytes cannot hold {length}")
    out = bytearray()
    at, size = 0, len(data)
    try:
        while at < size:
            control = data[at]
            at += 1
            if control < 32:
                out += data[at : at + control + 1]
                at += control + 1
                continue
            count = control >> 5
            if count == 7:
                count += data[at]
                at += 1
            start = len(out) - ((control & 31) << 8) - data[at] - 1
            at += 1
            if start < 0:
                raise BlobError(f"compressed byte {at} refers to before the beginning")
            _repeat(out, start, count + 2)
    except IndexError:
        raise BlobError("compressed bytes end inside a reference") from None
    if at != size or len(out) != length:
        raise BlobError(f"compressed bytes hold {len(out)} bytes, not {length}")
    return bytes(out)


def _repeat(out: bytearray, start: int, count: int) -> None:
    """Append `count` bytes from `start` on; they may overlap what is appended."""
    piece = out[start : start + count]
    while len(piece) < count:
        piece += piece[: count - len(piece)]
    out += piece
